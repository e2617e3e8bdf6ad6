// Parses JSON that nobody vouches for: a file may be truncated, hostile or merely wrong, and none
// of that may overflow a stack, fill the memory or be misread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace incipit {

enum class DuplicateKeys : uint8_t { kRefused, kLastCounts };

struct JsonLimits {
  size_t bytes_max = size_t{64} << 20;
  int64_t values_max = 10'000'000;  // of all kinds, containers included: bounds the memory
  int32_t depth_max = 64;           // of nested arrays and objects
  DuplicateKeys duplicate_keys = DuplicateKeys::kRefused;
};

// Returns the value that `text` holds, as nlohmann::json or nlohmann::ordered_json.
// INVALID_ARGUMENT if a limit is passed, the text is not JSON (RFC 8259, UTF-8), or an object holds
// a key twice, which readers would take differently, unless duplicates are allowed.
template <typename Json = nlohmann::json>
absl::StatusOr<Json> ParseJson(std::string_view text, const JsonLimits& limits = {});

// Does the same for a text that must hold an object.
absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text, const JsonLimits& limits);

// Returns a value as an error message shows it: compact, and cut if it is long.
std::string ShownValue(const nlohmann::json& value);

}  // namespace incipit
