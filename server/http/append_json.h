// Functions that append a value to a string as JSON text.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/types.h"

namespace incipit {

// Appends `text` to `out` as a JSON string with quotation marks. U+FFFD, the replacement character,
// replaces each sequence of bytes that is not valid UTF-8.
void AppendJson(std::string_view text, std::string& out);

// Appends `value` to `out` as a JSON number with nine significant digits. JSON has neither infinity
// nor NaN. Plus or minus infinity becomes the largest or the lowest finite float, and NaN becomes
// 0.
void AppendJson(float value, std::string& out);

// Appends `tokens` to `out` as a JSON array of numbers.
void AppendJson(std::span<const TokenId> tokens, std::string& out);

}  // namespace incipit
