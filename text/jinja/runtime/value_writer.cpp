#include "text/jinja/runtime/value_writer.h"

#include <algorithm>
#include <cmath>

#include "absl/functional/function_ref.h"
#include "base/status.h"
#include "text/jinja/runtime/interpreter.h"
#include "text/jinja/runtime/numbers.h"
#include "text/jinja/runtime/objects.h"
#include "text/jinja/runtime/operations.h"
#include "text/jinja/runtime/python_characters.h"

namespace incipit::jinja {
namespace {

// Returns true if `c` needs no escape in Python's repr(), in JSON and in HTML.
bool IsPlain(char c) {
  return c >= ' ' && c < 0x7F && c != '"' && c != '\'' && c != '\\' && c != '&' && c != '<' &&
         c != '>';
}

// Returns an escape such as \x0a: a backslash, the letter `kind`, and the lowest `num_digits`
// hexadecimal digits of `c`.
std::string HexEscape(char kind, uint32_t c, int num_digits) {
  std::string escape = {'\\', kind};
  while (num_digits-- > 0) escape += "0123456789abcdef"[c >> 4 * num_digits & 15];
  return escape;
}

// Appends `text` to `out`, and replaces characters by escapes. escape_of(c) returns the escape of
// the character `c`, or an empty string if `c` needs no escape.
template <typename EscapeOf>
void AppendWithEscapes(const Text& text, EscapeOf escape_of, TextBuilder& out) {
  for (size_t i = 0; i < text.bytes.size();) {
    const auto [end, origin] = text.PartFrom(i);
    std::string escaped;
    size_t begin = i;  // offset of the first byte of `text` that is not yet in `escaped`
    while (i < end) {
      if (IsPlain(text.bytes[i])) {
        ++i;
        continue;
      }
      const CodePoint c = DecodeAt(text.bytes, i);
      if (const auto escape = escape_of(c.value); !escape.empty()) {
        escaped.append(text.bytes, begin, i - begin).append(escape);
        begin = i + c.size;
      }
      i += c.size;
    }
    out.Append(escaped, origin);
    out.Append(text.bytes.substr(begin, end - begin), origin);
  }
}

std::string ShortEscape(uint32_t c, std::string_view characters, std::string_view letters) {
  const size_t index = c < 0x80 ? characters.find(static_cast<char>(c)) : std::string_view::npos;
  return index == std::string_view::npos ? std::string() : std::string{'\\', letters[index]};
}

std::string ReprEscape(uint32_t c, char quote) {
  if (c == '\\' || c == static_cast<uint32_t>(quote)) return {'\\', static_cast<char>(c)};
  if (c >= 0x20 && c < 0x7F) return {};
  if (std::string escape = ShortEscape(c, "\n\r\t", "nrt"); !escape.empty()) return escape;
  if (c >= 0x80 && IsPrintable(c)) return {};
  if (c < 0x100) return HexEscape('x', c, 2);
  return c < 0x10000 ? HexEscape('u', c, 4) : HexEscape('U', c, 8);
}

std::string JsonEscape(uint32_t c, bool ensure_ascii) {
  if (c >= 0x20 && c < 0x7F && c != '"' && c != '\\') return {};
  if (c >= 0x7F && !ensure_ascii) return {};
  if (std::string escape = ShortEscape(c, "\"\\\n\r\t\f\b", "\"\\nrtfb"); !escape.empty()) {
    return escape;
  }
  if (c < 0x10000) return HexEscape('u', c, 4);
  return HexEscape('u', 0xD7C0 + (c >> 10), 4) + HexEscape('u', 0xDC00 + (c & 0x3FF), 4);
}

std::string_view HtmlEscape(uint32_t c) {
  constexpr std::string_view kCharacters = "&<>'\"";
  constexpr std::string_view kEscapes[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  const size_t index = c < 0x80 ? kCharacters.find(static_cast<char>(c)) : kCharacters.npos;
  return index == kCharacters.npos ? "" : kEscapes[index];
}

// Converts a value, with all values inside it, to text: to JSON if `style` is not null, otherwise
// like Python's repr().
class ValueWriter {
 public:
  ValueWriter(Interpreter& in, const JsonStyle* style, TextBuilder& out)
      : in_(in), json_(style), out_(out) {}

  // Writes `value`. `origin` determines whether the quotes around a string are marked as text of
  // the template or of the request.
  absl::Status Write(const Value& value, Origin origin) {
    INCIPIT_RETURN_IF_ERROR(in_.heap().Charge());
    INCIPIT_RETURN_IF_ERROR(in_.heap().CheckSize(out_.size()));
    if (value.is_string()) return WriteString(value, origin);
    if (value.is_number() || value.is_none()) {
      out_.Append(Scalar(value), value.origin());
      return absl::OkStatus();
    }
    if (value.is_sequence()) return WriteSequence(value);
    if (value.is(Kind::kDict)) return WriteDict(value.dict());
    if (json_ == nullptr) return WriteOther(value);
    return InvalidArgument("Object of type {} is not JSON serializable", TypeName(value));
  }

 private:
  using WriteItem = absl::FunctionRef<absl::Status(size_t index)>;

  std::string Scalar(const Value& value) const {
    const bool json = json_ != nullptr;
    if (value.is_none()) return json ? "null" : "None";
    if (value.is(Kind::kBool)) {
      return value.boolean() ? json ? "true" : "True" : json ? "false" : "False";
    }
    if (value.is(Kind::kInt)) return fmt::format("{}", value.integer());
    if (json && std::isnan(value.real())) return "NaN";
    if (json && std::isinf(value.real())) return value.real() > 0 ? "Infinity" : "-Infinity";
    return FormatReal(value.real());
  }

  absl::Status WriteString(const Value& string, Origin origin) {
    const Text& text = string.text();
    INCIPIT_RETURN_IF_ERROR(in_.heap().ChargeBytes(text.bytes.size()));
    const bool double_quotes = json_ != nullptr || (text.bytes.find('\'') != std::string::npos &&
                                                    text.bytes.find('"') == std::string::npos);
    const char quote = double_quotes ? '"' : '\'';
    const bool markup = string.is_markup() && json_ == nullptr;
    if (markup) out_.Append("Markup(", origin);
    out_.Append(std::string_view(&quote, 1), origin);
    const auto escape_of = [&](uint32_t c) {
      return json_ != nullptr ? JsonEscape(c, json_->ensure_ascii) : ReprEscape(c, quote);
    };
    AppendWithEscapes(text, escape_of, out_);
    out_.Append(std::string_view(&quote, 1), origin);
    if (markup) out_.Append(")", origin);
    return absl::OkStatus();
  }

  absl::Status NewLine(Origin origin) {
    if (json_ == nullptr || !json_->indent) return absl::OkStatus();
    const size_t size = 1 + json_->indent->size() * static_cast<size_t>(level_);
    INCIPIT_RETURN_IF_ERROR(in_.heap().CheckSize(out_.size() + size));
    while (new_line_.size() < size) new_line_ += *json_->indent;
    out_.Append(std::string_view(new_line_).substr(0, size), origin);
    return absl::OkStatus();
  }

  absl::Status WriteItems(std::string_view open, std::string_view close, size_t size, Origin origin,
                          WriteItem write_item) {
    out_.Append(open, origin);
    ++level_;
    for (size_t i = 0; i < size; ++i) {
      if (i > 0) out_.Append(json_ == nullptr ? ", " : json_->item_separator, origin);
      INCIPIT_RETURN_IF_ERROR(NewLine(origin));
      INCIPIT_RETURN_IF_ERROR(write_item(i));
    }
    --level_;
    if (size > 0) INCIPIT_RETURN_IF_ERROR(NewLine(origin));
    out_.Append(close, origin);
    return absl::OkStatus();
  }

  absl::Status WriteSequence(const Value& value) {
    const List& list = value.list();
    const bool brackets = json_ != nullptr || value.is(Kind::kList);
    return WriteItems(brackets ? "[" : "(",
                      brackets                 ? "]"
                      : list.items.size() == 1 ? ",)"
                                               : ")",
                      list.items.size(), list.origin,
                      [&](size_t i) { return Write(list.items[i], list.origin); });
  }

  absl::Status WriteKey(const Value& key, Origin origin) {
    if (json_ == nullptr || key.is_string()) return Write(key, origin);
    if (!key.is_number() && !key.is_none()) {
      return InvalidArgument("a key of a JSON object must be str, int, float, bool or None, not {}",
                             TypeName(key));
    }
    out_.Append(fmt::format("\"{}\"", Scalar(key)), origin);
    return absl::OkStatus();
  }

  absl::Status WriteDict(const Dict& dict) {
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (json_ != nullptr && json_->sort_keys) {
      absl::Status status;
      std::stable_sort(entries.begin(), entries.end(), [&](const auto* left, const auto* right) {
        const absl::StatusOr<bool> less = Less(in_, left->key, right->key);
        if (!less.ok()) status = less.status();
        return less.ok() && *less;
      });
      INCIPIT_RETURN_IF_ERROR(status);
    }
    return WriteItems("{", "}", entries.size(), dict.origin, [&](size_t i) -> absl::Status {
      INCIPIT_RETURN_IF_ERROR(WriteKey(entries[i]->key, dict.origin));
      out_.Append(json_ == nullptr ? ": " : json_->key_separator, dict.origin);
      return Write(entries[i]->value, dict.origin);
    });
  }

  absl::Status WriteOther(const Value& value) {
    if (value.is(Kind::kRange)) {
      const Range& range = value.range();
      const std::string step = range.step == 1 ? "" : fmt::format(", {}", range.step);
      out_.Append(fmt::format("range({}, {}{})", range.start, range.stop, step));
    } else if (auto* object = As<NamespaceObject>(value)) {
      if (++namespace_depth_ > in_.heap().limits().depth_max) {
        return InvalidArgument("a namespace that contains itself cannot be printed");
      }
      out_.Append("<Namespace ");
      INCIPIT_RETURN_IF_ERROR(WriteDict(object->attributes));
      out_.Append(">");
      --namespace_depth_;
    } else if (auto* view = As<DictView>(value)) {
      return WriteView(*view);
    } else if (auto* loop = As<LoopContext>(value)) {
      INCIPIT_ASSIGN_OR_RETURN(const std::optional<int64_t> length, loop->Length(in_));
      out_.Append(fmt::format("<LoopContext {}/{}>", loop->index(), *length));
    } else if (value.is(Kind::kObject)) {
      out_.Append(value.object().Repr());
    } else {
      out_.Append(value.is(Kind::kIterator) ? "<generator object>" : "Undefined");
    }
    return absl::OkStatus();
  }

  absl::Status WriteView(const DictView& view) {
    const Origin origin = view.dict().origin;
    out_.Append(view.type_name());
    return WriteItems("([", "])", view.dict().size(), origin, [&](size_t i) -> absl::Status {
      const Dict::Entry& entry = view.dict().entries()[i];
      if (view.part() != DictPart::kItems) {
        return Write(view.part() == DictPart::kKeys ? entry.key : entry.value, origin);
      }
      out_.Append("(", origin);
      INCIPIT_RETURN_IF_ERROR(Write(entry.key, origin));
      out_.Append(", ", origin);
      INCIPIT_RETURN_IF_ERROR(Write(entry.value, origin));
      out_.Append(")", origin);
      return absl::OkStatus();
    });
  }

  Interpreter& in_;
  const JsonStyle* json_;
  TextBuilder& out_;
  int level_ = 0;
  std::string new_line_ = "\n";  // newline and the longest indentation so far
  int namespace_depth_ = 0;
};

}  // namespace

absl::Status AppendRepr(Interpreter& in, const Value& value, TextBuilder& out) {
  return ValueWriter(in, nullptr, out).Write(value, Origin::kTemplate);
}

absl::Status AppendJson(Interpreter& in, const Value& value, const JsonStyle& style,
                        TextBuilder& out) {
  return ValueWriter(in, &style, out).Write(value, Origin::kTemplate);
}

absl::Status AppendString(Interpreter& in, const Value& value, TextBuilder& out) {
  if (value.is_undefined()) return absl::OkStatus();
  if (!value.is_string()) return AppendRepr(in, value, out);
  INCIPIT_RETURN_IF_ERROR(in.heap().CheckSize(out.size() + value.bytes().size()));
  INCIPIT_RETURN_IF_ERROR(in.heap().ChargeBytes(value.bytes().size()));
  out.Append(value.text());
  return absl::OkStatus();
}

absl::Status AppendEscaped(Interpreter& in, const Value& value, TextBuilder& out) {
  INCIPIT_ASSIGN_OR_RETURN(const Value string, ToSoftString(in, value));
  if (string.is_markup()) return AppendString(in, string, out);
  INCIPIT_RETURN_IF_ERROR(in.heap().ChargeBytes(string.bytes().size()));
  AppendWithEscapes(string.text(), HtmlEscape, out);
  return in.heap().CheckSize(out.size());
}

absl::StatusOr<Value> ToString(Interpreter& in, const Value& value) {
  if (value.is_string()) return value.WithMarkup(false);
  TextBuilder builder;
  INCIPIT_RETURN_IF_ERROR(AppendString(in, value, builder));
  return in.heap().Finish(builder);
}

absl::StatusOr<Value> ToSoftString(Interpreter& in, const Value& value) {
  return value.is_string() ? value : ToString(in, value);
}

}  // namespace incipit::jinja
