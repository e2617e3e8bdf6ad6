// Declares the command `incipit replay`, which compares eviction policies on a log of prompts.
#pragma once

#include <span>
#include <string_view>

namespace incipit {

int RunReplay(std::span<const std::string_view> args);

}  // namespace incipit
