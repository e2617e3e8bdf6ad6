// Declares the tables of inner loops of the x86 instruction sets.
#pragma once

#include "kernels/cpu/simd/kernels.h"

namespace incipit::simd {

const Kernels& Avx2Kernels();
const Kernels& Avx512Kernels();
const Kernels& Avx512VnniKernels();
const Kernels& Avx512Bf16Kernels();

}  // namespace incipit::simd
