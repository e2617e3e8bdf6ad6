// Declares loops that measure the maximum rates of an instruction set: multiply-adds per second,
// and bytes read from memory per second.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/simd/kernels.h"

namespace incipit::simd {

// The loops of one instruction set. `f32`, `bf16` and `int8` return the number of multiply-adds in
// `rounds` iterations. These loops wait neither for memory nor for their own results. A pointer is
// null if the instruction set has no instruction for the type.
struct RateLoops {
  int64_t (*f32)(int64_t rounds);
  int64_t (*bf16)(int64_t rounds);  // products of bf16 numbers, sums in f32
  int64_t (*int8)(int64_t rounds);  // products of eight-bit numbers, sums in 32-bit integers
  void (*read)(const std::byte* data, size_t bytes);
};

// A call of RateLoops::read requires a multiple of kReadMultiple as `bytes`, and `data` aligned to
// 64 bytes.
inline constexpr size_t kReadMultiple = 4096;

const RateLoops& PortableRateLoops();
// Returns the measuring loops for the instruction set of `kernels`.
const RateLoops& RateLoopsOf(const Kernels& kernels);

}  // namespace incipit::simd
