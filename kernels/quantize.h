// Rounds weights and activations to eight-bit numbers in [-127, 127], with one scale per row. Every
// backend computes the same bits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "base/check.h"

namespace incipit {

inline constexpr float kInt8Max = 127;
// Lower limit of the largest magnitude of a row. A row with only smaller magnitudes is rounded to
// zeros, because the reciprocal of its scale could overflow.
inline constexpr float kInt8LeastMagnitude = 1e-30f;

// Rounds a row to eight-bit numbers and returns the scale of the row: the largest magnitude divided
// by 127. numbers[i] is x[i] / scale, rounded to nearest, ties to even. If a value of `x` is not
// finite, all numbers are 0 and the scale is NaN.
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
    // Adding and then subtracting 1.5 * 2^23 rounds an f32 number to a whole number. Compilers
    // vectorise these two operations, but not a call of nearbyint.
    numbers[i] = static_cast<int8_t>(x[i] * inverse + 12582912.0f - 12582912.0f);
  }
  return max / kInt8Max;
}

}  // namespace incipit
