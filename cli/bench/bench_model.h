// Declares the command `incipit bench-model`, which measures the speed of a model on this machine
// without a server.
#pragma once

#include <span>
#include <string_view>

namespace incipit {

int RunBenchModel(std::span<const std::string_view> args);

}  // namespace incipit
