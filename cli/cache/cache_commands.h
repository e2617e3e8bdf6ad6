// The commands of `incipit cache`, and the parts that these commands share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/flags.h"
#include "cli/command_line.h"

namespace incipit {

// Each function runs one command and returns its exit code. `args` are the arguments after the name
// of the command.
int RunCacheInspect(std::span<const std::string_view> args);
int RunCacheVerify(std::span<const std::string_view> args);
int RunCacheExport(std::span<const std::string_view> args);
int RunCacheImport(std::span<const std::string_view> args);

// Returns `num_bytes` with a unit, such as "192.0 MiB".
std::string SizeText(uint64_t num_bytes);
// Returns 16 hexadecimal digits for the first 8 bytes of a key.
std::string KeyText(uint64_t prefix);

}  // namespace incipit
