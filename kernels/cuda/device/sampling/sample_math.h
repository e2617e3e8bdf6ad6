// GPU implementation of the arithmetic of kernels/sampling.h. The operations, their order and their
// rounding are the same as on the CPU, so the results have the same bits.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "kernels/sampling_math.h"

namespace incipit::cuda {

// Returns e^x with the same bits as the CPU function SamplingExp (kernels/sampling.h).
INCIPIT_DEVICE float SampleExp(float x) {
  x = x > kExpLowest ? x : kExpLowest;
  const float n = dev::Add(dev::Add(dev::Multiply(x, kExpLog2E), kExpRound), -kExpRound);
  float r = dev::Add(x, -dev::Multiply(n, kExpLn2High));
  r = dev::Add(r, -dev::Multiply(n, kExpLn2Low));
  float q = dev::Add(dev::Multiply(kExpQ3, r), kExpQ2);
  q = dev::Add(dev::Multiply(q, r), kExpQ1);
  q = dev::Add(dev::Multiply(q, r), kExpQ0);
  q = dev::Add(dev::Multiply(q, r), kExpHalf);
  const float y = dev::Add(dev::Add(dev::Multiply(q, dev::Multiply(r, r)), r), 1.0f);
  const auto exponent = static_cast<uint32_t>(static_cast<int32_t>(n)) << 23;
  return dev::BitCast<float>(dev::BitCast<uint32_t>(y) + exponent);
}

// Converts the probability weight of a token to an integer proportional to `weight`. Returns the
// same bits as the CPU function MassOf (kernels/sampling.h).
INCIPIT_DEVICE uint64_t SampleMass(float weight) {
  const double shifted =
      dev::Add(dev::Multiply(static_cast<double>(weight), kMassScale), kMassRound);
  return dev::BitCast<uint64_t>(shifted) & ((uint64_t{1} << 52) - 1);
}

// Returns (logit - max) * inverse_temperature with the same bits as the CPU.
INCIPIT_DEVICE float ScaledLogit(float logit, float max, float inverse_temperature) {
  return dev::Multiply(dev::Add(logit, -max), inverse_temperature);
}

// Returns total * top_p, but at least 1. `share` is top_p * 2^63. `total` is the sum of the integer
// probability weights of all tokens. top_p keeps tokens until their weights sum up to the result.
INCIPIT_DEVICE uint64_t ShareOfMass(uint64_t share, uint64_t total) {
  const uint64_t mass = dev::MultiplyHigh(total, share) << 1 | (total * share) >> 63;
  return mass > 1 ? mass : 1;
}

// Number of bits of a sort key that orders tokens by logit, largest first. Tokens with equal logits
// are ordered by token id, lowest first.
inline constexpr int kOrderBits = 32 + kVocabBitsMax;
inline constexpr uint64_t kLastOrder = (uint64_t{1} << kOrderBits) - 1;
inline constexpr uint64_t kNoOrder = ~uint64_t{0};

INCIPIT_DEVICE uint64_t OrderOf(float logit, int token) {
  const auto bits = dev::BitCast<uint32_t>(dev::Add(logit, 0.0f));
  const uint32_t key = bits ^ (static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31) | 1u << 31);
  return static_cast<uint64_t>(~key) << kVocabBitsMax | static_cast<uint32_t>(token);
}
INCIPIT_DEVICE int TokenOf(uint64_t order) {
  return static_cast<int>(order & ((1u << kVocabBitsMax) - 1));
}
INCIPIT_DEVICE float LogitOf(uint64_t order) {
  const uint32_t key = ~static_cast<uint32_t>(order >> kVocabBitsMax);
  return dev::BitCast<float>((key >> 31) != 0 ? key ^ 1u << 31 : ~key);
}

}  // namespace incipit::cuda
