// A 5-bit code for numbers of blocks that were released together.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace incipit {

inline constexpr int kRunCodes = 32;

// Returns a 5-bit code of `length`, a number of blocks. Each range [2^k, 2^(k + 1)) of lengths has
// two codes.
constexpr uint8_t RunCodeOf(uint32_t length) {
  if (length <= 1) return 0;
  const int octave = std::bit_width(length) - 1;
  const int code = 2 * octave + static_cast<int>(length >> (octave - 1) & 1);
  return static_cast<uint8_t>(code < kRunCodes ? code : kRunCodes - 1);
}

// Returns the weight of a block in the statistics: about 1 / sqrt(n), if n blocks were released
// together. `code` is RunCodeOf(n).
inline float RunWeightOf(uint8_t code) {
  static const std::array<float, kRunCodes> kWeights = [] {
    std::array<float, kRunCodes> weights;
    for (int i = 0; i < kRunCodes; ++i) {
      const double length = std::exp2(i / 2) * (i % 2 == 0 ? 1.0 : 1.5);
      weights[static_cast<size_t>(i)] = static_cast<float>(1 / std::sqrt(length));
    }
    return weights;
  }();
  return kWeights[code];
}

}  // namespace incipit
