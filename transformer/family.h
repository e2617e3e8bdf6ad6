// The model families that are served: how config.json names them, what a key that it does not hold
// means, and which keys ask for arithmetic that none of them has.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
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

// UNIMPLEMENTED, naming key and value, where a configuration asks for quantisation, experts, soft
// caps or anything else that would be computed wrongly here.
absl::Status RefuseForeignKeys(const JsonFields& fields);

}  // namespace incipit
