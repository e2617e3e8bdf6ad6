#include "text/jinja/python_json.h"

#include <algorithm>
#include <cmath>

#include "base/status.h"
#include "text/jinja/arguments.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operations.h"
#include "text/jinja/unicode.h"

namespace incipit::jinja {
namespace {

using Json = nlohmann::ordered_json;

class JsonReader {
 public:
  JsonReader(Heap& heap, Origin origin) : heap_(heap), origin_(origin) {}

  absl::StatusOr<Value> Read(const Json& json, int depth) {
    if (depth > heap_.value_depth_max()) {
      return InvalidArgument("the variables of the chat template are nested more than {} deep",
                             heap_.value_depth_max());
    }
    switch (json.type()) {
      case Json::value_t::boolean:
        return Value::Bool(json.get<bool>()).WithOrigin(origin_);
      case Json::value_t::number_integer:
        return Value::Integer(json.get<int64_t>()).WithOrigin(origin_);
      case Json::value_t::number_unsigned:
        return Value::Integer(json.get<uint64_t>()).WithOrigin(origin_);
      case Json::value_t::number_float:
        return Value::Real(json.get<double>()).WithOrigin(origin_);
      case Json::value_t::string:
        return ReadString(json.get_ref<const std::string&>());
      case Json::value_t::array:
        return ReadArray(json, depth);
      case Json::value_t::object:
        return ReadObject(json, depth);
      default:
        return Value::None().WithOrigin(origin_);
    }
  }

 private:
  absl::StatusOr<Value> ReadString(const std::string& text) {
    if (!IsValidUtf8(text)) {
      return InvalidArgument("a string among the variables of the chat template is not UTF-8");
    }
    return heap_.MakeString(text, origin_);
  }

  absl::StatusOr<Value> ReadArray(const Json& json, int depth) {
    std::vector<Value> items;
    items.reserve(json.size());
    for (const Json& item : json) {
      INCIPIT_ASSIGN_OR_RETURN(Value value, Read(item, depth + 1));
      items.push_back(std::move(value));
    }
    return heap_.MakeList(std::move(items), origin_);
  }

  absl::StatusOr<Value> ReadObject(const Json& json, int depth) {
    INCIPIT_ASSIGN_OR_RETURN(Dict * dict, heap_.NewDict(json.size()));
    dict->origin = origin_;
    for (const auto& [name, item] : json.get_ref<const Json::object_t&>()) {
      INCIPIT_ASSIGN_OR_RETURN(const Value key, ReadString(name));
      INCIPIT_ASSIGN_OR_RETURN(Value value, Read(item, depth + 1));
      dict->Set(key, std::move(value));
    }
    return heap_.Finish(dict);
  }

  Heap& heap_;
  const Origin origin_;
};

struct DumpOptions {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;
  std::string item_separator = ", ", key_separator = ": ";
};

class JsonWriter {
 public:
  JsonWriter(Interpreter& in, const DumpOptions& options) : in_(in), options_(options) {}

  absl::Status Write(const Value& value, Origin origin) {
    INCIPIT_RETURN_IF_ERROR(in_.heap().Charge());
    INCIPIT_RETURN_IF_ERROR(in_.heap().CheckSize(out_.size()));
    switch (value.kind()) {
      case Kind::kString:
        return WriteString(value.text(), origin);
      case Kind::kNone:
      case Kind::kBool:
      case Kind::kInt:
      case Kind::kFloat:
        out_.Append(Scalar(value), value.origin());
        return absl::OkStatus();
      case Kind::kList:
      case Kind::kTuple:
        return WriteList(value.list());
      case Kind::kDict:
        return WriteDict(value.dict());
      default:
        return InvalidArgument("Object of type {} is not JSON serializable", TypeName(value));
    }
  }

  absl::StatusOr<Value> Finish() { return in_.heap().Finish(out_); }

 private:
  static std::string Scalar(const Value& value) {
    if (value.is_none()) return "null";
    if (value.is(Kind::kBool)) return value.boolean() ? "true" : "false";
    if (value.is(Kind::kInt)) return FormatInt(value.integer());
    if (std::isnan(value.real())) return "NaN";
    if (std::isinf(value.real())) return value.real() > 0 ? "Infinity" : "-Infinity";
    return FormatReal(value.real());
  }

  // The escape of a character, or nothing if it stands for itself.
  std::string EscapeOf(uint32_t c) const {
    switch (c) {
      case '"':
        return "\\\"";
      case '\\':
        return "\\\\";
      case '\n':
        return "\\n";
      case '\r':
        return "\\r";
      case '\t':
        return "\\t";
      case '\f':
        return "\\f";
      case '\b':
        return "\\b";
      default:
        break;
    }
    if (c < 0x20) return fmt::format("\\u{:04x}", c);
    if (!options_.ensure_ascii || c < 0x7F) return {};
    if (c < 0x10000) return fmt::format("\\u{:04x}", c);
    return fmt::format("\\u{:04x}\\u{:04x}", 0xD7C0 + (c >> 10), 0xDC00 + (c & 0x3FF));
  }

  absl::Status WriteString(const Text& text, Origin origin) {
    INCIPIT_RETURN_IF_ERROR(in_.heap().ChargeBytes(text.bytes.size()));
    out_.Append("\"", origin);
    size_t begin = 0;
    for (size_t i = 0; i < text.bytes.size();) {
      const CodePoint c = DecodeAt(text.bytes, i);
      if (const std::string escape = EscapeOf(c.value); !escape.empty()) {
        out_.Append(text, begin, i);
        out_.Append(escape, text.IsLiteralAt(i) ? Origin::kRequest : Origin::kTemplate);
        begin = i + c.size;
      }
      i += c.size;
    }
    out_.Append(text, begin, text.bytes.size());
    out_.Append("\"", origin);
    return absl::OkStatus();
  }

  absl::Status NewLine(Origin origin) {
    if (!options_.indent) return absl::OkStatus();
    out_.Append("\n", origin);
    INCIPIT_RETURN_IF_ERROR(
        in_.heap().CheckSize(out_.size() + options_.indent->size() * static_cast<size_t>(level_)));
    for (int i = 0; i < level_; ++i) out_.Append(*options_.indent, origin);
    return absl::OkStatus();
  }

  absl::Status WriteList(const List& list) {
    if (list.items.empty()) {
      out_.Append("[]", list.origin);
      return absl::OkStatus();
    }
    out_.Append("[", list.origin);
    ++level_;
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_.Append(options_.item_separator, list.origin);
      INCIPIT_RETURN_IF_ERROR(NewLine(list.origin));
      INCIPIT_RETURN_IF_ERROR(Write(list.items[i], list.origin));
    }
    --level_;
    INCIPIT_RETURN_IF_ERROR(NewLine(list.origin));
    out_.Append("]", list.origin);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<const Dict::Entry*>> Entries(const Dict& dict) {
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (!options_.sort_keys) return entries;
    absl::Status status;
    std::stable_sort(entries.begin(), entries.end(), [&](const auto* left, const auto* right) {
      const absl::StatusOr<bool> less = Less(in_, left->key, right->key);
      if (!less.ok()) status = less.status();
      return less.ok() && *less;
    });
    if (!status.ok()) return status;
    return entries;
  }

  absl::Status WriteDict(const Dict& dict) {
    if (dict.size() == 0) {
      out_.Append("{}", dict.origin);
      return absl::OkStatus();
    }
    INCIPIT_ASSIGN_OR_RETURN(const std::vector<const Dict::Entry*> entries, Entries(dict));
    out_.Append("{", dict.origin);
    ++level_;
    bool first = true;
    for (const Dict::Entry* entry : entries) {
      if (!first) out_.Append(options_.item_separator, dict.origin);
      first = false;
      INCIPIT_RETURN_IF_ERROR(NewLine(dict.origin));
      INCIPIT_RETURN_IF_ERROR(WriteKey(entry->key, dict.origin));
      out_.Append(options_.key_separator, dict.origin);
      INCIPIT_RETURN_IF_ERROR(Write(entry->value, dict.origin));
    }
    --level_;
    INCIPIT_RETURN_IF_ERROR(NewLine(dict.origin));
    out_.Append("}", dict.origin);
    return absl::OkStatus();
  }

  absl::Status WriteKey(const Value& key, Origin origin) {
    if (key.is_string()) return WriteString(key.text(), origin);
    if (!key.is_number() && !key.is_none()) {
      return InvalidArgument("keys must be str, int, float, bool or None, not {}", TypeName(key));
    }
    out_.Append(fmt::format("\"{}\"", Scalar(key)), origin);
    return absl::OkStatus();
  }

  Interpreter& in_;
  const DumpOptions& options_;
  TextBuilder out_;
  int level_ = 0;
};

absl::Status ReadIndent(const Value& indent, const Heap& heap, DumpOptions& options) {
  if (indent.is_none()) return absl::OkStatus();
  if (indent.is_string()) {
    options.indent = std::string(indent.bytes());
  } else {
    INCIPIT_ASSIGN_OR_RETURN(const Int width, ToIndex(indent, "indent"));
    const Int width_max = static_cast<Int>(heap.limits().output_bytes_max);
    if (width > width_max) return heap.CheckSize(heap.limits().output_bytes_max + 1);
    options.indent = std::string(static_cast<size_t>(std::max<Int>(width, 0)), ' ');
  }
  options.item_separator = ",";
  return absl::OkStatus();
}

absl::Status ReadSeparators(Interpreter& in, const Value& separators, DumpOptions& options) {
  INCIPIT_ASSIGN_OR_RETURN(const std::vector<Value> parts, ToVector(in, separators));
  if (parts.size() != 2 || !parts[0].is_string() || !parts[1].is_string()) {
    return InvalidArgument("tojson() takes two strings as separators");
  }
  options.item_separator = parts[0].bytes();
  options.key_separator = parts[1].bytes();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Value> FromJson(Heap& heap, const nlohmann::ordered_json& json, Origin origin) {
  return JsonReader(heap, origin).Read(json, 1);
}

absl::StatusOr<Value> ToJsonFilter(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind(
          {"tojson", {"value", "ensure_ascii", "indent", "separators", "sort_keys"}, 1},
          arguments));
  DumpOptions options;
  INCIPIT_ASSIGN_OR_RETURN(options.ensure_ascii, bound.Truth(in, 1, false));
  INCIPIT_ASSIGN_OR_RETURN(options.sort_keys, bound.Truth(in, 4, false));
  if (bound.Find(2) != nullptr) INCIPIT_RETURN_IF_ERROR(ReadIndent(bound[2], in.heap(), options));
  if (!bound.IsNone(3)) INCIPIT_RETURN_IF_ERROR(ReadSeparators(in, bound[3], options));
  JsonWriter writer(in, options);
  INCIPIT_RETURN_IF_ERROR(writer.Write(bound[0], Origin::kTemplate));
  return writer.Finish();
}

}  // namespace incipit::jinja
