// Declares the command `incipit analyze`, which reports how much computing a prefix cache saves for
// a log of prompts.
#pragma once

#include <span>
#include <string_view>

namespace incipit {

int RunAnalyze(std::span<const std::string_view> args);

}  // namespace incipit
