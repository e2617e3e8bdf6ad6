// Reads the fields of a JSON object in a request of OpenAI's API.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace incipit {

// Reads the fields of a JSON object. Treats a field with the value null as absent. Each error has
// the reason INVALID_FIELD and contains the path of the field. Errors do not contain the value of
// the field, except errors of the function Integer.
class OpenAiFields {
 public:
  using Json = nlohmann::ordered_json;

  // Creates a reader of the fields of `object`. `path` is the position of `object` in the request
  // body, such as "messages[2]"; empty if `object` is the whole body. REQUIRES: `object` is a JSON
  // object and outlives the OpenAiFields.
  explicit OpenAiFields(const Json& object, std::string path = {})
      : object_(object), path_(std::move(path)) {}
  // Returns a reader of the fields of `value`, or an error if `value` is not a JSON object. `path`
  // is the position of `value` in the request body.
  static absl::StatusOr<OpenAiFields> Of(const Json& value, std::string path);

  // Returns the path of the field `name` in the request body, for error messages.
  std::string PathOf(std::string_view name) const;
  // Returns the value of the field `name`, or a null pointer if the field is absent.
  const Json* Find(std::string_view name) const;

  // Returns the number in the field `name`, or nullopt if the field is absent. Returns an error if
  // the value is not a number.
  absl::StatusOr<std::optional<double>> Number(std::string_view name) const;
  // Returns the integer in the field `name`, or nullopt if the field is absent. Returns an error if
  // the value is not an integer in [min, max].
  absl::StatusOr<std::optional<int64_t>> Integer(std::string_view name, int64_t min,
                                                 int64_t max) const;
  absl::StatusOr<std::optional<bool>> Bool(std::string_view name) const;
  absl::StatusOr<std::optional<std::string>> Text(std::string_view name) const;

  // Returns an INVALID_FIELD error. The message is the path of the field `name`, followed by
  // `description`.
  absl::Status Unsupported(std::string_view name, std::string_view description) const;

 private:
  absl::Status WrongType(std::string_view name, std::string_view expected) const;

  const Json& object_;
  const std::string path_;
};

}  // namespace incipit
