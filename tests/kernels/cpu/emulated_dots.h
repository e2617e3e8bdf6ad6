// AVX2 kernels of the CPU backend whose attention uses emulated bf16 dot instructions. Each
// emulated dot rounds as the instruction of AVX512_BF16 does. Tests thereby run the attention path
// of AVX512_BF16 on a machine without these instructions.
#pragma once

#include "kernels/cpu/simd/kernels.h"

namespace incipit::simd {

// Returns null if this machine has no AVX2.
const Kernels* EmulatedDotKernels();

}  // namespace incipit::simd
