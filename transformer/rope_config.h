// The rotary part of a configuration, in any of the spellings that checkpoints carry.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "transformer/config.h"

namespace incipit {

// From `rope_scaling` (with `type` or `rope_type`) or `rope_parameters`, and `rope_theta` within or
// beside them. UNIMPLEMENTED for a type whose keys would change with the length (dynamic, longrope)
// and for any unknown one; INVALID_ARGUMENT for a value out of its bounds.
absl::StatusOr<RopeConfig> ParseRopeConfig(const nlohmann::json& config, int32_t max_positions);

}  // namespace incipit
