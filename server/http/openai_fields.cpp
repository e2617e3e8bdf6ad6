#include "server/http/openai_fields.h"

#include <cmath>
#include <limits>

#include "server/session/request/field_checks.h"
#include "server/session/request/request_error.h"

namespace incipit {

absl::StatusOr<OpenAiFields> OpenAiFields::Of(const Json& value, std::string path) {
  if (!value.is_object()) return InvalidField(path, "must be a JSON object");
  return OpenAiFields(value, std::move(path));
}

std::string OpenAiFields::PathOf(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

const OpenAiFields::Json* OpenAiFields::Find(std::string_view name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

absl::Status OpenAiFields::WrongType(std::string_view name, std::string_view expected) const {
  return InvalidField(PathOf(name), "must be {}", expected);
}

absl::Status OpenAiFields::Unsupported(std::string_view name, std::string_view description) const {
  return InvalidField(PathOf(name), "{}", description);
}

absl::StatusOr<std::optional<double>> OpenAiFields::Number(std::string_view name) const {
  const Json* const value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) return WrongType(name, "a number");
  return value->get<double>();
}

absl::StatusOr<std::optional<int64_t>> OpenAiFields::Integer(std::string_view name, int64_t min,
                                                             int64_t max) const {
  const Json* const value = Find(name);
  if (value == nullptr) return std::nullopt;
  int64_t number = 0;
  if (value->is_number_unsigned()) {
    const uint64_t bits = value->get<uint64_t>();
    number = bits > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())
                 ? std::numeric_limits<int64_t>::max()
                 : static_cast<int64_t>(bits);
  } else if (value->is_number_integer()) {
    number = value->get<int64_t>();
  } else if (value->is_number_float() && std::abs(value->get<double>()) < 1e15 &&
             std::trunc(value->get<double>()) == value->get<double>()) {
    number = static_cast<int64_t>(value->get<double>());
  } else {
    return WrongType(name, "an integer");
  }
  if (number >= min && number <= max) return number;
  return WithBoundOf(
      number, max,
      InvalidField(PathOf(name), "is {}; the value must be from {} to {}", number, min, max));
}

absl::StatusOr<std::optional<bool>> OpenAiFields::Bool(std::string_view name) const {
  const Json* const value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) return WrongType(name, "true or false");
  return value->get<bool>();
}

absl::StatusOr<std::optional<std::string>> OpenAiFields::Text(std::string_view name) const {
  const Json* const value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return WrongType(name, "a string");
  return value->get<std::string>();
}

}  // namespace incipit
