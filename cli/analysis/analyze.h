// `incipit analyze`: what a prefix cache could do for a log of prompts.
#pragma once

#include <span>
#include <string_view>

namespace incipit {

int RunAnalyze(std::span<const std::string_view> args);

}  // namespace incipit
