// Computes the rotary position embedding (RoPE; Su et al., "RoFormer", 2021) and its extensions to
// longer contexts: linear, Llama 3, and YaRN (Peng et al., 2023).
//
// Frequencies and angles are computed in f32, in the same order of operations as in the Hugging
// Face library transformers. Models are trained with these values.
#pragma once

#include <cstdint>
#include <vector>

#include "transformer/config.h"

namespace incipit {

// Returns the frequencies of the head_dim / 2 pairs of elements that RoPE rotates. A frequency is
// the angle, in radians, by which RoPE rotates a pair per position.
std::vector<float> InverseFrequencies(const RopeConfig& rope, int32_t head_dim);

// Returns the factor by which RoPE multiplies all cosines and sines. The factor is 1 except for
// YaRN.
float RopeAttentionFactor(const RopeConfig& rope);

// Returns a table of cosines and sines for QkvRopeAppendArgs::rope. Row p contains the head_dim / 2
// cosines for position p, and then the head_dim / 2 sines.
std::vector<float> RopeTable(const RopeConfig& rope, int32_t head_dim, int32_t num_positions);

}  // namespace incipit
