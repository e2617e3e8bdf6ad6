// Which instruction sets this machine has.
#pragma once

#include <span>

#include "kernels/cpu/simd/kernels.h"

namespace incipit::simd {

// Of the tables in this build, those that this machine can run, best first; the last is portable.
std::span<const Kernels* const> SupportedKernels();

// Instructions of this machine that multiply a type natively.
struct NativeProducts {
  bool f32 = false;   // AVX-512
  bool bf16 = false;  // AVX512_BF16
  bool int8 = false;  // AVX512_VNNI
};
NativeProducts DetectNativeProducts();

// Whether `kernels` multiply by dots of bf16, as the machine's best or because somebody asked for
// them: then oneDNN's products go with them, for the types that it has instructions for.
bool PrefersOneDnn(const Kernels& kernels);

}  // namespace incipit::simd
