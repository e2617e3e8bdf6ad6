// Computes the rotary position embedding (RoPE; Su et al., "RoFormer", 2021) and its extensions to
// longer contexts: linear, Llama 3, and YaRN (Peng et al., 2023).
//
// Checkpoints are trained with the transformers library. Therefore frequencies and angles are
// computed in f32, in the same order of operations as in that library.
#pragma once

#include <cstdint>
#include <vector>

#include "transformer/config.h"

namespace incipit {

// Returns the frequencies of the head_dim / 2 pairs of elements that RoPE rotates. A frequency is
// the angle by which RoPE rotates a pair per position, in radians.
std::vector<float> InverseFrequencies(const RopeConfig& rope, int32_t head_dim);

// Returns the factor by which RoPE multiplies all cosines and sines. The factor is 1 except for
// YaRN.
float RopeAttentionFactor(const RopeConfig& rope);

// Returns the table of cosines and sines for QkvRopeAppendArgs::rope. Row p holds the head_dim / 2
// cosines for position p, followed by the head_dim / 2 sines.
std::vector<float> RopeTable(const RopeConfig& rope, int32_t head_dim, int32_t num_positions);

}  // namespace incipit
