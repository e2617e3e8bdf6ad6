// Python's str() and repr().
#include "base/status.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/numbers.h"
#include "text/jinja/objects.h"
#include "text/jinja/operations.h"
#include "text/jinja/unicode.h"

namespace incipit::jinja {
namespace {

// The escape that repr() writes for a character, or nothing if it stands for itself.
std::string EscapeOf(uint32_t c, char quote) {
  if (c == '\\' || c == static_cast<uint32_t>(quote)) return {'\\', static_cast<char>(c)};
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  if (c >= 0x20 && c < 0x7F) return {};
  if (c < 0x20 || c == 0x7F) return fmt::format("\\x{:02x}", c);
  if (IsPrintable(c)) return {};
  if (c < 0x100) return fmt::format("\\x{:02x}", c);
  if (c < 0x10000) return fmt::format("\\u{:04x}", c);
  return fmt::format("\\U{:08x}", c);
}

class ReprWriter {
 public:
  ReprWriter(Interpreter& in, TextBuilder& out) : in_(in), out_(out) {}

  // `origin` is that of the quotes and of what carries no mark of its own.
  absl::Status Write(const Value& value, Origin origin) {
    INCIPIT_RETURN_IF_ERROR(in_.heap().Charge());
    INCIPIT_RETURN_IF_ERROR(in_.heap().CheckSize(out_.size()));
    switch (value.kind()) {
      case Kind::kMissing:
      case Kind::kUndefined:
        out_.Append("Undefined");
        return absl::OkStatus();
      case Kind::kNone:
        out_.Append("None", value.origin());
        return absl::OkStatus();
      case Kind::kBool:
        out_.Append(value.boolean() ? "True" : "False", value.origin());
        return absl::OkStatus();
      case Kind::kInt:
        out_.Append(FormatInt(value.integer()), value.origin());
        return absl::OkStatus();
      case Kind::kFloat:
        out_.Append(FormatReal(value.real()), value.origin());
        return absl::OkStatus();
      case Kind::kString:
        return WriteString(value, origin);
      case Kind::kList:
      case Kind::kTuple:
        return WriteSequence(value);
      case Kind::kDict:
        return WriteDict(value.dict());
      case Kind::kRange:
        return WriteRange(value.range());
      case Kind::kIterator:
        out_.Append(fmt::format("<{} object>", value.iterator().type_name()));
        return absl::OkStatus();
      case Kind::kObject:
        return WriteObject(value);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status WriteString(const Value& string, Origin origin) {
    const Text& text = string.text();
    INCIPIT_RETURN_IF_ERROR(in_.heap().ChargeBytes(text.bytes.size()));
    const bool has_single = text.bytes.find('\'') != std::string::npos;
    const bool has_double = text.bytes.find('"') != std::string::npos;
    const char quote = has_single && !has_double ? '"' : '\'';
    if (string.is_markup()) out_.Append("Markup(", origin);
    out_.Append(std::string_view(&quote, 1), origin);
    size_t begin = 0;  // of the characters that stand for themselves
    for (size_t i = 0; i < text.bytes.size();) {
      const CodePoint c = DecodeAt(text.bytes, i);
      if (const std::string escape = EscapeOf(c.value, quote); !escape.empty()) {
        out_.Append(text, begin, i);
        out_.Append(escape, text.IsLiteralAt(i) ? Origin::kRequest : Origin::kTemplate);
        begin = i + c.size;
      }
      i += c.size;
    }
    out_.Append(text, begin, text.bytes.size());
    out_.Append(std::string_view(&quote, 1), origin);
    if (string.is_markup()) out_.Append(")", origin);
    return absl::OkStatus();
  }

  absl::Status WriteSequence(const Value& value) {
    const List& list = value.list();
    const bool is_list = value.is(Kind::kList);
    out_.Append(is_list ? "[" : "(", list.origin);
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_.Append(", ", list.origin);
      INCIPIT_RETURN_IF_ERROR(Write(list.items[i], list.origin));
    }
    out_.Append(is_list ? "]" : list.items.size() == 1 ? ",)" : ")", list.origin);
    return absl::OkStatus();
  }

  absl::Status WriteDict(const Dict& dict) {
    out_.Append("{", dict.origin);
    bool first = true;
    for (const Dict::Entry& entry : dict.entries()) {
      if (!first) out_.Append(", ", dict.origin);
      first = false;
      INCIPIT_RETURN_IF_ERROR(Write(entry.key, dict.origin));
      out_.Append(": ", dict.origin);
      INCIPIT_RETURN_IF_ERROR(Write(entry.value, dict.origin));
    }
    out_.Append("}", dict.origin);
    return absl::OkStatus();
  }

  absl::Status WriteRange(const Range& range) {
    out_.Append(fmt::format("range({}, {}", range.start, range.stop));
    if (range.step != 1) out_.Append(fmt::format(", {}", range.step));
    out_.Append(")");
    return absl::OkStatus();
  }

  absl::Status WriteObject(const Value& value) {
    if (auto* object = As<NamespaceObject>(value)) {
      if (++namespace_depth_ > in_.heap().limits().depth_max) {
        return InvalidArgument("a namespace that holds itself cannot be printed");
      }
      out_.Append("<Namespace ");
      INCIPIT_RETURN_IF_ERROR(WriteDict(object->attributes));
      out_.Append(">");
      --namespace_depth_;
      return absl::OkStatus();
    }
    if (auto* view = As<DictView>(value)) return WriteView(*view);
    if (auto* loop = As<LoopContext>(value)) {
      INCIPIT_ASSIGN_OR_RETURN(const std::optional<int64_t> length, loop->Length(in_));
      out_.Append(fmt::format("<LoopContext {}/{}>", loop->index(), *length));
      return absl::OkStatus();
    }
    out_.Append(value.object().Repr());
    return absl::OkStatus();
  }

  absl::Status WriteView(const DictView& view) {
    const Origin origin = view.dict().origin;
    out_.Append(view.type_name());
    out_.Append("([", origin);
    bool first = true;
    for (const Dict::Entry& entry : view.dict().entries()) {
      if (!first) out_.Append(", ", origin);
      first = false;
      if (view.part() == DictView::Part::kItems) out_.Append("(", origin);
      if (view.part() != DictView::Part::kValues) {
        INCIPIT_RETURN_IF_ERROR(Write(entry.key, origin));
      }
      if (view.part() == DictView::Part::kItems) out_.Append(", ", origin);
      if (view.part() != DictView::Part::kKeys) {
        INCIPIT_RETURN_IF_ERROR(Write(entry.value, origin));
      }
      if (view.part() == DictView::Part::kItems) out_.Append(")", origin);
    }
    out_.Append("])", origin);
    return absl::OkStatus();
  }

  Interpreter& in_;
  TextBuilder& out_;
  int namespace_depth_ = 0;
};

}  // namespace

absl::Status AppendRepr(Interpreter& in, const Value& value, TextBuilder& out) {
  return ReprWriter(in, out).Write(value, Origin::kTemplate);
}

absl::Status AppendString(Interpreter& in, const Value& value, TextBuilder& out) {
  if (value.is_undefined()) return absl::OkStatus();
  if (!value.is_string()) return AppendRepr(in, value, out);
  INCIPIT_RETURN_IF_ERROR(in.heap().CheckSize(out.size() + value.bytes().size()));
  INCIPIT_RETURN_IF_ERROR(in.heap().ChargeBytes(value.bytes().size()));
  out.Append(value.text());
  return absl::OkStatus();
}

absl::StatusOr<Value> ToString(Interpreter& in, const Value& value) {
  if (value.is_string()) return Value::String(value.text_ptr());
  TextBuilder builder;
  INCIPIT_RETURN_IF_ERROR(AppendString(in, value, builder));
  return in.heap().Finish(builder);
}

absl::StatusOr<Value> ToSoftString(Interpreter& in, const Value& value) {
  return value.is_string() ? value : ToString(in, value);
}

absl::Status AppendEscaped(Interpreter& in, const Value& value, TextBuilder& out) {
  INCIPIT_ASSIGN_OR_RETURN(const Value string, ToSoftString(in, value));
  if (string.is_markup()) return AppendString(in, string, out);
  const Text& text = string.text();
  INCIPIT_RETURN_IF_ERROR(in.heap().ChargeBytes(text.bytes.size()));
  size_t begin = 0;
  for (size_t i = 0; i < text.bytes.size(); ++i) {
    std::string_view escape;
    switch (text.bytes[i]) {
      case '&':
        escape = "&amp;";
        break;
      case '<':
        escape = "&lt;";
        break;
      case '>':
        escape = "&gt;";
        break;
      case '\'':
        escape = "&#39;";
        break;
      case '"':
        escape = "&#34;";
        break;
      default:
        continue;
    }
    out.Append(text, begin, i);
    out.Append(escape, text.IsLiteralAt(i) ? Origin::kRequest : Origin::kTemplate);
    begin = i + 1;
  }
  out.Append(text, begin, text.bytes.size());
  return in.heap().CheckSize(out.size());
}

}  // namespace incipit::jinja
