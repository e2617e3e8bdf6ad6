// Compiles the inner loops for AVX2 with FMA and F16C: Intel Haswell and later, AMD Zen and later.
#include <immintrin.h>

#include <cstdint>
#include <utility>

#include "kernels/cpu/simd/x86.h"

namespace incipit::simd {
namespace {

#include "kernels/cpu/simd/isa/avx2.inl"

constexpr const char* kName = "avx2";
using DottedBF16 = BF16;

#include "kernels/cpu/simd/table.inl"

}  // namespace

const Kernels& Avx2Kernels() { return kKernels; }

}  // namespace incipit::simd
