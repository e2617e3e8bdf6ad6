// Defines the methods of Python's str that return strings or lists of strings, such as upper().
// Also defines the corresponding filters, such as `upper`, which accept values of all types.
#include <algorithm>

#include "base/status.h"
#include "text/jinja/library/builtins.h"
#include "text/jinja/library/format.h"
#include "text/jinja/library/string_ops.h"
#include "text/jinja/runtime/interpreter.h"
#include "text/jinja/runtime/operations.h"

namespace incipit::jinja {
namespace {

using Result = absl::StatusOr<Value>;

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

template <bool from_right>
Result Partition(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const Value separator, args.String(1));
  if (separator.bytes().empty()) return InvalidArgument("empty separator");
  const Value& self = args[0];
  const size_t size = self.bytes().size();
  INCIPIT_RETURN_IF_ERROR(in.heap().ChargeBytes(size));
  const std::optional<size_t> found = from_right ? FindLastBytes(self.bytes(), separator.bytes())
                                                 : FindBytes(self.bytes(), separator.bytes());
  const size_t at = found ? *found : from_right ? 0 : size;
  const size_t after = found ? at + separator.bytes().size() : at;
  std::vector<Value> parts;
  for (const ByteRange& range : {ByteRange{0, at}, ByteRange{at, after}, ByteRange{after, size}}) {
    INCIPIT_ASSIGN_OR_RETURN(parts.emplace_back(),
                             in.heap().Substring(self, range.begin, range.end));
  }
  return in.heap().MakeTuple(std::move(parts));
}

template <Side side>
Result Justify(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const Int width, args.Index(1, 80));
  INCIPIT_ASSIGN_OR_RETURN(Value fill, in.heap().MakeString(" "));
  if (args.Has(2)) {
    INCIPIT_ASSIGN_OR_RETURN(fill, args.String(2));
  }
  if (fill.text().num_chars != 1) {
    return InvalidArgument("the fill character must be exactly one character long");
  }
  return Pad(in, args[0], width, fill, side);
}

Result ZeroFill(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const Int width, args.Index(1, 0));
  const Value& self = args[0];
  INCIPIT_ASSIGN_OR_RETURN(const Value zero, in.heap().MakeString("0"));
  const bool has_sign = self.bytes().starts_with('+') || self.bytes().starts_with('-');
  if (!has_sign) return Pad(in, self, width, zero, Side::kLeft);
  INCIPIT_ASSIGN_OR_RETURN(const Value digits, in.heap().Substring(self, 1, self.bytes().size()));
  INCIPIT_ASSIGN_OR_RETURN(const Value padded,
                           Pad(in, digits, std::max<Int>(width, 1) - 1, zero, Side::kLeft));
  TextBuilder builder;
  builder.Append(self.text(), 0, 1);
  builder.Append(padded.text());
  return in.heap().Finish(builder, self.is_markup());
}

constexpr NamedBuiltin kMethods[] = {
    {"capitalize", Case<CaseOp::kCapitalize>, 1, {"self"}, 1},
    {"center", Justify<Side::kBoth>, 2, {"self", "width", "fillchar"}, 3},
    {"format", FormatBraces},
    {"join", JoinMethod, 2, {"self", "iterable"}, 2},
    {"ljust", Justify<Side::kRight>, 2, {"self", "width", "fillchar"}, 3},
    {"lower", Case<CaseOp::kLower>, 1, {"self"}, 1},
    {"lstrip", StripSide<Side::kLeft>, 1, {"self", "chars"}, 2},
    {"partition", Partition<false>, 2, {"self", "sep"}, 2},
    {"removeprefix", RemoveAffix<true>, 2, {"self", "affix"}, 2},
    {"removesuffix", RemoveAffix<false>, 2, {"self", "affix"}, 2},
    {"replace", ReplaceMethod, 3, {"self", "old", "new", "count"}, 4},
    {"rjust", Justify<Side::kLeft>, 2, {"self", "width", "fillchar"}, 3},
    {"rpartition", Partition<true>, 2, {"self", "sep"}, 2},
    {"rsplit", SplitMethod<true>, 1, {"self", "sep", "maxsplit"}, 1},
    {"rstrip", StripSide<Side::kRight>, 1, {"self", "chars"}, 2},
    {"split", SplitMethod<false>, 1, {"self", "sep", "maxsplit"}, 1},
    {"splitlines", SplitLinesMethod, 1, {"self", "keepends"}, 1},
    {"strip", StripSide<Side::kBoth>, 1, {"self", "chars"}, 2},
    {"title", Case<CaseOp::kTitle>, 1, {"self"}, 1},
    {"upper", Case<CaseOp::kUpper>, 1, {"self"}, 1},
    {"zfill", ZeroFill, 2, {"self", "width"}, 2},
};

// Converts the operand of a filter to a string, and calls `method`, a method of Python's str.
template <Result (*method)(Interpreter&, Arguments&)>
Result OfAny(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(args.positional[0], ToSoftString(in, args[0]));
  return method(in, args);
}

constexpr NamedBuiltin kFilters[] = {
    {"capitalize", OfAny<Case<CaseOp::kCapitalize>>, 1, {"s"}},
    {"center", OfAny<Justify<Side::kBoth>>, 1, {"value", "width"}},
    {"lower", OfAny<Case<CaseOp::kLower>>, 1, {"s"}},
    {"trim", OfAny<StripSide<Side::kBoth>>, 1, {"value", "chars"}},
    {"upper", OfAny<Case<CaseOp::kUpper>>, 1, {"s"}},
};

}  // namespace

Builtins StringMethods() { return kMethods; }
Builtins StringMethodFilters() { return kFilters; }

}  // namespace incipit::jinja
