// Rotary position embedding (Su et al., "RoFormer", 2021) and its scalings to longer contexts:
// linear, Llama 3's, and YaRN (Peng et al., 2023). Everything is computed in the order and
// precision of the transformers library, since that is what checkpoints are trained and compared
// with: frequencies and angles in f32.
#pragma once

#include <cstdint>
#include <vector>

#include "transformer/config.h"

namespace incipit {

// Radians per position of each of the head_dim / 2 rotated pairs.
std::vector<float> InverseFrequencies(const RopeConfig& rope, int32_t head_dim);

// What cosines and sines are multiplied with: 1 but for YaRN.
float RopeAttentionFactor(const RopeConfig& rope);

// [num_positions][cos: head_dim / 2 | sin: head_dim / 2], as QkvRopeAppendArgs::rope has it.
std::vector<float> RopeTable(const RopeConfig& rope, int32_t head_dim, int32_t num_positions);

}  // namespace incipit
