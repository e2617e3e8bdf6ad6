// Loops that measure the highest rates of an instruction set: they only multiply, or only read
// memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/simd/kernels.h"

namespace incipit::simd {

// The loops of one instruction set. A multiplying loop returns the number of multiply-adds in
// `rounds` rounds. The loop waits neither for memory nor for its own results. A pointer is null if
// the instruction set has no instruction for the type.
struct RateLoops {
  int64_t (*f32)(int64_t rounds);
  int64_t (*bf16)(int64_t rounds);  // sums of products in f32
  int64_t (*int8)(int64_t rounds);  // sums of products in i32
  void (*read)(const std::byte* data, size_t bytes);
};

// The argument `bytes` of RateLoops::read must be a multiple of this number, and `data` must be
// aligned to 64 bytes.
inline constexpr size_t kReadMultiple = 4096;

const RateLoops& PortableRateLoops();
// Returns the loops of the instruction set that `kernels` uses.
const RateLoops& RateLoopsOf(const Kernels& kernels);

}  // namespace incipit::simd
