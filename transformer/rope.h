// Computes the rotary position embedding (RoPE; Su et al., "RoFormer", 2021) and its extensions to
// longer contexts: linear, Llama 3, and YaRN (Peng et al., 2023). Frequencies and angles are
// computed in f32, with the operations in the order of the transformers library, because
// checkpoints are trained with that library.
#pragma once

#include <cstdint>
#include <vector>

#include "transformer/config.h"

namespace incipit {

// Returns one angle per position, in radians, for each of the head_dim / 2 pairs of elements that
// RoPE rotates.
std::vector<float> InverseFrequencies(const RopeConfig& rope, int32_t head_dim);

// Returns the factor by which cosines and sines are multiplied. Only YaRN has a factor other than
// 1.
float RopeAttentionFactor(const RopeConfig& rope);

// Returns the table for QkvRopeAppendArgs::rope. The table has num_positions rows; each row holds
// head_dim / 2 cosines, then head_dim / 2 sines.
std::vector<float> RopeTable(const RopeConfig& rope, int32_t head_dim, int32_t num_positions);

}  // namespace incipit
