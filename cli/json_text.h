// JSON as the commands write it: one value a line.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace incipit {

// With the line's end; bytes that are no UTF-8 (a token may be part of a character) become U+FFFD.
std::string JsonLine(const nlohmann::ordered_json& json);

}  // namespace incipit
