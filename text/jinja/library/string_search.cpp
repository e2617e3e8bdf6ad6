// The methods of Python's str that search in a string, such as find(), and those that return a
// boolean, such as isdigit().
#include <algorithm>

#include "base/status.h"
#include "text/jinja/library/builtins.h"
#include "text/jinja/library/string_ops.h"
#include "text/jinja/runtime/interpreter.h"
#include "text/jinja/runtime/operations.h"
#include "text/jinja/runtime/python_characters.h"

namespace incipit::jinja {
namespace {

using Result = absl::StatusOr<Value>;

// Returns the range of bytes in which a method such as find() searches. The optional arguments
// `start` and `end` of the method limit the range. Returns nullopt if `start` is after `end`.
absl::StatusOr<std::optional<ByteRange>> SearchedPart(Interpreter& in, const Arguments& args) {
  const Text& text = args[0].text();
  INCIPIT_RETURN_IF_ERROR(in.heap().ChargeBytes(2 * text.bytes.size()));
  const Int size = static_cast<Int>(text.num_chars);
  const auto index = [&](size_t parameter, Int otherwise) -> absl::StatusOr<Int> {
    if (args.IsNone(parameter)) return otherwise;
    INCIPIT_ASSIGN_OR_RETURN(const Int given, args.Index(parameter, otherwise));
    return given < 0 ? std::max<Int>(given < -size ? 0 : given + size, 0) : given;
  };
  INCIPIT_ASSIGN_OR_RETURN(const Int start, index(2, 0));
  INCIPIT_ASSIGN_OR_RETURN(Int end, index(3, size));
  end = std::min(end, size);
  if (start > end) return std::optional<ByteRange>();
  return std::optional(ByteRange{text.OffsetOf(static_cast<size_t>(start)),
                                 text.OffsetOf(static_cast<size_t>(end))});
}

template <bool from_right, bool must_exist>
Result Find(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const Value needle, args.String(1));
  INCIPIT_ASSIGN_OR_RETURN(const std::optional<ByteRange> part, SearchedPart(in, args));
  std::optional<size_t> found;
  if (part) {
    const std::string_view searched = args[0].bytes().substr(part->begin, part->end - part->begin);
    found =
        from_right ? FindLastBytes(searched, needle.bytes()) : FindBytes(searched, needle.bytes());
  }
  if (found) {
    return Value::Integer(static_cast<Int>(args[0].text().CharIndexOf(part->begin + *found)));
  }
  if (must_exist) return InvalidArgument("substring not found");
  return Value::Integer(-1);
}

Result CountMethod(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const Value needle, args.String(1));
  INCIPIT_ASSIGN_OR_RETURN(const std::optional<ByteRange> part, SearchedPart(in, args));
  if (!part) return Value::Integer(0);
  std::string_view searched = args[0].bytes().substr(part->begin, part->end - part->begin);
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
Result HasAffix(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const std::optional<ByteRange> part, SearchedPart(in, args));
  const std::vector<Value> candidates =
      args[1].is(Kind::kTuple) ? args[1].list().items : std::vector<Value>{args[1]};
  for (const Value& candidate : candidates) {
    if (!candidate.is_string()) {
      return InvalidArgument(
          "startswith() and endswith() take a string or a tuple of strings, "
          "not '{}'",
          TypeName(candidate));
    }
    if (!part) continue;
    const std::string_view text = args[0].bytes().substr(part->begin, part->end - part->begin);
    if (at_start ? text.starts_with(candidate.bytes()) : text.ends_with(candidate.bytes())) {
      return Value::Bool(true);
    }
  }
  return Value::Bool(false);
}

// Returns true if `predicate` is true for every character of the string. As in Python, returns
// false for an empty string, except if `predicate` is IsPrintable.
template <bool (*predicate)(uint32_t)>
Result All(Interpreter& in, Arguments& args) {
  const std::string_view bytes = args[0].bytes();
  INCIPIT_RETURN_IF_ERROR(in.heap().ChargeBytes(8 * bytes.size()));
  for (size_t i = 0; i < bytes.size();) {
    const CodePoint c = DecodeAt(bytes, i);
    if (!predicate(c.value)) return Value::Bool(false);
    i += c.size;
  }
  return Value::Bool(!bytes.empty() || predicate == &IsPrintable);
}

Result IsAscii(Interpreter&, Arguments& args) { return Value::Bool(args[0].text().is_ascii()); }

template <bool upper>
Result HasCase(Interpreter& in, Arguments& args) {
  INCIPIT_RETURN_IF_ERROR(in.heap().ChargeBytes(8 * args[0].bytes().size()));
  return Value::Bool(HasOnlyCase(args[0].bytes(), upper));
}

constexpr NamedBuiltin Search(std::string_view name, decltype(NamedBuiltin::function) function) {
  return {name, function, 2, {"self", "sub", "start", "end"}, 4};
}
constexpr NamedBuiltin Question(std::string_view name, decltype(NamedBuiltin::function) function) {
  return {name, function, 1, {"self"}, 1};
}

constexpr NamedBuiltin kSearchMethods[] = {
    Search("count", CountMethod),
    Search("endswith", HasAffix<false>),
    Search("find", Find<false, false>),
    Search("index", Find<false, true>),
    Search("rfind", Find<true, false>),
    Search("rindex", Find<true, true>),
    Search("startswith", HasAffix<true>),
    Question("isalnum", All<IsAlphanumeric>),
    Question("isalpha", All<IsAlphabetic>),
    Question("isascii", IsAscii),
    Question("isdecimal", All<IsDecimal>),
    Question("isdigit", All<IsDigit>),
    Question("islower", HasCase<false>),
    Question("isnumeric", All<IsNumeric>),
    Question("isprintable", All<IsPrintable>),
    Question("isspace", All<IsSpace>),
    Question("isupper", HasCase<true>),
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

Builtins StringSearchMethods() { return kSearchMethods; }

}  // namespace incipit::jinja
