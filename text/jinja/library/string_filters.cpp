// Filters that return text.
#include <algorithm>

#include "base/status.h"
#include "text/jinja/library/builtins.h"
#include "text/jinja/library/format.h"
#include "text/jinja/library/string_ops.h"
#include "text/jinja/runtime/interpreter.h"
#include "text/jinja/runtime/operations.h"
#include "text/jinja/runtime/python_characters.h"

namespace incipit::jinja {
namespace {

bool StartsWord(uint32_t c) {
  return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || IsSpace(c);
}

// Converts the first character of each word of the argument to upper case, and all other characters
// to lower case.
Result TitleFilter(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const Value value, ToSoftString(in, args[0]));
  const std::string_view bytes = value.bytes();
  TextBuilder builder;
  for (size_t i = 0; i < bytes.size();) {
    const size_t begin = SkipWhile(bytes, i, StartsWord);
    builder.Append(value.text(), i, begin);
    if (begin == bytes.size()) break;
    const size_t rest = begin + DecodeAt(bytes, begin).size;
    const size_t end = SkipWhile(bytes, rest, [](uint32_t c) { return !StartsWord(c); });
    INCIPIT_RETURN_IF_ERROR(AppendCase(in, value.text(), begin, rest, CaseOp::kUpper, builder));
    INCIPIT_RETURN_IF_ERROR(AppendCase(in, value.text(), rest, end, CaseOp::kLower, builder));
    i = end;
  }
  return in.heap().Finish(builder);
}

Result Replace(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const Value value, ToString(in, args[0]));
  INCIPIT_ASSIGN_OR_RETURN(const Value old_text, ToString(in, args[1]));
  INCIPIT_ASSIGN_OR_RETURN(const Value new_text, ToString(in, args[2]));
  Int count = -1;
  if (!args.IsNone(3)) {
    INCIPIT_ASSIGN_OR_RETURN(count, args.Index(3, -1));
  }
  return ReplaceAll(in, value, old_text, new_text, count);
}

Result String(Interpreter& in, Arguments& args) { return ToSoftString(in, args[0]); }

Result Safe(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const Value value, ToSoftString(in, args[0]));
  return value.WithMarkup(true);
}

Result Escape(Interpreter& in, Arguments& args) {
  TextBuilder builder;
  INCIPIT_RETURN_IF_ERROR(AppendEscaped(in, args[0], builder));
  return in.heap().Finish(builder, true);
}

Result Center(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const Value value, ToSoftString(in, args[0]));
  INCIPIT_ASSIGN_OR_RETURN(const Int width, args.Index(1, 80));
  const Int num_chars = static_cast<Int>(value.text().num_chars);
  if (width <= num_chars) return value;
  const size_t padding = static_cast<size_t>(width - num_chars);
  INCIPIT_RETURN_IF_ERROR(in.heap().CheckSize(value.bytes().size() + padding));
  // If `padding` (the number of added spaces) is odd, one side gets one space more than the other.
  // As in Python, this is the left side if `width` is odd, and the right side if `width` is even.
  const size_t left = padding / 2 + (padding & static_cast<size_t>(width) & 1);
  TextBuilder builder;
  builder.Append(std::string(left, ' '));
  builder.Append(value.text());
  builder.Append(std::string(padding - left, ' '));
  return in.heap().Finish(builder, value.is_markup());
}

Result Indent(Interpreter& in, Arguments& args) {
  if (args[0].is_undefined()) return UndefinedError(args[0]);
  INCIPIT_ASSIGN_OR_RETURN(const Value value, args.String(0));
  INCIPIT_ASSIGN_OR_RETURN(const bool first, args.Truth(in, 2));
  INCIPIT_ASSIGN_OR_RETURN(const bool blank, args.Truth(in, 3));
  Value indention = args.Get(1);
  if (!indention.is_string()) {
    INCIPIT_ASSIGN_OR_RETURN(const Int width, args.Index(1, 4));
    INCIPIT_ASSIGN_OR_RETURN(const Value space, in.heap().MakeString(" "));
    INCIPIT_ASSIGN_OR_RETURN(indention,
                             Binary(in, ArithmeticOp::kMul, space, Value::Integer(width)));
  }
  INCIPIT_ASSIGN_OR_RETURN(const Value newline, in.heap().MakeString("\n"));
  INCIPIT_ASSIGN_OR_RETURN(const Value terminated, Binary(in, ArithmeticOp::kAdd, value, newline));
  INCIPIT_ASSIGN_OR_RETURN(const std::vector<Value> lines, SplitLines(in, terminated, false));
  TextBuilder builder;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) builder.Append("\n");
    const bool indented = i == 0 ? first : blank || !lines[i].bytes().empty();
    if (indented) builder.Append(indention.text());
    builder.Append(lines[i].text());
    INCIPIT_RETURN_IF_ERROR(in.heap().CheckSize(builder.size()));
  }
  return in.heap().Finish(builder, value.is_markup());
}

Result Truncate(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const Int length, args.Index(1, 255));
  INCIPIT_ASSIGN_OR_RETURN(const bool kill_words, args.Truth(in, 2));
  INCIPIT_ASSIGN_OR_RETURN(Value end, in.heap().MakeString("..."));
  if (args.Has(3)) {
    INCIPIT_ASSIGN_OR_RETURN(end, args.String(3));
  }
  Int leeway = 5;
  if (!args.IsNone(4)) {
    INCIPIT_ASSIGN_OR_RETURN(leeway, args.Index(4, 5));
  }
  const Int end_length = static_cast<Int>(end.text().num_chars);
  if (length < end_length) return InvalidArgument("truncate() expects length >= {}", end_length);
  if (leeway < 0) return InvalidArgument("truncate() expects leeway >= 0");
  INCIPIT_ASSIGN_OR_RETURN(const int64_t size, Length(in, args[0]));
  if (size - leeway <= length) return args[0];
  INCIPIT_ASSIGN_OR_RETURN(const Value value, args.String(0));
  INCIPIT_ASSIGN_OR_RETURN(Value kept, Slice(in, value, Value::None(),
                                             Value::Integer(length - end_length), Value::None()));
  if (!kill_words) {
    const size_t space = std::min(kept.bytes().rfind(' '), kept.bytes().size());
    INCIPIT_ASSIGN_OR_RETURN(kept, in.heap().Substring(kept, 0, space));
  }
  return Binary(in, ArithmeticOp::kAdd, kept, end);
}

Result WordCount(Interpreter& in, Arguments& args) {
  INCIPIT_ASSIGN_OR_RETURN(const Value value, ToSoftString(in, args[0]));
  INCIPIT_RETURN_IF_ERROR(in.heap().ChargeBytes(8 * value.bytes().size()));
  const auto is_word = [](uint32_t c) { return c == '_' || IsAlphanumeric(c); };
  const auto is_gap = [&](uint32_t c) { return !is_word(c); };
  const std::string_view bytes = value.bytes();
  Int count = 0;
  for (size_t i = SkipWhile(bytes, 0, is_gap); i < bytes.size(); ++count) {
    i = SkipWhile(bytes, SkipWhile(bytes, i, is_word), is_gap);
  }
  return Value::Integer(count);
}

Result Format(Interpreter& in, Arguments& args) {
  if (args.positional.size() > 1 && !args.keyword.empty()) {
    return InvalidArgument("format() takes positional or keyword arguments, not both");
  }
  INCIPIT_ASSIGN_OR_RETURN(const Value format, ToSoftString(in, args[0]));
  if (!args.keyword.empty()) {
    INCIPIT_ASSIGN_OR_RETURN(Dict * dict, in.heap().NewDict(args.keyword.size()));
    for (auto& [name, value] : args.keyword) dict->Set(name, std::move(value));
    INCIPIT_ASSIGN_OR_RETURN(const Value named, in.heap().Finish(dict));
    return FormatPercent(in, format, named);
  }
  INCIPIT_ASSIGN_OR_RETURN(
      const Value tuple, in.heap().MakeTuple({args.positional.begin() + 1, args.positional.end()}));
  return FormatPercent(in, format, tuple);
}

absl::Status ReadIndent(const Value& indent, const Heap& heap, JsonStyle& style) {
  if (indent.is_none()) return absl::OkStatus();
  style.item_separator = ",";
  if (indent.is_string()) {
    style.indent = std::string(indent.bytes());
    return absl::OkStatus();
  }
  INCIPIT_ASSIGN_OR_RETURN(const Int width, ToIndex(indent, "indent"));
  const size_t size = static_cast<size_t>(std::max<Int>(width, 0));
  INCIPIT_RETURN_IF_ERROR(heap.CheckSize(size));
  style.indent = std::string(size, ' ');
  return absl::OkStatus();
}

Result ToJson(Interpreter& in, Arguments& args) {
  JsonStyle style;
  INCIPIT_ASSIGN_OR_RETURN(style.ensure_ascii, args.Truth(in, 1));
  INCIPIT_RETURN_IF_ERROR(ReadIndent(args.Get(2), in.heap(), style));
  if (!args.IsNone(3)) {
    INCIPIT_ASSIGN_OR_RETURN(const std::vector<Value> parts, ToVector(in, args[3]));
    if (parts.size() != 2 || !parts[0].is_string() || !parts[1].is_string()) {
      return InvalidArgument("the argument `separators` of tojson() must contain two strings");
    }
    style.item_separator = parts[0].bytes();
    style.key_separator = parts[1].bytes();
  }
  INCIPIT_ASSIGN_OR_RETURN(style.sort_keys, args.Truth(in, 4));
  TextBuilder builder;
  INCIPIT_RETURN_IF_ERROR(AppendJson(in, args[0], style, builder));
  return in.heap().Finish(builder);
}

constexpr NamedBuiltin kStringFilters[] = {
    {"center", Center, 1, {"value", "width"}},
    {"e", Escape, 1, {"s"}},
    {"escape", Escape, 1, {"s"}},
    {"format", Format},
    {"indent", Indent, 1, {"s", "width", "first", "blank"}},
    {"replace", Replace, 3, {"s", "old", "new", "count"}},
    {"safe", Safe, 1, {"value"}},
    {"string", String, 1, {"object"}},
    {"title", TitleFilter, 1, {"s"}},
    {"tojson", ToJson, 1, {"value", "ensure_ascii", "indent", "separators", "sort_keys"}},
    {"truncate", Truncate, 1, {"s", "length", "killwords", "end", "leeway"}},
    {"wordcount", WordCount, 1, {"s"}},
};

}  // namespace

Builtins StringFilters() { return kStringFilters; }

}  // namespace incipit::jinja
