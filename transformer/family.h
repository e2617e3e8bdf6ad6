// Declares the supported model families, such as Llama. A family has default values for keys that
// are absent from config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/json/json_fields.h"

namespace incipit {

// A model family, such as Llama, with default values for keys that are absent from config.json. The
// default values are those of the Hugging Face library transformers.
struct Family {
  std::string_view architecture, model_type;
  int32_t intermediate_size, vocab_size, max_positions;
  // Default values of num_key_value_heads and head_dim in config.json. An empty `num_kv_heads`
  // means the number of query heads. An empty `head_dim` means hidden_size divided by the number of
  // query heads.
  std::optional<int32_t> num_kv_heads, head_dim;
  // Default size of the attention window, in positions. 0: no window.
  int32_t sliding_window = 0;
};

// Returns the model family from the keys `architectures` and `model_type` of config.json. Returns
// INVALID_ARGUMENT if the two keys name different families. Returns UNIMPLEMENTED if
// `architectures` names no supported family.
absl::StatusOr<const Family*> ReadFamily(const JsonFields& fields);

}  // namespace incipit
