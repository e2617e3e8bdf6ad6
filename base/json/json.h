// Parses JSON from untrusted sources. The size, the number of values and the depth of the text are
// limited. A hostile text cannot exhaust the memory or overflow the stack.
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
  // Maximum number of values in the text. Arrays and objects are counted too. The limit bounds the
  // use of memory.
  int64_t values_max = 10'000'000;
  int32_t depth_max = 64;  // maximum depth of nested arrays and objects
  DuplicateKeys duplicate_keys = DuplicateKeys::kRefused;
};

// Parses `text`. `Json` is nlohmann::json or nlohmann::ordered_json. Returns INVALID_ARGUMENT if
// `text` exceeds a limit or is not JSON (RFC 8259, in UTF-8). An object that contains a key twice
// is an error too, unless `limits` allows duplicate keys.
template <typename Json = nlohmann::json>
absl::StatusOr<Json> ParseJson(std::string_view text, const JsonLimits& limits = {});

// Parses a text that must be a JSON object. Returns INVALID_ARGUMENT if the text is another JSON
// value. Also returns the errors of ParseJson.
absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text, const JsonLimits& limits);

// Returns `value` as compact JSON for an error message. A long text is cut.
std::string ShownValue(const nlohmann::json& value);

}  // namespace incipit
