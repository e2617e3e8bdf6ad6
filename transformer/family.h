// Declares the supported model families: their names in config.json, and the values of keys that
// config.json omits.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/json/json_fields.h"

namespace incipit {

// A model family, with the values of keys that config.json omits. These values are the defaults of
// the configuration classes of the transformers library.
struct Family {
  std::string_view architecture, model_type;
  int32_t intermediate_size, vocab_size, max_positions;
  // If `num_kv_heads` is absent, the default is num_heads. If `head_dim` is absent, the default is
  // hidden_size / num_heads.
  std::optional<int32_t> num_kv_heads, head_dim;
  int32_t sliding_window = 0;  // default attention window, as a number of positions; 0: no window
};

// Returns the family that the keys `architectures` and `model_type` name. Returns INVALID_ARGUMENT
// if the keys name different families. Returns UNIMPLEMENTED if `architectures` names no supported
// family.
absl::StatusOr<const Family*> ReadFamily(const JsonFields& fields);

}  // namespace incipit
