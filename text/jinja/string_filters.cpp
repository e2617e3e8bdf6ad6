// Filters that make text.
#include <algorithm>

#include "base/status.h"
#include "text/jinja/arguments.h"
#include "text/jinja/builtins.h"
#include "text/jinja/format.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iterators.h"
#include "text/jinja/operations.h"
#include "text/jinja/python_json.h"
#include "text/jinja/string_ops.h"
#include "text/jinja/unicode.h"

namespace incipit::jinja {
namespace {

using Result = absl::StatusOr<Value>;

// The one argument of a filter without others.
Result OnlyValue(std::string_view name, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound,
                           BoundArguments::Bind({name, {"value"}, 1}, arguments));
  return bound[0];
}

template <CaseOp op>
Result Case(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(Value value, OnlyValue("lower", arguments));
  INCIPIT_ASSIGN_OR_RETURN(value, ToSoftString(in, value));
  return ChangeCase(in, value, op);
}

bool StartsWord(uint32_t c) {
  return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || IsSpace(c);
}

// The first character of each word as a capital, the others small.
Result TitleFilter(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(Value value, OnlyValue("title", arguments));
  INCIPIT_ASSIGN_OR_RETURN(value, ToSoftString(in, value));
  const Text& text = value.text();
  const std::string_view bytes = text.bytes;
  TextBuilder builder;
  for (size_t i = 0; i < bytes.size();) {
    const CodePoint first = DecodeAt(bytes, i);
    if (StartsWord(first.value)) {
      builder.Append(text, i, i + first.size);
      i += first.size;
      continue;
    }
    size_t end = i + first.size;
    while (end < bytes.size()) {
      const CodePoint c = DecodeAt(bytes, end);
      if (StartsWord(c.value)) break;
      end += c.size;
    }
    const size_t rest = i + first.size;
    INCIPIT_RETURN_IF_ERROR(
        AppendCase(in, bytes.substr(i, first.size), text, i, CaseOp::kUpper, builder));
    INCIPIT_RETURN_IF_ERROR(
        AppendCase(in, bytes.substr(rest, end - rest), text, rest, CaseOp::kLower, builder));
    i = end;
  }
  return in.heap().Finish(builder);
}

Result Trim(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound,
                           BoundArguments::Bind({"trim", {"value", "chars"}, 1}, arguments));
  INCIPIT_ASSIGN_OR_RETURN(const Value value, ToSoftString(in, bound[0]));
  if (bound.IsNone(1)) return Strip(in, value, nullptr, Side::kBoth);
  INCIPIT_ASSIGN_OR_RETURN(const Value chars, bound.String(1));
  return Strip(in, value, &chars, Side::kBoth);
}

Result Replace(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind({"replace", {"s", "old", "new", "count"}, 3}, arguments));
  INCIPIT_ASSIGN_OR_RETURN(const Value value, ToString(in, bound[0]));
  INCIPIT_ASSIGN_OR_RETURN(const Value old_text, ToString(in, bound[1]));
  INCIPIT_ASSIGN_OR_RETURN(const Value new_text, ToString(in, bound[2]));
  Int count = -1;
  if (!bound.IsNone(3)) {
    INCIPIT_ASSIGN_OR_RETURN(count, bound.Index(3, -1));
  }
  return ReplaceAll(in, value, old_text, new_text, count);
}

Result String(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const Value value, OnlyValue("string", arguments));
  return ToSoftString(in, value);
}

Result Safe(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(Value value, OnlyValue("safe", arguments));
  INCIPIT_ASSIGN_OR_RETURN(value, ToSoftString(in, value));
  return Value::String(value.text_ptr(), true);
}

Result Escape(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const Value value, OnlyValue("escape", arguments));
  TextBuilder builder;
  INCIPIT_RETURN_IF_ERROR(AppendEscaped(in, value, builder));
  return in.heap().Finish(builder, true);
}

Result ForceEscape(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(Value value, OnlyValue("forceescape", arguments));
  INCIPIT_ASSIGN_OR_RETURN(value, ToString(in, value));
  TextBuilder builder;
  INCIPIT_RETURN_IF_ERROR(AppendEscaped(in, value, builder));
  return in.heap().Finish(builder, true);
}

Result Center(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound,
                           BoundArguments::Bind({"center", {"value", "width"}, 1}, arguments));
  INCIPIT_ASSIGN_OR_RETURN(const Value value, ToSoftString(in, bound[0]));
  INCIPIT_ASSIGN_OR_RETURN(const Int width, bound.Index(1, 80));
  INCIPIT_ASSIGN_OR_RETURN(const Value fill, in.heap().MakeString(" "));
  return Pad(in, value, width, fill, "^");
}

Result Indent(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind({"indent", {"s", "width", "first", "blank"}, 1}, arguments));
  if (bound[0].is_undefined()) return UndefinedError(bound[0]);
  INCIPIT_ASSIGN_OR_RETURN(const Value value, bound.String(0));
  INCIPIT_ASSIGN_OR_RETURN(const bool first, bound.Truth(in, 2, false));
  INCIPIT_ASSIGN_OR_RETURN(const bool blank, bound.Truth(in, 3, false));
  Value indention;
  if (bound.Find(1) != nullptr && bound[1].is_string()) {
    indention = bound[1];
  } else {
    INCIPIT_ASSIGN_OR_RETURN(const Int width, bound.Index(1, 4));
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

Result Truncate(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind({"truncate", {"s", "length", "killwords", "end", "leeway"}, 1},
                           arguments));
  INCIPIT_ASSIGN_OR_RETURN(const Int length, bound.Index(1, 255));
  INCIPIT_ASSIGN_OR_RETURN(const bool kill_words, bound.Truth(in, 2, false));
  Value end;
  if (bound.Find(3) == nullptr) {
    INCIPIT_ASSIGN_OR_RETURN(end, in.heap().MakeString("..."));
  } else {
    INCIPIT_ASSIGN_OR_RETURN(end, bound.String(3));
  }
  Int leeway = 5;
  if (!bound.IsNone(4)) {
    INCIPIT_ASSIGN_OR_RETURN(leeway, bound.Index(4, 5));
  }
  const Int end_length = static_cast<Int>(end.text().num_chars);
  if (length < end_length) return InvalidArgument("truncate() expects length >= {}", end_length);
  if (leeway < 0) return InvalidArgument("truncate() expects leeway >= 0");
  INCIPIT_ASSIGN_OR_RETURN(const int64_t size, Length(in, bound[0]));
  if (size <= length + leeway) return bound[0];
  INCIPIT_ASSIGN_OR_RETURN(const Value value, bound.String(0));
  INCIPIT_ASSIGN_OR_RETURN(Value kept, Slice(in, value,
                                             {.start = Value::None(),
                                              .stop = Value::Integer(length - end_length),
                                              .step = Value::None()}));
  if (!kill_words) {
    const std::optional<size_t> space = FindLastBytes(kept.bytes(), " ");
    if (space) {
      INCIPIT_ASSIGN_OR_RETURN(kept, in.heap().Substring(kept, 0, *space));
    }
  }
  return Binary(in, ArithmeticOp::kAdd, kept, end);
}

Result WordCount(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(Value value, OnlyValue("wordcount", arguments));
  INCIPIT_ASSIGN_OR_RETURN(value, ToSoftString(in, value));
  INCIPIT_RETURN_IF_ERROR(in.heap().ChargeBytes(8 * value.bytes().size()));
  Int count = 0;
  bool inside = false;
  for (size_t i = 0; i < value.bytes().size();) {
    const CodePoint c = DecodeAt(value.bytes(), i);
    const bool word = c.value == '_' || IsAlphanumeric(c.value);
    count += word && !inside;
    inside = word;
    i += c.size;
  }
  return Value::Integer(count);
}

Result Format(Interpreter& in, Arguments& arguments) {
  if (arguments.positional.size() > 1 && !arguments.keyword.empty()) {
    return InvalidArgument("format() takes positional or keyword arguments, not both");
  }
  INCIPIT_ASSIGN_OR_RETURN(const Value format, ToSoftString(in, arguments.positional[0]));
  if (!arguments.keyword.empty()) {
    INCIPIT_ASSIGN_OR_RETURN(Dict * dict, in.heap().NewDict(arguments.keyword.size()));
    for (auto& [name, value] : arguments.keyword) dict->Set(name, std::move(value));
    INCIPIT_ASSIGN_OR_RETURN(const Value named, in.heap().Finish(dict));
    return FormatPercent(in, format, named);
  }
  INCIPIT_ASSIGN_OR_RETURN(const Value tuple, in.heap().MakeTuple({arguments.positional.begin() + 1,
                                                                   arguments.positional.end()}));
  return FormatPercent(in, format, tuple);
}

// In a query string "/" is quoted too, and a space is "+".
absl::Status AppendQuoted(Interpreter& in, const Value& value, bool in_query, TextBuilder& out) {
  constexpr std::string_view kUnreserved = "_.-~";
  INCIPIT_ASSIGN_OR_RETURN(const Value string, ToString(in, value));
  const Text& text = string.text();
  INCIPIT_RETURN_IF_ERROR(in.heap().ChargeBytes(text.bytes.size()));
  for (size_t i = 0; i < text.bytes.size(); ++i) {
    const char c = text.bytes[i];
    const Origin origin = text.IsLiteralAt(i) ? Origin::kRequest : Origin::kTemplate;
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       kUnreserved.find(c) != std::string_view::npos || (c == '/' && !in_query);
    if (plain) {
      out.Append(std::string_view(&c, 1), origin);
    } else if (c == ' ' && in_query) {
      out.Append("+", origin);
    } else {
      out.Append(fmt::format("%{:02X}", static_cast<uint8_t>(c)), origin);
    }
  }
  return in.heap().CheckSize(out.size());
}

Result UrlEncode(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(Value value, OnlyValue("urlencode", arguments));
  TextBuilder builder;
  INCIPIT_ASSIGN_OR_RETURN(Iterator * items, value.is_string() ? nullptr : TryIterate(in, value));
  if (items == nullptr) {
    INCIPIT_RETURN_IF_ERROR(AppendQuoted(in, value, false, builder));
    return in.heap().Finish(builder);
  }
  if (value.is(Kind::kDict)) {
    items = in.heap().New<DictIterator>(value.dict(), DictIterator::Part::kItems);
  }
  bool first = true;
  while (true) {
    INCIPIT_ASSIGN_OR_RETURN(const std::optional<Value> item, items->Next(in));
    if (!item) return in.heap().Finish(builder);
    INCIPIT_ASSIGN_OR_RETURN(const std::vector<Value> pair, ToVector(in, *item));
    if (pair.size() != 2) return InvalidArgument("urlencode() expects pairs");
    if (!first) builder.Append("&");
    first = false;
    INCIPIT_RETURN_IF_ERROR(AppendQuoted(in, pair[0], true, builder));
    builder.Append("=");
    INCIPIT_RETURN_IF_ERROR(AppendQuoted(in, pair[1], true, builder));
  }
}

constexpr NamedBuiltin kStringFilters[] = {
    {"capitalize", Case<CaseOp::kCapitalize>},
    {"center", Center},
    {"e", Escape},
    {"escape", Escape},
    {"forceescape", ForceEscape},
    {"format", Format},
    {"indent", Indent},
    {"lower", Case<CaseOp::kLower>},
    {"replace", Replace},
    {"safe", Safe},
    {"string", String},
    {"title", TitleFilter},
    {"tojson", ToJsonFilter},
    {"trim", Trim},
    {"truncate", Truncate},
    {"upper", Case<CaseOp::kUpper>},
    {"urlencode", UrlEncode},
    {"wordcount", WordCount},
};

}  // namespace

std::span<const NamedBuiltin> StringFilters() { return kStringFilters; }

}  // namespace incipit::jinja
