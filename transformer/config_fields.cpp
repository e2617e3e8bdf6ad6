#include "transformer/config_fields.h"

#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/status.h"

namespace incipit {
namespace {

// Integers beyond 64 bits come back as floating point from the parser, so that what is left here
// either fits or is above any bound.
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

std::string ShownValue(const nlohmann::json& value) {
  constexpr size_t kShownMax = 80;
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > kShownMax) text = text.substr(0, kShownMax) + "...";
  return text;
}

bool ConfigFields::Contains(std::string_view key) const {
  return object_.is_object() && object_.contains(key);
}

const nlohmann::json* ConfigFields::Find(std::string_view key) const {
  if (!object_.is_object()) return nullptr;
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::string ConfigFields::NameOf(std::string_view key) const { return prefix_ + std::string(key); }

absl::Status ConfigFields::WrongType(std::string_view key, const nlohmann::json& value,
                                     std::string_view expected) const {
  return InvalidArgument("{} is {}; it must be {}", NameOf(key), ShownValue(value), expected);
}

absl::StatusOr<std::optional<int64_t>> ConfigFields::Int(std::string_view key,
                                                         IntRange range) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return std::optional<int64_t>();
  const std::optional<int64_t> number = AsInt(*value);
  if (!number || *number < range.min || *number > range.max) {
    return WrongType(key, *value, fmt::format("an integer from {} to {}", range.min, range.max));
  }
  return number;
}

absl::StatusOr<std::optional<double>> ConfigFields::Number(std::string_view key,
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

absl::StatusOr<std::optional<bool>> ConfigFields::Bool(std::string_view key) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_boolean()) return WrongType(key, *value, "true or false");
  return std::optional<bool>(value->get<bool>());
}

absl::StatusOr<std::optional<std::string>> ConfigFields::String(std::string_view key) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return WrongType(key, *value, "a string");
  return std::optional<std::string>(value->get<std::string>());
}

absl::Status ConfigFields::Read(std::string_view key, IntRange range, int32_t& target) const {
  INCIPIT_CHECK(range.max <= std::numeric_limits<int32_t>::max());
  INCIPIT_ASSIGN_OR_RETURN(const std::optional<int64_t> value, Int(key, range));
  if (value) target = static_cast<int32_t>(*value);
  return absl::OkStatus();
}

absl::Status ConfigFields::Read(std::string_view key, NumberRange range, double& target) const {
  INCIPIT_ASSIGN_OR_RETURN(const std::optional<double> value, Number(key, range));
  if (value) target = *value;
  return absl::OkStatus();
}

absl::Status ConfigFields::Read(std::string_view key, bool& target) const {
  INCIPIT_ASSIGN_OR_RETURN(const std::optional<bool> value, Bool(key));
  if (value) target = *value;
  return absl::OkStatus();
}

}  // namespace incipit
