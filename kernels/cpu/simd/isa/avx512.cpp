// Compiles the inner loops for AVX-512 with the extensions F, BW, DQ and VL: Intel Skylake-X and
// later.
#include <immintrin.h>

#include <cstdint>
#include <utility>

#include "kernels/cpu/simd/x86.h"

namespace incipit::simd {
namespace {

#include "kernels/cpu/simd/isa/avx512.inl"

constexpr const char* kName = "avx512";
using DottedBF16 = BF16;

// Number of columns in a four-byte element of a packed input row, in products with eight-bit
// weights. Each column has 16 bits.
constexpr int64_t kColsPerFactor = 2;
constexpr int32_t kFactorOffset = 0;

inline IntWeights WidenInt8(const char* p) {
  return {_mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
inline IntVec MultiplyAddInts(IntVec factor, IntWeights weights, IntVec sum) {
  sum.v = _mm512_add_epi32(sum.v, _mm512_madd_epi16(factor.v, weights.v));
  // Without this empty asm statement, the compiler would first add the products of several columns
  // to each other, which needs too many registers.
  asm("" : "+v"(sum.v));
  return sum;
}
// Stores each integer of `a` as a 16-bit integer. Products with eight-bit weights read their input
// rows in this layout.
inline void StoreNumbers(void* p, IntVec a) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtepi32_epi16(a.v));
}

#include "kernels/cpu/simd/table.inl"

}  // namespace

const Kernels& Avx512Kernels() { return kKernels; }

}  // namespace incipit::simd
