#include "tests/kernels/cpu/emulated_dots.h"

#include <immintrin.h>

#include <cstdint>
#include <utility>

namespace incipit::simd {
namespace {

#include "kernels/cpu/simd/isa/avx2.inl"

constexpr const char* kName = "emulated_dots";

// Returns `a` with subnormal numbers replaced by zeros of the same sign.
inline __m256 Flushed(__m256 a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  const __m256 is_small =
      _mm256_cmp_ps(_mm256_andnot_ps(sign, a), _mm256_set1_ps(0x1p-126f), _CMP_LT_OQ);
  return _mm256_blendv_ps(a, _mm256_and_ps(a, sign), is_small);
}

// Rounds each lane to the nearest bf16 number, ties to even. The result is in the upper 16 bits of
// the lane, and the lower 16 bits are 0.
inline __m256i RoundedToBF16(__m256 a) {
  const __m256i bits = _mm256_castps_si256(Flushed(a));
  const __m256i is_odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i carry = _mm256_add_epi32(is_odd, _mm256_set1_epi32(0x7FFF));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256i rounded = _mm256_blendv_epi8(_mm256_add_epi32(bits, carry), quiet, is_nan);
  return _mm256_and_si256(rounded, _mm256_set1_epi32(-0x10000));
}

struct DottedBF16 {
  uint16_t bits;

  static __m256 FirstOf(IntVec a) {
    return Flushed(_mm256_castsi256_ps(_mm256_slli_epi32(a.v, 16)));
  }
  static __m256 SecondOf(IntVec a) {
    return Flushed(_mm256_castsi256_ps(_mm256_and_si256(a.v, _mm256_set1_epi32(-0x10000))));
  }
  static Vec Dot(IntVec a, IntVec b, Vec sum) {
    const __m256 second = _mm256_fmadd_ps(SecondOf(a), SecondOf(b), Flushed(sum.v));
    return {Flushed(_mm256_fmadd_ps(FirstOf(a), FirstOf(b), Flushed(second)))};
  }
  static IntVec Narrow(Vec a, Vec b) {
    const __m256i low = _mm256_srli_epi32(RoundedToBF16(a.v), 16);
    const __m256i high = _mm256_srli_epi32(RoundedToBF16(b.v), 16);
    return {_mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xD8)};
  }
  static IntVec PairRows(const DottedBF16* a, const DottedBF16* b) {
    const __m128i row_a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(a));
    const __m128i row_b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b));
    return {_mm256_set_m128i(_mm_unpackhi_epi16(row_a, row_b), _mm_unpacklo_epi16(row_a, row_b))};
  }
  static IntVec PairKeys(const DottedBF16* keys) { return PairRows(keys, keys + 16); }
  static void PairRows(const DottedBF16* a, const DottedBF16* b, IntVec& first, IntVec& second) {
    const __m256i row_a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(a));
    const __m256i row_b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b));
    first = {_mm256_unpacklo_epi16(row_a, row_b)};
    second = {_mm256_unpackhi_epi16(row_a, row_b)};
  }
};

inline void PutInOrder(const DottedBF16*, Vec& a, Vec& b) {
  const __m256 first = _mm256_permute2f128_ps(a.v, b.v, 0x20);
  b = {_mm256_permute2f128_ps(a.v, b.v, 0x31)};
  a = {first};
}

#include "kernels/cpu/simd/table.inl"

}  // namespace

const Kernels* EmulatedDotKernels() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &kKernels : nullptr;
}

}  // namespace incipit::simd
