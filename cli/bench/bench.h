// `incipit bench`: a load generator, and what it measured.
#pragma once

#include <span>
#include <string_view>

namespace incipit {

int RunBench(std::span<const std::string_view> args);

}  // namespace incipit
