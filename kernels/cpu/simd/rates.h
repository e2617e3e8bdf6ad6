// The most that an instruction set can do: loops that do nothing but multiply, or nothing but read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/simd/kernels.h"

namespace incipit::simd {

// A loop that multiplies returns how many multiply-adds it did in `rounds` rounds; it waits neither
// for memory nor for its own results. Null where there is no instruction for the type.
struct RateLoops {
  int64_t (*f32)(int64_t rounds);
  int64_t (*bf16)(int64_t rounds);  // sums of products in f32
  int64_t (*int8)(int64_t rounds);  // sums of products in i32
  void (*read)(const std::byte* data, size_t bytes);
};

// What read() takes: `bytes` is a multiple of it and `data` is aligned to 64.
inline constexpr size_t kReadMultiple = 4096;

const RateLoops& PortableRateLoops();
// Those of the set that `kernels` uses.
const RateLoops& RateLoopsOf(const Kernels& kernels);

}  // namespace incipit::simd
