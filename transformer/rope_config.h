// Reads the parameters of the rotary position embedding (RoPE) from config.json, in any form that
// checkpoints use.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "transformer/config.h"

namespace incipit {

// Reads the RoPE parameters from `rope_scaling` (with the key `type` or `rope_type`) or
// `rope_parameters`. `rope_theta` may be inside these objects or in `config` itself. Returns
// UNIMPLEMENTED for an unknown RoPE type, and for types whose values depend on the length of the
// prompt (dynamic, longrope). Returns INVALID_ARGUMENT for a value out of bounds.
absl::StatusOr<RopeConfig> ParseRopeConfig(const nlohmann::json& config, int32_t max_positions);

}  // namespace incipit
