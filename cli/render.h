// Declares the command `incipit render`, which converts conversations to prompts with a chat
// template, without a server.
#pragma once

#include <span>
#include <string_view>

namespace incipit {

int RunRender(std::span<const std::string_view> args);

}  // namespace incipit
