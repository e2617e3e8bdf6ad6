// Eight-bit numbers with a scale, as weights and activations are rounded to: symmetric, one scale
// for a row. Every backend rounds the same way, bit for bit.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "base/check.h"

namespace incipit {

inline constexpr float kInt8Max = 127;
// A row without a magnitude of at least this counts as zeros: one over its scale could overflow.
inline constexpr float kInt8LeastMagnitude = 1e-30f;

// numbers[i] = x[i] / scale to the nearest whole number, ties to even, from -127 to 127, where the
// scale, which is returned, is the largest magnitude over 127. A row that is not finite gives zeros
// and a scale of NaN, so that what it is multiplied into is not finite either.
inline float QuantizeRow(std::span<const float> x, std::span<int8_t> numbers) {
  INCIPIT_CHECK(x.size() == numbers.size());
  float max = 0;
  bool is_finite = true;
  for (const float value : x) {
    is_finite &= std::abs(value) < std::numeric_limits<float>::infinity();
    max = std::max(max, std::abs(value));
  }
  if (!is_finite || max < kInt8LeastMagnitude) {
    std::ranges::fill(numbers, int8_t{0});
    return is_finite ? 0 : std::numeric_limits<float>::quiet_NaN();
  }
  const float inverse = kInt8Max / max;
  for (size_t i = 0; i < x.size(); ++i) {
    // Adding and taking away 1.5 * 2^23 rounds, and unlike nearbyint is done in vectors.
    numbers[i] = static_cast<int8_t>(x[i] * inverse + 12582912.0f - 12582912.0f);
  }
  return max / kInt8Max;
}

}  // namespace incipit
