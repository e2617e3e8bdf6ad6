// Compiles the inner loops for AVX-512 with VNNI (eight-bit products): Intel Cascade Lake and
// later, AMD Zen 4 and later.
#include <immintrin.h>

#include <cstdint>
#include <utility>

#include "kernels/cpu/simd/x86.h"

namespace incipit::simd {
namespace {

#include "kernels/cpu/simd/isa/avx512.inl"
#include "kernels/cpu/simd/isa/avx512_vnni.inl"

constexpr const char* kName = "avx512_vnni";

using DottedBF16 = BF16;

#include "kernels/cpu/simd/table.inl"

}  // namespace

const Kernels& Avx512VnniKernels() { return kKernels; }

}  // namespace incipit::simd
