// Reads the parameters of the rotary position embedding (RoPE) from config.json. Older and newer
// forms of these keys are supported.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "transformer/config.h"

namespace incipit {

// Reads the RoPE parameters from the object `rope_scaling` or `rope_parameters` of `config`. The
// key `rope_theta` may be in that object or in `config` itself. Returns UNIMPLEMENTED for an
// unknown RoPE type, and for a type whose frequencies depend on the length of the prompt (dynamic,
// longrope). Returns INVALID_ARGUMENT if a value is not in its allowed range.
absl::StatusOr<RopeConfig> ParseRopeConfig(const nlohmann::json& config, int32_t max_positions);

}  // namespace incipit
