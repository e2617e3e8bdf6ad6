// Typed, bounded access to the keys of a JSON object, with errors that name key, value and bound.
// Without it every key of a configuration would be checked, and worded, in its own way.
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

// A value as an error message shows it: compact, and cut where it is long.
std::string ShownValue(const nlohmann::json& value);

// A view of an object; `prefix` (such as "rope_scaling.") stands before keys in messages. A key
// whose value is null counts as absent. All errors are INVALID_ARGUMENT.
class ConfigFields {
 public:
  explicit ConfigFields(const nlohmann::json& object, std::string_view prefix = "")
      : object_(object), prefix_(prefix) {}

  bool Contains(std::string_view key) const;               // null included
  const nlohmann::json* Find(std::string_view key) const;  // nullptr where absent or null
  std::string NameOf(std::string_view key) const;          // as messages show it

  absl::StatusOr<std::optional<int64_t>> Int(std::string_view key, IntRange range) const;
  absl::StatusOr<std::optional<double>> Number(std::string_view key, NumberRange range) const;
  absl::StatusOr<std::optional<bool>> Bool(std::string_view key) const;
  absl::StatusOr<std::optional<std::string>> String(std::string_view key) const;

  // The same into a variable, which keeps its value where the key is absent.
  absl::Status Read(std::string_view key, IntRange range, int32_t& target) const;
  absl::Status Read(std::string_view key, NumberRange range, double& target) const;
  absl::Status Read(std::string_view key, bool& target) const;

 private:
  absl::Status WrongType(std::string_view key, const nlohmann::json& value,
                         std::string_view expected) const;

  const nlohmann::json& object_;
  const std::string prefix_;
};

}  // namespace incipit
