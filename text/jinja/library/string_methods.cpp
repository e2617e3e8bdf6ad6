// The methods of Python's str, such as upper() and find(), and the filters that call these methods,
// such as `upper`. The filters convert values of other types to strings.
#include <algorithm>

#include "base/status.h"
#include "text/jinja/library/builtins.h"
#include "text/jinja/library/string_ops.h"
#include "text/jinja/runtime/interpreter.h"
#include "text/jinja/runtime/operations.h"
#include "text/jinja/runtime/python_characters.h"

namespace incipit::jinja {
namespace {

template <CaseOp op>
Result Case(Interpreter& in, Arguments& args) {
  return ChangeCase(in, args[0], op);
}

template <Side side>
Result StripSide(Interpreter& in, Arguments& args) {
  if (args.IsNone(1)) return Strip(in, args[0], nullptr, side);
  INCIPIT_ASSIGN_OR_RETURN(const Value chars, args.String(1));
  return Strip(in, args[0], &chars, side);
}

template <bool from_right>
Result SplitMethod(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const Int splits_max, args.Index(2, -1));
  Value separator;
  if (!args.IsNone(1)) {
    INCIPIT_ASSIGN_OR_RETURN(separator, args.String(1));
  }
  INCIPIT_ASSIGN_OR_RETURN(
      std::vector<Value> parts,
      Split(in, args[0], args.IsNone(1) ? nullptr : &separator, splits_max, from_right));
  return in.heap().MakeList(std::move(parts));
}

Result SplitLinesMethod(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const bool keep_ends, args.Truth(in, 1));
  INCIPIT_ASSIGN_OR_RETURN(std::vector<Value> lines, SplitLines(in, args[0], keep_ends));
  return in.heap().MakeList(std::move(lines));
}

Result ReplaceMethod(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const Value old_text, args.String(1));
  INCIPIT_ASSIGN_OR_RETURN(Value new_text, args.String(2));
  INCIPIT_ASSIGN_OR_RETURN(const Int count, args.Index(3, -1));
  if (args[0].is_markup()) {
    TextBuilder escaped;
    INCIPIT_RETURN_IF_ERROR(AppendEscaped(in, new_text, escaped));
    INCIPIT_ASSIGN_OR_RETURN(new_text, in.heap().Finish(escaped));
  }
  return ReplaceAll(in, args[0], old_text, new_text, count);
}

Result JoinMethod(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const std::vector<Value> items, ToVector(in, args[1]));
  const bool markup = args[0].is_markup();
  TextBuilder builder;
  bool first = true;
  for (const Value& item : items) {
    if (!item.is_string() && !markup) {
      return InvalidArgument("join() expects strings, found '{}'", TypeName(item));
    }
    if (!std::exchange(first, false)) builder.Append(args[0].text());
    INCIPIT_RETURN_IF_ERROR(markup ? AppendEscaped(in, item, builder)
                                   : AppendString(in, item, builder));
  }
  return in.heap().Finish(builder, markup);
}

template <bool is_prefix>
Result RemoveAffix(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const Value affix, args.String(1));
  const std::string_view bytes = args[0].bytes();
  const size_t size = affix.bytes().size();
  const bool has_affix =
      is_prefix ? bytes.starts_with(affix.bytes()) : bytes.ends_with(affix.bytes());
  if (!has_affix) return args[0];
  return is_prefix ? in.heap().Substring(args[0], size, bytes.size())
                   : in.heap().Substring(args[0], 0, bytes.size() - size);
}

// Returns the range of bytes in which a method such as find() searches, from its optional arguments
// `start` and `end`. Returns nullopt if `start` is after `end`.
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

template <bool must_exist>
Result Find(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const Value needle, args.String(1));
  INCIPIT_ASSIGN_OR_RETURN(const std::optional<ByteRange> part, SearchedPart(in, args));
  std::optional<size_t> found;
  if (part) {
    const std::string_view searched = args[0].bytes().substr(part->begin, part->end - part->begin);
    found = FindBytes(searched, needle.bytes());
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

// Returns true if the string is not empty and `predicate` is true for every character.
template <bool (*predicate)(uint32_t)>
Result All(Interpreter& in, Arguments& args) {
  const std::string_view bytes = args[0].bytes();
  INCIPIT_RETURN_IF_ERROR(in.heap().ChargeBytes(8 * bytes.size()));
  return Value::Bool(!bytes.empty() && SkipWhile(bytes, 0, predicate) == bytes.size());
}

template <bool upper>
Result HasCase(Interpreter& in, Arguments& args) {
  INCIPIT_RETURN_IF_ERROR(in.heap().ChargeBytes(8 * args[0].bytes().size()));
  return Value::Bool(HasOnlyCase(args[0].bytes(), upper));
}

constexpr NamedBuiltin Search(std::string_view name, decltype(NamedBuiltin::function) function) {
  return {name, function, 2, {"self", "sub", "start", "end"}, 4};
}
constexpr NamedBuiltin OnlySelf(std::string_view name, decltype(NamedBuiltin::function) function) {
  return {name, function, 1, {"self"}, 1};
}

constexpr NamedBuiltin kMethods[] = {
    OnlySelf("capitalize", Case<CaseOp::kCapitalize>),
    Search("count", CountMethod),
    Search("endswith", HasAffix<false>),
    Search("find", Find<false>),
    Search("index", Find<true>),
    OnlySelf("isalnum", All<IsAlphanumeric>),
    OnlySelf("isalpha", All<IsAlphabetic>),
    OnlySelf("isdigit", All<IsDigit>),
    OnlySelf("islower", HasCase<false>),
    OnlySelf("isspace", All<IsSpace>),
    OnlySelf("isupper", HasCase<true>),
    {"join", JoinMethod, 2, {"self", "iterable"}, 2},
    OnlySelf("lower", Case<CaseOp::kLower>),
    {"lstrip", StripSide<Side::kLeft>, 1, {"self", "chars"}, 2},
    {"removeprefix", RemoveAffix<true>, 2, {"self", "affix"}, 2},
    {"removesuffix", RemoveAffix<false>, 2, {"self", "affix"}, 2},
    {"replace", ReplaceMethod, 3, {"self", "old", "new", "count"}, 4},
    {"rsplit", SplitMethod<true>, 1, {"self", "sep", "maxsplit"}, 1},
    {"rstrip", StripSide<Side::kRight>, 1, {"self", "chars"}, 2},
    {"split", SplitMethod<false>, 1, {"self", "sep", "maxsplit"}, 1},
    {"splitlines", SplitLinesMethod, 1, {"self", "keepends"}, 1},
    Search("startswith", HasAffix<true>),
    {"strip", StripSide<Side::kBoth>, 1, {"self", "chars"}, 2},
    OnlySelf("title", Case<CaseOp::kTitle>),
    OnlySelf("upper", Case<CaseOp::kUpper>),
};

// Converts the operand of a filter to a string, and calls the method `method` of this string.
template <Result (*method)(Interpreter&, Arguments&)>
Result OfAny(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(args.positional[0], ToSoftString(in, args[0]));
  return method(in, args);
}

constexpr NamedBuiltin kFilters[] = {
    {"capitalize", OfAny<Case<CaseOp::kCapitalize>>, 1, {"s"}},
    {"lower", OfAny<Case<CaseOp::kLower>>, 1, {"s"}},
    {"trim", OfAny<StripSide<Side::kBoth>>, 1, {"value", "chars"}},
    {"upper", OfAny<Case<CaseOp::kUpper>>, 1, {"s"}},
};

}  // namespace

Builtins StringMethods() { return kMethods; }
Builtins StringMethodFilters() { return kFilters; }

}  // namespace incipit::jinja
