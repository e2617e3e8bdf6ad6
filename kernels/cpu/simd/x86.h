// Declares, for each x86 instruction set, a function that returns a table of pointers to the inner
// loops of the CPU backend.
#pragma once

#include "kernels/cpu/simd/kernels.h"

namespace incipit::simd {

const Kernels& Avx2Kernels();
const Kernels& Avx512Kernels();
const Kernels& Avx512VnniKernels();
const Kernels& Avx512Bf16Kernels();

}  // namespace incipit::simd
