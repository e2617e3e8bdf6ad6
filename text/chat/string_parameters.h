// Finds the parameters of tools that a request declares as strings.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_set.h"

namespace incipit {

// The set of tool parameters that a request declares as strings. Some models write values without
// quotation marks. In their output, `12` may be a string or a number. Immutable.
class StringParameters {
 public:
  // Reads the field `tools` of a request. Each element is an object {"type": "function",
  // "function": {"name": NAME, "parameters": JSON_SCHEMA}}, or only the inner object. Ignores
  // elements of another form.
  explicit StringParameters(const nlohmann::ordered_json& tools);

  // Returns true if the tool `tool` declares the parameter `parameter` as a string.
  bool Contains(std::string_view tool, std::string_view parameter) const;

 private:
  static std::string KeyOf(std::string_view tool, std::string_view parameter);

  absl::flat_hash_set<std::string> keys_;
};

}  // namespace incipit
