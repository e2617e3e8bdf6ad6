// Appends JSON values to a text without building a JSON tree.
#pragma once

#include <string>
#include <string_view>

namespace incipit {

// Appends `text` to `out` as a JSON string with quotation marks. Each byte that is not valid UTF-8
// becomes U+FFFD, the replacement character.
void AppendJson(std::string_view text, std::string& out);

// Appends the number `value` with nine significant digits. Infinite values and NaN become the
// nearest finite numbers and 0, because JSON has no such values.
void AppendJson(float value, std::string& out);

}  // namespace incipit
