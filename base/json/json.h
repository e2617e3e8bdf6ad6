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
  // Number of values of all kinds, containers included; limits the memory.
  int64_t values_max = 10'000'000;
  int32_t depth_max = 64;  // depth of nested arrays and objects
  DuplicateKeys duplicate_keys = DuplicateKeys::kRefused;
};

// Parses `text` as nlohmann::json or nlohmann::ordered_json. Returns INVALID_ARGUMENT if a limit is
// exceeded, if the text is not JSON (RFC 8259, in UTF-8), or if an object contains a key twice.
// Duplicate keys are allowed only if `limits` allows them, because parsers interpret them
// differently.
template <typename Json = nlohmann::json>
absl::StatusOr<Json> ParseJson(std::string_view text, const JsonLimits& limits = {});

// Parses a text that must hold a JSON object. Other errors are those of ParseJson.
absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text, const JsonLimits& limits);

// Returns `value` as text for an error message: compact, and cut if the text is long.
std::string ShownValue(const nlohmann::json& value);

}  // namespace incipit
