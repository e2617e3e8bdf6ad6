// `incipit tokenize` and `incipit detokenize`: text to ids and back without a server.
#pragma once

#include <span>
#include <string_view>

namespace incipit {

int RunTokenize(std::span<const std::string_view> args);
int RunDetokenize(std::span<const std::string_view> args);

}  // namespace incipit
