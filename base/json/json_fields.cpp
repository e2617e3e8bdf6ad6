#include "base/json/json_fields.h"

#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/json/json.h"
#include "base/status.h"

namespace incipit {
namespace {

// Returns the integer `value`, or nullopt if `value` is not an integer. Returns the maximum of
// int64_t for an unsigned integer that is greater than this maximum.
std::optional<int64_t> AsInt(const nlohmann::json& value) {
  if (value.is_number_unsigned()) {
    const auto bits = value.get<uint64_t>();
    constexpr auto kMax = std::numeric_limits<int64_t>::max();
    return bits > static_cast<uint64_t>(kMax) ? kMax : static_cast<int64_t>(bits);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  return std::nullopt;
}

}  // namespace

JsonFields::JsonFields(const nlohmann::json& object, std::string path)
    : object_(&object), path_(std::move(path)) {
  INCIPIT_CHECK(object.is_object());
}

absl::StatusOr<JsonFields> JsonFields::Of(const nlohmann::json& object, std::string path) {
  if (!object.is_object()) {
    return InvalidArgument("{} is {}; it must be an object", path, ShownValue(object));
  }
  return JsonFields(object, std::move(path));
}

bool JsonFields::Contains(std::string_view key) const { return object_->contains(key); }

const nlohmann::json* JsonFields::Find(std::string_view key) const {
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

std::string JsonFields::PathOf(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

absl::Status JsonFields::Missing(std::string_view key) const {
  return InvalidArgument("{} is missing", PathOf(key));
}

absl::Status JsonFields::WrongType(std::string_view key, const nlohmann::json& value,
                                   std::string_view expected) const {
  return InvalidArgument("{} is {}; it must be {}", PathOf(key), ShownValue(value), expected);
}

absl::StatusOr<std::optional<int64_t>> JsonFields::OptionalInteger(std::string_view key,
                                                                   IntRange range) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return std::optional<int64_t>();
  const std::optional<int64_t> number = AsInt(*value);
  if (!number || *number < range.min || *number > range.max) {
    return WrongType(key, *value, fmt::format("an integer from {} to {}", range.min, range.max));
  }
  return number;
}

absl::StatusOr<std::optional<double>> JsonFields::OptionalNumber(std::string_view key,
                                                                 NumberRange range) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return std::optional<double>();
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  const bool is_above_min = range.includes_min ? number >= range.min : number > range.min;
  if (!is_above_min || !(number <= range.max)) {
    return WrongType(
        key, *value,
        fmt::format("a number {} {:g} and at most {:g}",
                    range.includes_min ? "of at least" : "above", range.min, range.max));
  }
  return std::optional<double>(number);
}

absl::StatusOr<std::optional<std::string>> JsonFields::OptionalString(std::string_view key) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return WrongType(key, *value, "a string");
  return std::optional<std::string>(value->get<std::string>());
}

absl::StatusOr<bool> JsonFields::Bool(std::string_view key, bool fallback) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) return WrongType(key, *value, "true or false");
  return value->get<bool>();
}

absl::StatusOr<int64_t> JsonFields::Integer(std::string_view key, IntRange range) const {
  INCIPIT_ASSIGN_OR_RETURN(const std::optional<int64_t> value, OptionalInteger(key, range));
  if (!value) return Missing(key);
  return *value;
}

absl::StatusOr<std::string> JsonFields::String(std::string_view key) const {
  INCIPIT_ASSIGN_OR_RETURN(std::optional<std::string> value, OptionalString(key));
  if (!value) return Missing(key);
  return *std::move(value);
}

absl::StatusOr<const nlohmann::json*> JsonFields::Array(std::string_view key) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return Missing(key);
  if (!value->is_array()) return WrongType(key, *value, "an array");
  return value;
}

absl::StatusOr<const nlohmann::json*> JsonFields::Object(std::string_view key) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return Missing(key);
  if (!value->is_object()) return WrongType(key, *value, "an object");
  return value;
}

absl::Status JsonFields::Read(std::string_view key, IntRange range, int32_t& target) const {
  INCIPIT_CHECK(range.max <= std::numeric_limits<int32_t>::max());
  INCIPIT_ASSIGN_OR_RETURN(const std::optional<int64_t> value, OptionalInteger(key, range));
  if (value) target = static_cast<int32_t>(*value);
  return absl::OkStatus();
}

absl::Status JsonFields::Read(std::string_view key, NumberRange range, double& target) const {
  INCIPIT_ASSIGN_OR_RETURN(const std::optional<double> value, OptionalNumber(key, range));
  if (value) target = *value;
  return absl::OkStatus();
}

absl::Status JsonFields::Read(std::string_view key, bool& target) const {
  INCIPIT_ASSIGN_OR_RETURN(target, Bool(key, target));
  return absl::OkStatus();
}

}  // namespace incipit
