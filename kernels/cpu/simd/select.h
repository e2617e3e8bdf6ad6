// Selects the instruction sets that this machine supports.
#pragma once

#include <span>

#include "kernels/cpu/simd/kernels.h"

namespace incipit::simd {

// Returns the tables of this build that this machine can run, from the fastest to the slowest. The
// last table is the portable one.
std::span<const Kernels* const> SupportedKernels();

// The types that this machine multiplies with native instructions.
struct NativeProducts {
  bool f32 = false;   // AVX-512
  bool bf16 = false;  // AVX512_BF16
  bool int8 = false;  // AVX512_VNNI
};
NativeProducts DetectNativeProducts();

// Returns true if `kernels` uses the bf16 dot instruction. In this case oneDNN computes the matrix
// products of all types for which it has instructions.
bool PrefersOneDnn(const Kernels& kernels);

}  // namespace incipit::simd
