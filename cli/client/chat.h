// Declares the command `incipit chat`, which holds a conversation with a model and prints the
// output while the output arrives.
#pragma once

#include <span>
#include <string_view>

namespace incipit {

int RunChat(std::span<const std::string_view> args);

}  // namespace incipit
