// Defines eight-bit products with AVX512_VNNI. Source files that are compiled for VNNI include this
// file after avx512.inl.
#pragma once

// Number of columns of an input row that one 32-bit element of the packed row contains, in products
// with eight-bit weights. Each byte of the element is the rounded value of one column, plus
// kFactorOffset.
constexpr int64_t kColsPerFactor = 4;
constexpr int32_t kFactorOffset = 128;

inline IntWeights WidenInt8(const char* p) { return {_mm512_loadu_si512(p)}; }
inline IntVec MultiplyAddInts(IntVec factor, IntWeights weights, IntVec sum) {
  return {_mm512_dpbusd_epi32(sum.v, factor.v, weights.v)};
}
// Stores each integer of `a`, plus kFactorOffset, as an unsigned byte. Products with eight-bit
// weights read their input rows in this layout.
inline void StoreNumbers(void* p, IntVec a) {
  const __m512i offset = _mm512_add_epi32(a.v, _mm512_set1_epi32(kFactorOffset));
  _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_cvtepi32_epi8(offset));
}
