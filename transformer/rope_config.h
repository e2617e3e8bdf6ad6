// Reads the RoPE parameters of config.json, in any of the forms that checkpoints use.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "transformer/config.h"

namespace incipit {

// Reads the RoPE parameters from `rope_scaling` (with the key `type` or `rope_type`) or
// `rope_parameters`. `rope_theta` may be inside or beside these objects. Returns UNIMPLEMENTED for
// unknown types and for types whose keys depend on the length (dynamic, longrope). Returns
// INVALID_ARGUMENT for a value out of bounds.
absl::StatusOr<RopeConfig> ParseRopeConfig(const nlohmann::json& config, int32_t max_positions);

}  // namespace incipit
