// Reads the fields of a JSON object in a request of OpenAI's API.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace incipit {

// A view of a JSON object. A field with the value null is absent. An error is INVALID_FIELD, names
// the path of the field, and does not contain the value.
class OpenAiFields {
 public:
  using Json = nlohmann::ordered_json;

  // `path` is the path of the object in the body, such as "messages[2]"; empty for the body itself.
  // REQUIRES: `object` is a JSON object and outlives the view.
  explicit OpenAiFields(const Json& object, std::string path = {})
      : object_(object), path_(std::move(path)) {}
  // Returns a view of `value`, or an error if `value` is not a JSON object.
  static absl::StatusOr<OpenAiFields> Of(const Json& value, std::string path);

  // Returns the path of the field `name` for error messages.
  std::string PathOf(std::string_view name) const;
  // Returns the value of the field, or a null pointer if the field is absent.
  const Json* Find(std::string_view name) const;

  // Return the value of the field, or nullopt if the field is absent.
  absl::StatusOr<std::optional<double>> Number(std::string_view name) const;
  // Returns an error also if the value is outside [min, max].
  absl::StatusOr<std::optional<int64_t>> Integer(std::string_view name, int64_t min,
                                                 int64_t max) const;
  absl::StatusOr<std::optional<bool>> Bool(std::string_view name) const;
  absl::StatusOr<std::optional<std::string>> Text(std::string_view name) const;

  // Returns an error that names the field and says that the server does not support the field.
  absl::Status Unsupported(std::string_view name, std::string_view description) const;

 private:
  absl::Status WrongType(std::string_view name, std::string_view expected) const;

  const Json& object_;
  const std::string path_;
};

}  // namespace incipit
