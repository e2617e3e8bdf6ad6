// Formats the JSON output of commands: one JSON value per line.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace incipit {

// Returns `json` on one line that ends with a newline. Bytes that are not UTF-8 become U+FFFD. The
// text of a token can contain such bytes, because a token may end within a character.
std::string JsonLine(const nlohmann::ordered_json& json);

}  // namespace incipit
