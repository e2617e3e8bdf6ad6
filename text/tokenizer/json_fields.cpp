#include "text/tokenizer/json_fields.h"

#include <utility>

#include "base/status.h"
#include "text/unicode/utf8.h"

namespace incipit {
namespace {

// The deepest nesting of arrays and objects, without parsing: brackets outside of strings.
int JsonDepth(std::string_view text) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text) {
  if (text.size() > kTokenizerFileBytesMax) {
    return InvalidArgument("{} bytes; at most {} are read", text.size(), kTokenizerFileBytesMax);
  }
  if (const int depth = JsonDepth(text); depth > kTokenizerJsonDepthMax) {
    return InvalidArgument("nested {} deep; at most {} is read", depth, kTokenizerJsonDepthMax);
  }
  nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return InvalidArgument("not valid JSON");
  if (!json.is_object()) return InvalidArgument("not a JSON object but {}", json.type_name());
  return json;
}

absl::StatusOr<JsonFields> JsonFields::Of(const nlohmann::json& object, std::string path) {
  if (!object.is_object()) {
    return InvalidArgument("{} is {}, not an object", path, object.type_name());
  }
  return JsonFields(object, std::move(path));
}

std::string JsonFields::PathOf(const char* name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

const nlohmann::json* JsonFields::Find(const char* name) const {
  const auto found = object_->find(name);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

absl::StatusOr<bool> JsonFields::Bool(const char* name, bool fallback) const {
  const nlohmann::json* value = Find(name);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) {
    return InvalidArgument("{} is {}, not true or false", PathOf(name), value->type_name());
  }
  return value->get<bool>();
}

absl::StatusOr<std::optional<std::string>> JsonFields::OptionalString(const char* name) const {
  const nlohmann::json* value = Find(name);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) {
    return InvalidArgument("{} is {}, not a string", PathOf(name), value->type_name());
  }
  return std::optional(value->get<std::string>());
}

absl::StatusOr<std::string> JsonFields::String(const char* name) const {
  INCIPIT_ASSIGN_OR_RETURN(std::optional<std::string> value, OptionalString(name));
  if (!value.has_value()) return InvalidArgument("{} is missing", PathOf(name));
  return *std::move(value);
}

absl::StatusOr<int64_t> JsonFields::Integer(const char* name, int64_t min, int64_t max) const {
  const nlohmann::json* value = Find(name);
  if (value == nullptr) return InvalidArgument("{} is missing", PathOf(name));
  if (!value->is_number_integer()) {
    return InvalidArgument("{} is {}, not an integer", PathOf(name), value->type_name());
  }
  const bool too_large = value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX;
  if (too_large || value->get<int64_t>() < min || value->get<int64_t>() > max) {
    return InvalidArgument("{} is {}; it must be from {} to {}", PathOf(name), value->dump(), min,
                           max);
  }
  return value->get<int64_t>();
}

absl::StatusOr<char32_t> JsonFields::Character(const char* name) const {
  const absl::StatusOr<std::string> text = String(name);
  if (!text.ok()) return text.status();
  size_t position = 0;
  const char32_t character = text->empty() ? 0 : NextCodePoint(*text, position);
  if (text->empty() || position != text->size()) {
    return InvalidArgument("{} has {} bytes; it must be one character", PathOf(name), text->size());
  }
  return character;
}

absl::StatusOr<const nlohmann::json*> JsonFields::Array(const char* name) const {
  const nlohmann::json* value = Find(name);
  if (value == nullptr) return InvalidArgument("{} is missing", PathOf(name));
  if (!value->is_array()) {
    return InvalidArgument("{} is {}, not an array", PathOf(name), value->type_name());
  }
  return value;
}

absl::StatusOr<const nlohmann::json*> JsonFields::Object(const char* name) const {
  const nlohmann::json* value = Find(name);
  if (value == nullptr) return InvalidArgument("{} is missing", PathOf(name));
  if (!value->is_object()) {
    return InvalidArgument("{} is {}, not an object", PathOf(name), value->type_name());
  }
  return value;
}

}  // namespace incipit
