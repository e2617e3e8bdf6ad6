// Declares the commands `incipit tokenize` and `incipit detokenize`, which convert text to token
// ids and back, without a server.
#pragma once

#include <span>
#include <string_view>

namespace incipit {

int RunTokenize(std::span<const std::string_view> args);
int RunDetokenize(std::span<const std::string_view> args);

}  // namespace incipit
