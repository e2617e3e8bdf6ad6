// Rotary position embedding (RoPE; Su et al., "RoFormer", 2021) and its scalings to longer
// contexts: linear, Llama 3, and YaRN (Peng et al., 2023). Frequencies and angles are computed in
// f32, in the order of the transformers library, because checkpoints are trained with that library.
#pragma once

#include <cstdint>
#include <vector>

#include "transformer/config.h"

namespace incipit {

// Returns the radians per position of each of the head_dim / 2 rotated pairs.
std::vector<float> InverseFrequencies(const RopeConfig& rope, int32_t head_dim);

// Returns the factor by which cosines and sines are multiplied. The factor is 1 except for YaRN.
float RopeAttentionFactor(const RopeConfig& rope);

// Returns the table [num_positions][cos: head_dim / 2 | sin: head_dim / 2] for
// QkvRopeAppendArgs::rope.
std::vector<float> RopeTable(const RopeConfig& rope, int32_t head_dim, int32_t num_positions);

}  // namespace incipit
