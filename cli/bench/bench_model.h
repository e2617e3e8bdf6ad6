// `incipit bench-model`: how fast the engine computes a model, without a server.
#pragma once

#include <span>
#include <string_view>

namespace incipit {

int RunBenchModel(std::span<const std::string_view> args);

}  // namespace incipit
