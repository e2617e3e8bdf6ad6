// Parses JSON that nobody vouches for: a file may be truncated, hostile or merely wrong, and none
// of that may overflow a stack, fill the memory or be misread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace incipit {

struct JsonLimits {
  size_t bytes_max = size_t{64} << 20;
  int64_t values_max = 10'000'000;  // of all kinds, containers included: bounds the memory
  int32_t depth_max = 64;           // of nested arrays and objects
};

// INVALID_ARGUMENT where a limit is passed, the text is not JSON (RFC 8259, UTF-8), or an object
// holds a key twice, which readers would take differently.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, const JsonLimits& limits = {});

// The bytes of a regular file of at most `bytes_max` bytes. NOT_FOUND, PERMISSION_DENIED or
// FAILED_PRECONDITION, naming the path.
absl::StatusOr<std::string> ReadTextFile(const std::filesystem::path& path,
                                         size_t bytes_max = size_t{4} << 20);

}  // namespace incipit
