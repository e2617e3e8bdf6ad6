// Reads the parameters of the rotary position embedding (RoPE) from config.json. Older and newer
// forms of these keys are supported.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "transformer/config.h"

namespace incipit {

// Reads the RoPE parameters from the object `rope_scaling` or `rope_parameters` of `config`.
// Returns UNIMPLEMENTED for an unknown RoPE type, and for a type whose frequencies depend on the
// length of the prompt (dynamic, longrope). Returns INVALID_ARGUMENT for a value out of range.
absl::StatusOr<RopeConfig> ParseRopeConfig(const nlohmann::json& config, int32_t max_positions);

}  // namespace incipit
