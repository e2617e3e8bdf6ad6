// Declares typed access, with range checks, to the keys of a JSON object. Error messages contain
// the key, the value and the bound. All JSON files are checked through this class, so that their
// error messages have the same form.
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

// A range of allowed numbers. `min` itself is allowed only if `includes_min` is true.
struct NumberRange {
  double min = 0;
  double max = 0;
  bool includes_min = false;
};

// A view of a JSON object with the object's path in its file, such as `normalizer.normalizers[2]`.
// Messages show the path before the key. A key whose value is null is treated as absent. All errors
// are INVALID_ARGUMENT.
class JsonFields {
 public:
  // REQUIRES: `object` is a JSON object and outlives the view.
  explicit JsonFields(const nlohmann::json& object, std::string path = "");
  // Returns a view of `object`, or an error if `object` is not a JSON object.
  static absl::StatusOr<JsonFields> Of(const nlohmann::json& object, std::string path);

  const std::string& path() const { return path_; }
  bool Contains(std::string_view key) const;  // true also if the value of the key is null
  // Returns the value of `key`, or null if the key is absent or its value is null.
  const nlohmann::json* Find(std::string_view key) const;
  std::string PathOf(std::string_view key) const;  // returns path and key, as messages show them

  // Integer, String, Array and Object return an error if the key is absent or its value has another
  // type.
  absl::StatusOr<int64_t> Integer(std::string_view key, IntRange range) const;
  absl::StatusOr<std::string> String(std::string_view key) const;
  absl::StatusOr<const nlohmann::json*> Array(std::string_view key) const;
  absl::StatusOr<const nlohmann::json*> Object(std::string_view key) const;

  // If the key is absent, the functions named Optional... return nullopt, and Bool returns
  // `fallback`. If the value has another type, these functions return an error.
  absl::StatusOr<std::optional<int64_t>> OptionalInteger(std::string_view key,
                                                         IntRange range) const;
  absl::StatusOr<std::optional<double>> OptionalNumber(std::string_view key,
                                                       NumberRange range) const;
  absl::StatusOr<std::optional<std::string>> OptionalString(std::string_view key) const;
  absl::StatusOr<bool> Bool(std::string_view key, bool fallback) const;

  // Reads the value of `key` into `target`. If the key is absent, `target` keeps its value.
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
