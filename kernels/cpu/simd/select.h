// Which instruction sets this machine has.
#pragma once

#include <span>

#include "kernels/cpu/simd/kernels.h"

namespace incipit::simd {

// Of the tables in this build, those that this machine can run, best first; the last is portable.
std::span<const Kernels* const> SupportedKernels();

// Instructions that multiply a type natively, and so make oneDNN the fastest.
struct NativeProducts {
  bool f32 = false;   // AVX-512
  bool bf16 = false;  // AVX512_BF16
  bool int8 = false;  // AVX512_VNNI
};
NativeProducts DetectNativeProducts();

}  // namespace incipit::simd
