// The inner loops of AVX2, but attention by dots of bf16 as AVX512_BF16 has them, each computed
// with the instruction's own rounding: what runs on a machine without it of the path that one
// takes.
#pragma once

#include "kernels/cpu/simd/kernels.h"

namespace incipit::simd {

// Null where this machine has no AVX2.
const Kernels* EmulatedDotKernels();

}  // namespace incipit::simd
