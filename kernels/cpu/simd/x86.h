// Declares a function for each x86 instruction set. The function returns the table of pointers to
// the inner loops of the CPU backend that use this instruction set.
#pragma once

#include "kernels/cpu/simd/kernels.h"

namespace incipit::simd {

const Kernels& Avx2Kernels();
const Kernels& Avx512Kernels();
const Kernels& Avx512VnniKernels();
const Kernels& Avx512Bf16Kernels();

}  // namespace incipit::simd
