// Parses untrusted JSON. A truncated, hostile or wrong text cannot overflow the stack, exhaust the
// memory or be misread.
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
  // Maximum number of values of all kinds, arrays and objects included. Limits the use of memory.
  int64_t values_max = 10'000'000;
  int32_t depth_max = 64;  // maximum depth of nested arrays and objects
  DuplicateKeys duplicate_keys = DuplicateKeys::kRefused;
};

// Parses `text` to nlohmann::json or nlohmann::ordered_json. Returns INVALID_ARGUMENT if the text
// exceeds a limit or is not JSON (RFC 8259, in UTF-8). Also returns INVALID_ARGUMENT if an object
// contains a key twice, unless `limits` allows duplicate keys, because parsers interpret duplicate
// keys differently.
template <typename Json = nlohmann::json>
absl::StatusOr<Json> ParseJson(std::string_view text, const JsonLimits& limits = {});

// Parses a text that must hold a JSON object. Returns INVALID_ARGUMENT for any other value, and the
// errors of ParseJson.
absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text, const JsonLimits& limits);

// Returns `value` as compact text for an error message. A long text is cut.
std::string ShownValue(const nlohmann::json& value);

}  // namespace incipit
