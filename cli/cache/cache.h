// Runs `incipit cache`: commands for the folder of a disk cache.
#pragma once

#include <span>
#include <string_view>

namespace incipit {

// Runs the command that args[0] names, and returns the exit code.
int RunCache(std::span<const std::string_view> args);

}  // namespace incipit
