// JSON as the commands read and write it: one value a line.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace incipit {

// With the line's end; bytes that are no UTF-8 (a token may be part of a character) become U+FFFD.
std::string JsonLine(const nlohmann::ordered_json& json);

// INVALID_ARGUMENT saying where `text` stops being JSON, or that it nests too deep.
absl::StatusOr<nlohmann::ordered_json> ParseJson(std::string_view text);

}  // namespace incipit
