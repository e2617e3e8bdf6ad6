// Declares the command `incipit generate`, which sends one prompt to a server and prints the output
// as it arrives.
#pragma once

#include <span>
#include <string_view>

namespace incipit {

int RunGenerate(std::span<const std::string_view> args);

}  // namespace incipit
