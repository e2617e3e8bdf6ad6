// Declares loops that measure the maximum rates of an instruction set: multiply-adds per second,
// and bytes that are read from memory per second.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/simd/kernels.h"

namespace incipit::simd {

// The measuring loops of one instruction set. `f32`, `bf16` and `int8` run `rounds` iterations and
// return the number of multiply-adds. A pointer is null if the instruction set has no instruction
// for the type.
struct RateLoops {
  int64_t (*f32)(int64_t rounds);
  int64_t (*bf16)(int64_t rounds);  // multiplies bf16 numbers and adds the products in f32
  // Multiplies eight-bit numbers and adds the products in 32-bit integers.
  int64_t (*int8)(int64_t rounds);
  void (*read)(const std::byte* data, size_t bytes);
};

// The argument `bytes` of RateLoops::read must be a multiple of this number. The argument `data`
// must be aligned to 64 bytes.
inline constexpr size_t kReadMultiple = 4096;

const RateLoops& PortableRateLoops();
// Returns the loops that measure the speed of the instruction set of `kernels`.
const RateLoops& RateLoopsOf(const Kernels& kernels);

}  // namespace incipit::simd
