// Declares JsonFields, which reads the values of a JSON object and checks their types and ranges.
// Error messages contain the key, the value and the allowed range. All JSON files of a model are
// read through this class, so that error messages have the same form.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace incipit {

struct IntRange {
  int64_t min = 1;
  int64_t max = 0;
};

// A range of allowed numbers from `min` to `max`. The number `max` is allowed. The number `min` is
// allowed only if `includes_min` is true.
struct NumberRange {
  double min = 0;
  double max = 0;
  bool includes_min = false;
};

// A view of a JSON object. `path`, such as `normalizer.normalizers[2]`, is the position of the
// object in its file, for error messages. A key with the value null is treated as absent. All
// errors are INVALID_ARGUMENT.
class JsonFields {
 public:
  // Creates a view of `object`. REQUIRES: `object` is a JSON object, and outlives this view.
  explicit JsonFields(const nlohmann::json& object, std::string path = "");
  // Returns a view of `object`. Returns an error if `object` is not a JSON object.
  static absl::StatusOr<JsonFields> Of(const nlohmann::json& object, std::string path);

  const std::string& path() const { return path_; }
  // Returns true if the object has the key `key`, even if the value of the key is null.
  bool Contains(std::string_view key) const;
  // Returns the value of `key`. Returns a null pointer if the key is absent or its value is null.
  const nlohmann::json* Find(std::string_view key) const;
  // Returns the path of `key` for an error message: the path of the object, followed by `key`.
  std::string PathOf(std::string_view key) const;

  // The functions Integer(), String(), Array() and Object() return the value of `key`. If `key` is
  // absent, or if its value has another type, these functions return an error.
  absl::StatusOr<int64_t> Integer(std::string_view key, IntRange range) const;
  absl::StatusOr<std::string> String(std::string_view key) const;
  absl::StatusOr<const nlohmann::json*> Array(std::string_view key) const;
  absl::StatusOr<const nlohmann::json*> Object(std::string_view key) const;

  // If `key` is absent, OptionalInteger(), OptionalNumber() and OptionalString() return nullopt,
  // and Bool() returns `fallback`. If the value of `key` has another type, these functions return
  // an error.
  absl::StatusOr<std::optional<int64_t>> OptionalInteger(std::string_view key,
                                                         IntRange range) const;
  absl::StatusOr<std::optional<double>> OptionalNumber(std::string_view key,
                                                       NumberRange range) const;
  absl::StatusOr<std::optional<std::string>> OptionalString(std::string_view key) const;
  absl::StatusOr<bool> Bool(std::string_view key, bool fallback) const;

  // Stores the value of `key` in `target`. If `key` is absent, `target` keeps its value.
  absl::Status Read(std::string_view key, IntRange range, int32_t& target) const;
  absl::Status Read(std::string_view key, NumberRange range, double& target) const;
  absl::Status Read(std::string_view key, bool& target) const;

 private:
  absl::Status Missing(std::string_view key) const;
  absl::Status WrongType(std::string_view key, const nlohmann::json& value,
                         std::string_view expected) const;

  const nlohmann::json* object_;
  std::string path_;
};

}  // namespace incipit
