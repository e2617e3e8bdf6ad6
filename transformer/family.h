// The model families that are served: their names in config.json, and the defaults of absent keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/json/json_fields.h"

namespace incipit {

// What an absent key means: the defaults of the transformers library's configuration classes.
struct Family {
  std::string_view architecture, model_type;
  int32_t intermediate_size, vocab_size, max_positions;
  std::optional<int32_t> num_kv_heads, head_dim;  // none: as many as heads; hidden / heads
  int32_t sliding_window = 0;                     // 0: none
};

// By `architectures` and `model_type`, which must agree. UNIMPLEMENTED for another architecture.
absl::StatusOr<const Family*> ReadFamily(const JsonFields& fields);

}  // namespace incipit
