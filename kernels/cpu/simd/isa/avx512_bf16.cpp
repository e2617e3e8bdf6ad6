// Compiles the inner loops for AVX-512 with VNNI (eight-bit products) and the bf16 dot instruction:
// AMD Zen 4 and later, Intel Sapphire Rapids and later.
#include <immintrin.h>

#include <cstdint>
#include <utility>

#include "kernels/cpu/simd/x86.h"

namespace incipit::simd {
namespace {

#include "kernels/cpu/simd/isa/avx512.inl"
#include "kernels/cpu/simd/isa/avx512_vnni.inl"

constexpr const char* kName = "avx512_bf16";

// Interleaves the two rows of 16 elements in `rows`: element i of the second row follows element i
// of the first row.
inline __m512i Interleaved(__m512i rows) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24,
                                         8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, rows);
}

// A bf16 element in memory, for CPUs with a bf16 dot instruction. In a register, each 32-bit lane
// holds a pair of elements, the first element in the lower half.
struct DottedBF16 {
  uint16_t bits;

  // Adds the products of the second elements of all pairs to `sum`, and then the products of the
  // first elements.
  static Vec Dot(IntVec a, IntVec b, Vec sum) {
    return {_mm512_dpbf16_ps(sum.v, __builtin_bit_cast(__m512bh, a.v),
                             __builtin_bit_cast(__m512bh, b.v))};
  }
  // Rounds the elements of `a`, then of `b`, to bf16 (to nearest, ties to even). Avoids the
  // instruction vcvtne2ps2bf16, because the emulator Bochs 3.0 executes this instruction
  // incorrectly.
  static IntVec Narrow(Vec a, Vec b) {
    const auto low = __builtin_bit_cast(__m256i, _mm512_cvtneps_pbh(a.v));
    const auto high = __builtin_bit_cast(__m256i, _mm512_cvtneps_pbh(b.v));
    return {_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1)};
  }
  // Pairs element i at `keys` with element i at keys + kBlock, for Vec::kLanes elements.
  static IntVec PairKeys(const DottedBF16* keys) { return {Interleaved(_mm512_loadu_si512(keys))}; }
  // Pairs element i of `a` with element i of `b`, for Vec::kLanes elements.
  static IntVec PairRows(const DottedBF16* a, const DottedBF16* b) {
    const __m256i first = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(a));
    const __m256i second = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b));
    return {Interleaved(_mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1))};
  }
  // Pairs element i of `a` with element i of `b`, for 2 * Vec::kLanes elements. The order of the
  // pairs is changed; PutInOrder restores the order.
  static void PairRows(const DottedBF16* a, const DottedBF16* b, IntVec& first, IntVec& second) {
    const __m512i row_a = _mm512_loadu_si512(a), row_b = _mm512_loadu_si512(b);
    first = {_mm512_unpacklo_epi16(row_a, row_b)};
    second = {_mm512_unpackhi_epi16(row_a, row_b)};
  }
};

// Restores the original order of the elements, which PairRows has changed. The result is lanes [0,
// 4) of `a`, [0, 4) of `b`, [4, 8) of `a`, [4, 8) of `b`, and so on.
inline void PutInOrder(const DottedBF16*, Vec& a, Vec& b) {
  const __m512i low = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  const __m512 first = _mm512_permutex2var_ps(a.v, low, b.v);
  b = {_mm512_permutex2var_ps(a.v, high, b.v)};
  a = {first};
}

#include "kernels/cpu/simd/table.inl"

}  // namespace

const Kernels& Avx512Bf16Kernels() { return kKernels; }

}  // namespace incipit::simd
