// Methods of str that search and that answer yes or no.
#include <algorithm>

#include "base/status.h"
#include "text/jinja/arguments.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/methods.h"
#include "text/jinja/operations.h"
#include "text/jinja/string_ops.h"
#include "text/jinja/unicode.h"

namespace incipit::jinja {
namespace {

using Result = absl::StatusOr<Value>;

// The part of self between the optional start and end, in bytes; nullopt if start is past the end.
absl::StatusOr<std::optional<ByteRange>> SearchedPart(const BoundArguments& bound) {
  const Text& text = bound[0].text();
  const Int size = static_cast<Int>(text.num_chars);
  const auto index = [&](size_t parameter, Int otherwise) -> absl::StatusOr<Int> {
    if (bound.IsNone(parameter)) return otherwise;
    INCIPIT_ASSIGN_OR_RETURN(const Int given, bound.Index(parameter, otherwise));
    return given < 0 ? std::max<Int>(given < -size ? 0 : given + size, 0) : given;
  };
  INCIPIT_ASSIGN_OR_RETURN(const Int start, index(2, 0));
  INCIPIT_ASSIGN_OR_RETURN(Int end, index(3, size));
  end = std::min(end, size);
  if (start > end) return std::optional<ByteRange>();
  return std::optional(ByteRange{text.OffsetOf(static_cast<size_t>(start)),
                                 text.OffsetOf(static_cast<size_t>(end))});
}

absl::StatusOr<BoundArguments> SearchArguments(Interpreter& in, std::string_view name,
                                               Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(
      BoundArguments bound,
      BoundArguments::Bind({name, {"self", "sub", "start", "end"}, 2, 4}, arguments));
  INCIPIT_RETURN_IF_ERROR(in.heap().ChargeBytes(2 * bound[0].bytes().size()));
  return bound;
}

enum class OnMissing : uint8_t { kMinusOne, kError };

template <bool from_right, OnMissing on_missing>
Result Find(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound, SearchArguments(in, "find", arguments));
  INCIPIT_ASSIGN_OR_RETURN(const Value needle, bound.String(1));
  INCIPIT_ASSIGN_OR_RETURN(const std::optional<ByteRange> part, SearchedPart(bound));
  std::optional<size_t> found;
  if (part) {
    const std::string_view searched = bound[0].bytes().substr(part->begin, part->end - part->begin);
    found =
        from_right ? FindLastBytes(searched, needle.bytes()) : FindBytes(searched, needle.bytes());
  }
  if (found) {
    return Value::Integer(static_cast<Int>(bound[0].text().CharIndexOf(part->begin + *found)));
  }
  if (on_missing == OnMissing::kError) return InvalidArgument("substring not found");
  return Value::Integer(-1);
}

Result CountMethod(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound, SearchArguments(in, "count", arguments));
  INCIPIT_ASSIGN_OR_RETURN(const Value needle, bound.String(1));
  INCIPIT_ASSIGN_OR_RETURN(const std::optional<ByteRange> part, SearchedPart(bound));
  if (!part) return Value::Integer(0);
  std::string_view searched = bound[0].bytes().substr(part->begin, part->end - part->begin);
  if (needle.bytes().empty()) {
    return Value::Integer(static_cast<Int>(CountCodePoints(searched)) + 1);
  }
  Int count = 0;
  while (const std::optional<size_t> found = FindBytes(searched, needle.bytes())) {
    ++count;
    searched.remove_prefix(*found + needle.bytes().size());
  }
  return Value::Integer(count);
}

template <bool at_start>
Result HasAffix(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound,
                           SearchArguments(in, "startswith", arguments));
  INCIPIT_ASSIGN_OR_RETURN(const std::optional<ByteRange> part, SearchedPart(bound));
  const std::vector<Value> candidates =
      bound[1].is(Kind::kTuple) ? bound[1].list().items : std::vector<Value>{bound[1]};
  for (const Value& candidate : candidates) {
    if (!candidate.is_string()) {
      return InvalidArgument(
          "startswith() and endswith() take a string or a tuple of strings, "
          "not '{}'",
          TypeName(candidate));
    }
    if (!part) continue;
    const std::string_view text = bound[0].bytes().substr(part->begin, part->end - part->begin);
    if (at_start ? text.starts_with(candidate.bytes()) : text.ends_with(candidate.bytes())) {
      return Value::Bool(true);
    }
  }
  return Value::Bool(false);
}

// Whether there are characters, and all of them are.
template <bool (*predicate)(uint32_t)>
Result All(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound,
                           BoundArguments::Bind({"isalpha", {"self"}, 1, 1}, arguments));
  const std::string_view bytes = bound[0].bytes();
  INCIPIT_RETURN_IF_ERROR(in.heap().ChargeBytes(8 * bytes.size()));
  for (size_t i = 0; i < bytes.size();) {
    const CodePoint c = DecodeAt(bytes, i);
    if (!predicate(c.value)) return Value::Bool(false);
    i += c.size;
  }
  // An empty string is printable and ASCII, and nothing else.
  return Value::Bool(!bytes.empty() || predicate == &IsPrintable);
}

Result IsAscii(Interpreter&, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound,
                           BoundArguments::Bind({"isascii", {"self"}, 1, 1}, arguments));
  return Value::Bool(bound[0].text().is_ascii());
}

template <bool upper>
Result IsCase(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound,
                           BoundArguments::Bind({"islower", {"self"}, 1, 1}, arguments));
  INCIPIT_RETURN_IF_ERROR(in.heap().ChargeBytes(8 * bound[0].bytes().size()));
  return Value::Bool(HasOnlyCase(bound[0].bytes(), upper));
}

Result IsTitle(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound,
                           BoundArguments::Bind({"istitle", {"self"}, 1, 1}, arguments));
  const std::string_view bytes = bound[0].bytes();
  INCIPIT_RETURN_IF_ERROR(in.heap().ChargeBytes(8 * bytes.size()));
  bool cased = false, after_cased = false;
  for (size_t i = 0; i < bytes.size();) {
    const CodePoint c = DecodeAt(bytes, i);
    const bool capital = IsUppercase(c.value) || IsTitlecase(c.value);
    const bool small = IsLowercase(c.value);
    if ((capital && after_cased) || (small && !after_cased)) return Value::Bool(false);
    after_cased = capital || small;
    cased |= after_cased;
    i += c.size;
  }
  return Value::Bool(cased);
}

Result IsIdentifier(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound,
                           BoundArguments::Bind({"isidentifier", {"self"}, 1, 1}, arguments));
  const std::string_view bytes = bound[0].bytes();
  INCIPIT_RETURN_IF_ERROR(in.heap().ChargeBytes(8 * bytes.size()));
  for (size_t i = 0; i < bytes.size();) {
    const CodePoint c = DecodeAt(bytes, i);
    const bool fits = i == 0 ? IsIdentifierStart(c.value) : IsIdentifierContinue(c.value);
    if (!fits) return Value::Bool(false);
    i += c.size;
  }
  return Value::Bool(!bytes.empty());
}

constexpr NamedBuiltin kSearchMethods[] = {
    {"find", Find<false, OnMissing::kMinusOne>},
    {"rfind", Find<true, OnMissing::kMinusOne>},
    {"index", Find<false, OnMissing::kError>},
    {"rindex", Find<true, OnMissing::kError>},
    {"count", CountMethod},
    {"startswith", HasAffix<true>},
    {"endswith", HasAffix<false>},
};
constexpr NamedBuiltin kTestMethods[] = {
    {"isalpha", All<IsAlphabetic>},
    {"isalnum", All<IsAlphanumeric>},
    {"isdecimal", All<IsDecimal>},
    {"isdigit", All<IsDigit>},
    {"isnumeric", All<IsNumeric>},
    {"isspace", All<IsSpace>},
    {"isprintable", All<IsPrintable>},
    {"isascii", IsAscii},
    {"islower", IsCase<false>},
    {"isupper", IsCase<true>},
    {"istitle", IsTitle},
    {"isidentifier", IsIdentifier},
};

}  // namespace

bool HasOnlyCase(std::string_view bytes, bool upper) {
  bool cased = false;
  for (size_t i = 0; i < bytes.size();) {
    const CodePoint c = DecodeAt(bytes, i);
    if (IsTitlecase(c.value) || (upper ? IsLowercase(c.value) : IsUppercase(c.value))) return false;
    cased |= upper ? IsUppercase(c.value) : IsLowercase(c.value);
    i += c.size;
  }
  return cased;
}

std::span<const NamedBuiltin> StringSearchMethods() { return kSearchMethods; }
std::span<const NamedBuiltin> StringTestMethods() { return kTestMethods; }

}  // namespace incipit::jinja
