// Finds the instruction sets that this machine supports.
#pragma once

#include <span>

#include "kernels/cpu/simd/kernels.h"

namespace incipit::simd {

// Returns the tables of inner loops that this machine can run, the fastest table first. The last
// table is the portable table.
std::span<const Kernels* const> SupportedKernels();

// States for which number types this machine has a dot product instruction.
struct NativeProducts {
  bool f32 = false;   // with AVX-512
  bool bf16 = false;  // with AVX512_BF16
  bool int8 = false;  // with AVX512_VNNI
};
NativeProducts DetectNativeProducts();

// Returns true if `kernels` uses the bf16 dot instruction. The backend then uses oneDNN for
// products with bf16 weights, and for other weights whose type has a dot instruction on this
// machine.
bool PrefersOneDnn(const Kernels& kernels);

}  // namespace incipit::simd
