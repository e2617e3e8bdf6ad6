// Finds the parameters of tools whose values are strings according to the declarations of the
// tools.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_set.h"

namespace incipit {

// Contains the parameters that the tools of a request declare as strings. A ToolFormat without
// quotes, such as kQwenXml, needs the declarations: the text `12` is a string or a number.
// Immutable.
class StringParameters {
 public:
  // Reads the list `tools` of a request. An element is an object {"type": "function", "function":
  // {"name": NAME, "parameters": JSON_SCHEMA}}, or only the object of the key "function". Ignores
  // an element with another shape.
  explicit StringParameters(const nlohmann::ordered_json& tools);

  // Returns true if the parameter `parameter` of the tool `tool` is declared as a string.
  bool Contains(std::string_view tool, std::string_view parameter) const;

 private:
  static std::string KeyOf(std::string_view tool, std::string_view parameter);

  absl::flat_hash_set<std::string> keys_;
};

}  // namespace incipit
