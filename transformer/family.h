// The supported model families: their names in config.json, and the values of absent keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/json/json_fields.h"

namespace incipit {

// A model family with the values of absent keys. The values are the defaults of the configuration
// classes of the transformers library.
struct Family {
  std::string_view architecture, model_type;
  int32_t intermediate_size, vocab_size, max_positions;
  // Absent num_kv_heads: as many as num_heads. Absent head_dim: hidden_size / num_heads.
  std::optional<int32_t> num_kv_heads, head_dim;
  int32_t sliding_window = 0;  // in positions; 0: no window
};

// Returns the family that `architectures` and `model_type` name. Returns INVALID_ARGUMENT if they
// disagree, and UNIMPLEMENTED for any other architecture.
absl::StatusOr<const Family*> ReadFamily(const JsonFields& fields);

}  // namespace incipit
