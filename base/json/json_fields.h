// Typed, bounded access to the keys of a JSON object, with errors that name key, value and bound.
// Without it every key of a file would be checked, and worded, in its own way.
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

struct NumberRange {  // `min` itself is allowed only where `includes_min`
  double min = 0;
  double max = 0;
  bool includes_min = false;
};

// A view of an object and of its path in the file, such as `normalizer.normalizers[2]`, which
// stands before keys in messages. A key whose value is null counts as absent. All errors are
// INVALID_ARGUMENT.
class JsonFields {
 public:
  // REQUIRES: `object` is an object, and outlives the view.
  explicit JsonFields(const nlohmann::json& object, std::string path = "");
  // Returns an error if `object` is none.
  static absl::StatusOr<JsonFields> Of(const nlohmann::json& object, std::string path);

  const std::string& path() const { return path_; }
  bool Contains(std::string_view key) const;               // null included
  const nlohmann::json* Find(std::string_view key) const;  // nullptr where absent or null
  std::string PathOf(std::string_view key) const;          // as messages show it

  // Return an error if the key is absent or of another type.
  absl::StatusOr<int64_t> Integer(std::string_view key, IntRange range) const;
  absl::StatusOr<std::string> String(std::string_view key) const;
  absl::StatusOr<const nlohmann::json*> Array(std::string_view key) const;
  absl::StatusOr<const nlohmann::json*> Object(std::string_view key) const;

  // Return nothing, or the fallback, if the key is absent.
  absl::StatusOr<std::optional<int64_t>> OptionalInteger(std::string_view key,
                                                         IntRange range) const;
  absl::StatusOr<std::optional<double>> OptionalNumber(std::string_view key,
                                                       NumberRange range) const;
  absl::StatusOr<std::optional<std::string>> OptionalString(std::string_view key) const;
  absl::StatusOr<bool> Bool(std::string_view key, bool fallback) const;

  // Leave the variable as it is if the key is absent.
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
