// Reads the parameters of the rotary position embedding (RoPE) from config.json, with the key
// `rope_scaling` (older files) or `rope_parameters`.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "transformer/config.h"

namespace incipit {

// Reads the RoPE parameters from the object `rope_scaling` or `rope_parameters` in `config`.
// Returns UNIMPLEMENTED for an unknown RoPE type, and for a type with frequencies that depend on
// the prompt length (dynamic, longrope). Returns INVALID_ARGUMENT for a value out of range.
absl::StatusOr<RopeConfig> ParseRopeConfig(const nlohmann::json& config, int32_t max_positions);

}  // namespace incipit
