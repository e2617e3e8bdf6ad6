// Declares the command `incipit chat`: a conversation with a model, with streamed output.
#pragma once

#include <span>
#include <string_view>

namespace incipit {

int RunChat(std::span<const std::string_view> args);

}  // namespace incipit
