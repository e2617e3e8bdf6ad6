#include <cstring>

#include "kernels/cpu/simd/rates.h"

namespace incipit::simd {
namespace {

// Number of independent sums in the loop. These sums hide the latency of a multiply-add and fit
// into the registers of a core.
constexpr int kValues = 32;

int64_t MultiplyAdd(int64_t rounds) {
  float sums[kValues];
  for (int i = 0; i < kValues; ++i) sums[i] = static_cast<float>(i);
  float factor = 0.999f;
  asm volatile("" : "+m"(factor));
  for (int64_t round = 0; round < rounds; ++round) {
    for (int i = 0; i < kValues; ++i) sums[i] = sums[i] * factor + 0.001f;
  }
  asm volatile("" : : "r"(&sums[0]) : "memory");
  return rounds * kValues;
}

void Read(const std::byte* data, size_t bytes) {
  constexpr size_t kWords = 8;
  uint64_t sums[kWords] = {};
  for (size_t i = 0; i < bytes; i += kWords * sizeof(uint64_t)) {
    uint64_t words[kWords];
    std::memcpy(words, data + i, sizeof(words));
    for (size_t j = 0; j < kWords; ++j) sums[j] |= words[j];
  }
  asm volatile("" : : "r"(&sums[0]) : "memory");
}

}  // namespace

const RateLoops& PortableRateLoops() {
  static constexpr RateLoops kLoops = {
      .f32 = &MultiplyAdd, .bf16 = nullptr, .int8 = nullptr, .read = &Read};
  return kLoops;
}

}  // namespace incipit::simd
