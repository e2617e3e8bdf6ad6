// Methods of str that return strings and lists of them.
#include "base/status.h"
#include "text/jinja/arguments.h"
#include "text/jinja/format.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/methods.h"
#include "text/jinja/operations.h"
#include "text/jinja/string_ops.h"
#include "text/jinja/unicode.h"

namespace incipit::jinja {
namespace {

using Result = absl::StatusOr<Value>;

absl::StatusOr<BoundArguments> OnlySelf(std::string_view name, Arguments& arguments) {
  return BoundArguments::Bind({name, {"self"}, 1, 1}, arguments);
}

template <CaseOp op>
Result CaseMethod(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound, OnlySelf("case", arguments));
  return ChangeCase(in, bound[0], op);
}

template <Side side>
Result StripSide(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound,
                           BoundArguments::Bind({"strip", {"self", "chars"}, 1, 2}, arguments));
  if (bound.IsNone(1)) return Strip(in, bound[0], nullptr, side);
  INCIPIT_ASSIGN_OR_RETURN(const Value chars, bound.String(1));
  return Strip(in, bound[0], &chars, side);
}

template <bool from_right>
Result SplitMethod(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind({"split", {"self", "sep", "maxsplit"}, 1, 1}, arguments));
  INCIPIT_ASSIGN_OR_RETURN(const Int splits_max, bound.Index(2, -1));
  std::optional<Value> separator;
  if (!bound.IsNone(1)) {
    INCIPIT_ASSIGN_OR_RETURN(separator, bound.String(1));
  }
  INCIPIT_ASSIGN_OR_RETURN(
      std::vector<Value> parts,
      Split(in, bound[0], separator ? &*separator : nullptr, splits_max, from_right));
  return in.heap().MakeList(std::move(parts));
}

Result SplitLinesMethod(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind({"splitlines", {"self", "keepends"}, 1, 1}, arguments));
  INCIPIT_ASSIGN_OR_RETURN(const bool keep_ends, bound.Truth(in, 1, false));
  INCIPIT_ASSIGN_OR_RETURN(std::vector<Value> lines, SplitLines(in, bound[0], keep_ends));
  return in.heap().MakeList(std::move(lines));
}

Result ReplaceMethod(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind({"replace", {"self", "old", "new", "count"}, 3, 4}, arguments));
  INCIPIT_ASSIGN_OR_RETURN(const Value old_text, bound.String(1));
  INCIPIT_ASSIGN_OR_RETURN(Value new_text, bound.String(2));
  INCIPIT_ASSIGN_OR_RETURN(const Int count, bound.Index(3, -1));
  if (bound[0].is_markup()) {
    TextBuilder escaped;
    INCIPIT_RETURN_IF_ERROR(AppendEscaped(in, new_text, escaped));
    INCIPIT_ASSIGN_OR_RETURN(new_text, in.heap().Finish(escaped));
  }
  return ReplaceAll(in, bound[0], old_text, new_text, count);
}

Result JoinMethod(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound,
                           BoundArguments::Bind({"join", {"self", "iterable"}, 2, 2}, arguments));
  INCIPIT_ASSIGN_OR_RETURN(const std::vector<Value> items, ToVector(in, bound[1]));
  const bool markup = bound[0].is_markup();
  TextBuilder builder;
  bool first = true;
  for (const Value& item : items) {
    if (!item.is_string() && !markup) {
      return InvalidArgument("join() expects strings, found '{}'", TypeName(item));
    }
    if (!first) builder.Append(bound[0].text());
    first = false;
    INCIPIT_RETURN_IF_ERROR(markup ? AppendEscaped(in, item, builder)
                                   : AppendString(in, item, builder));
  }
  return in.heap().Finish(builder, markup);
}

template <bool is_prefix>
Result RemoveAffix(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind({"removeprefix", {"self", "affix"}, 2, 2}, arguments));
  INCIPIT_ASSIGN_OR_RETURN(const Value affix, bound.String(1));
  const std::string_view bytes = bound[0].bytes();
  const size_t size = affix.bytes().size();
  if (is_prefix && bytes.starts_with(affix.bytes())) {
    return in.heap().Substring(bound[0], size, bytes.size());
  }
  if (!is_prefix && size > 0 && bytes.ends_with(affix.bytes())) {
    return in.heap().Substring(bound[0], 0, bytes.size() - size);
  }
  return bound[0];
}

template <bool from_right>
Result Partition(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound,
                           BoundArguments::Bind({"partition", {"self", "sep"}, 2, 2}, arguments));
  INCIPIT_ASSIGN_OR_RETURN(const Value separator, bound.String(1));
  if (separator.bytes().empty()) return InvalidArgument("empty separator");
  const Value& self = bound[0];
  const size_t size = self.bytes().size();
  INCIPIT_RETURN_IF_ERROR(in.heap().ChargeBytes(size));
  const std::optional<size_t> found = from_right ? FindLastBytes(self.bytes(), separator.bytes())
                                                 : FindBytes(self.bytes(), separator.bytes());
  const size_t at = found ? *found : from_right ? 0 : size;
  const size_t after = found ? at + separator.bytes().size() : at;
  std::vector<Value> parts;
  const ByteRange ranges[] = {{0, at}, {at, after}, {after, size}};
  for (const ByteRange& range : ranges) {
    INCIPIT_ASSIGN_OR_RETURN(Value part, in.heap().Substring(self, range.begin, range.end));
    parts.push_back(std::move(part));
  }
  return in.heap().MakeTuple(std::move(parts));
}

// < left, > right, ^ center
template <char alignment>
Result Justify(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind({"center", {"self", "width", "fillchar"}, 2, 3}, arguments));
  INCIPIT_ASSIGN_OR_RETURN(const Int width, bound.Index(1, 0));
  Value fill;
  if (bound.Find(2) == nullptr) {
    INCIPIT_ASSIGN_OR_RETURN(fill, in.heap().MakeString(" "));
  } else {
    INCIPIT_ASSIGN_OR_RETURN(fill, bound.String(2));
  }
  if (fill.text().num_chars != 1) {
    return InvalidArgument("the fill character must be exactly one character long");
  }
  constexpr char kAlignment[] = {alignment, '\0'};
  return Pad(in, bound[0], width, fill, kAlignment);
}

Result ZeroFill(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound,
                           BoundArguments::Bind({"zfill", {"self", "width"}, 2, 2}, arguments));
  INCIPIT_ASSIGN_OR_RETURN(const Int width, bound.Index(1, 0));
  const Value& self = bound[0];
  const std::string_view bytes = self.bytes();
  INCIPIT_ASSIGN_OR_RETURN(const Value zero, in.heap().MakeString("0"));
  if (bytes.empty() || (bytes[0] != '+' && bytes[0] != '-')) return Pad(in, self, width, zero, ">");
  INCIPIT_ASSIGN_OR_RETURN(const Value digits, in.heap().Substring(self, 1, bytes.size()));
  INCIPIT_ASSIGN_OR_RETURN(const Value padded, Pad(in, digits, width - 1, zero, ">"));
  TextBuilder builder;
  builder.Append(self.text(), 0, 1);
  builder.Append(padded.text());
  return in.heap().Finish(builder, self.is_markup());
}

Result ExpandTabs(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind({"expandtabs", {"self", "tabsize"}, 1, 1}, arguments));
  INCIPIT_ASSIGN_OR_RETURN(const Int tab_size, bound.Index(1, 8));
  const Text& text = bound[0].text();
  TextBuilder builder;
  Int column = 0;
  for (size_t i = 0; i < text.bytes.size();) {
    const CodePoint c = DecodeAt(text.bytes, i);
    if (c.value != '\t') {
      builder.Append(text, i, i + c.size);
      column = c.value == '\n' || c.value == '\r' ? 0 : column + 1;
    } else if (tab_size > 0) {
      const Int spaces = tab_size - column % tab_size;
      if (spaces > static_cast<Int>(in.heap().limits().output_bytes_max)) {
        return in.heap().CheckSize(in.heap().limits().output_bytes_max + 1).ok()
                   ? InvalidArgument("the tab size is too large")
                   : in.heap().CheckSize(in.heap().limits().output_bytes_max + 1);
      }
      builder.Append(std::string(static_cast<size_t>(spaces), ' '),
                     text.IsLiteralAt(i) ? Origin::kRequest : Origin::kTemplate);
      column += spaces;
      INCIPIT_RETURN_IF_ERROR(in.heap().CheckSize(builder.size()));
    }
    i += c.size;
  }
  return in.heap().Finish(builder, bound[0].is_markup());
}

Result FormatMethod(Interpreter& in, Arguments& arguments) {
  const Value self = std::move(arguments.positional.front());
  arguments.positional.erase(arguments.positional.begin());
  return FormatBraces(in, self, arguments);
}

Result FormatMap(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind({"format_map", {"self", "mapping"}, 2, 2}, arguments));
  if (!bound[1].is(Kind::kDict)) return InvalidArgument("format_map() expects a mapping");
  Arguments named;
  for (const Dict::Entry& entry : bound[1].dict().entries()) {
    if (entry.key.is_string()) named.keyword.emplace_back(entry.key, entry.value);
  }
  return FormatBraces(in, bound[0], named);
}

constexpr NamedBuiltin kMethods[] = {
    {"strip", StripSide<Side::kBoth>},
    {"lstrip", StripSide<Side::kLeft>},
    {"rstrip", StripSide<Side::kRight>},
    {"split", SplitMethod<false>},
    {"rsplit", SplitMethod<true>},
    {"splitlines", SplitLinesMethod},
    {"replace", ReplaceMethod},
    {"join", JoinMethod},
    {"upper", CaseMethod<CaseOp::kUpper>},
    {"lower", CaseMethod<CaseOp::kLower>},
    {"title", CaseMethod<CaseOp::kTitle>},
    {"capitalize", CaseMethod<CaseOp::kCapitalize>},
    {"casefold", CaseMethod<CaseOp::kFold>},
    {"swapcase", CaseMethod<CaseOp::kSwap>},
    {"removeprefix", RemoveAffix<true>},
    {"removesuffix", RemoveAffix<false>},
    {"partition", Partition<false>},
    {"rpartition", Partition<true>},
    {"center", Justify<'^'>},
    {"ljust", Justify<'<'>},
    {"rjust", Justify<'>'>},
    {"zfill", ZeroFill},
    {"expandtabs", ExpandTabs},
    {"format", FormatMethod},
    {"format_map", FormatMap},
    {"encode", nullptr},
    {"maketrans", nullptr},
    {"translate", nullptr},
};

}  // namespace

std::span<const NamedBuiltin> StringMethods() { return kMethods; }

}  // namespace incipit::jinja
