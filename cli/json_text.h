// Formats JSON for the output of commands: one JSON value per line.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace incipit {

// Returns `json` on one line that ends with a newline. Bytes that are not UTF-8 become U+FFFD,
// because a token may be a part of a character.
std::string JsonLine(const nlohmann::ordered_json& json);

}  // namespace incipit
