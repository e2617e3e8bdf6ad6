// Defines operations on SIMD vectors with AVX-512. Source files that are compiled for AVX-512
// include this file inside their namespace.
#pragma once

struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

struct Vec {
  static constexpr int kLanes = 16;
  __m512 v;
};
using Mask = __mmask16;

constexpr int kPanelVectors = 2;
// Number of input rows that are multiplied by the same loaded weights. The sums use 24 of the 32
// vector registers, a column of the weights uses 2, and an element of the input uses 1.
constexpr int kTileRows = 12;
// Distance in bytes from the weights that are multiplied to the weights that are prefetched, in a
// product with few input rows.
constexpr int64_t kPrefetchBytes = 8192;
constexpr int kInt8PanelVectors = 2;
constexpr int kInt8TileRows = 12;
constexpr int kInt8Unroll = 4;
constexpr int kAttendRows = 8;
constexpr int kAttendSums = 24;  // maximum number of SIMD registers for the sums of attention
constexpr bool kBF16PairsInterleave = true;

inline Vec Zero() { return {_mm512_setzero_ps()}; }
inline Vec Broadcast(float x) { return {_mm512_set1_ps(x)}; }
inline Vec Load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void Store(float* p, Vec a) { _mm512_storeu_ps(p, a.v); }
inline Vec Add(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Vec Sub(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Vec Mul(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Vec Div(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
// If a or b is NaN in a lane, Max and Min return b in this lane.
inline Vec Max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Vec Min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }
inline Vec MultiplyAdd(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Vec NegativeMultiplyAdd(Vec a, Vec b, Vec c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }

inline Vec Widen(const float* p) { return Load(p); }
inline Vec Widen(const F16* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
inline Vec Widen(const BF16* p) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
}

// Loads 32 bf16 elements and widens them to f32. `even` receives the elements 0, 2, 4, ..., `odd`
// the elements 1, 3, 5, .... Each result needs only one instruction.
inline void WidenPair(const BF16* p, Vec& even, Vec& odd) {
  const __m512i bits = _mm512_loadu_si512(p);
  even = {_mm512_castsi512_ps(_mm512_slli_epi32(bits, 16))};
  odd = {_mm512_castsi512_ps(_mm512_and_epi32(bits, _mm512_set1_epi32(-0x10000)))};
}
inline void PutInOrder(const BF16*, Vec& even, Vec& odd) {
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  const __m512 first = _mm512_permutex2var_ps(even.v, low, odd.v);
  odd = {_mm512_permutex2var_ps(even.v, high, odd.v)};
  even = {first};
}

struct IntVec {
  __m512i v;
};
struct IntWeights {
  __m512i v;
};
inline IntVec LoadInts(const void* p) { return {_mm512_loadu_si512(p)}; }
inline void StoreInts(void* p, IntVec a) { _mm512_storeu_si512(p, a.v); }
inline IntVec BroadcastInts(const char* p) {
  int32_t factor;
  __builtin_memcpy(&factor, p, sizeof(factor));
  return {_mm512_set1_epi32(factor)};
}
inline Vec ToFloats(IntVec a) { return {_mm512_cvtepi32_ps(a.v)}; }
inline IntVec RoundToInts(Vec a) { return {_mm512_cvtps_epi32(a.v)}; }

inline __mmask16 LanesBelow(int64_t end) {
  const int64_t inside = end < 0 ? 0 : end > Vec::kLanes ? int64_t{Vec::kLanes} : end;
  return static_cast<__mmask16>((1u << inside) - 1);
}
inline Vec LoadPartial(const float* p, int64_t lanes) {
  return {_mm512_maskz_loadu_ps(LanesBelow(lanes), p)};
}
inline void StorePartial(float* p, int64_t lanes, Vec a) {
  _mm512_mask_storeu_ps(p, LanesBelow(lanes), a.v);
}
// Returns a vector with the lanes [begin, end) of a and the other lanes of b.
inline Vec SelectLanes(int64_t begin, int64_t end, Vec a, Vec b) {
  const auto inside = static_cast<__mmask16>(LanesBelow(end) & ~LanesBelow(begin));
  return {_mm512_mask_blend_ps(inside, b.v, a.v)};
}

inline Mask NotLess(Vec a, Vec b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_NLT_UQ); }
inline Mask Or(Mask a, Mask b) { return static_cast<Mask>(a | b); }
inline bool Any(Mask a) { return a != 0; }

inline __m256 UpperHalf(__m512 v) {
  return _mm256_castsi256_ps(_mm512_extracti64x4_epi64(_mm512_castps_si512(v), 1));
}
inline float ReduceAdd(Vec a) {
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(a.v), UpperHalf(a.v));
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
inline float ReduceMax(Vec a) {
  const __m256 half = _mm256_max_ps(_mm512_castps512_ps256(a.v), UpperHalf(a.v));
  __m128 s = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  s = _mm_max_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

// Returns 2^n in each lane. REQUIRES: each n is a whole number in [-126, 127].
inline Vec PowerOfTwo(Vec n) {
  const __m512i biased = _mm512_add_epi32(_mm512_cvtps_epi32(n.v), _mm512_set1_epi32(127));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(biased, 23))};
}
// Shifts the lowest bits of each lane of `a` to the position of the exponent in an f32 number.
inline Vec ShiftedToExponent(Vec a) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(a.v), 23))};
}
inline Vec AddToExponent(Vec a, Vec n) {
  const __m512i shifted = _mm512_slli_epi32(_mm512_cvtps_epi32(n.v), 23);
  return {_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a.v), shifted))};
}

// A sum of masses (token weights in fixed point). `v` also contains `num_terms` times the constant
// 0x433 << 52, the bits of the double 2^52. TotalOf() subtracts these constants.
struct MassSum {
  __m512i v;
  uint64_t num_terms;
};
inline MassSum NoMass() { return {_mm512_setzero_si512(), 0}; }
inline __m512i ShiftedMass(__m256 w) {
  const __m512d scaled = _mm512_mul_pd(_mm512_cvtps_pd(w), _mm512_set1_pd(0x1p40));
  return _mm512_castpd_si512(_mm512_add_pd(scaled, _mm512_set1_pd(0x1p52)));
}
inline void AddMass(Vec w, MassSum& sum) {
  sum.v = _mm512_add_epi64(sum.v, ShiftedMass(_mm512_castps512_ps256(w.v)));
  sum.v = _mm512_add_epi64(sum.v, ShiftedMass(UpperHalf(w.v)));
  sum.num_terms += Vec::kLanes;
}
inline uint64_t TotalOf(const MassSum& sum) {
  uint64_t parts[8], total = 0;
  _mm512_storeu_si512(parts, sum.v);
  for (const uint64_t part : parts) total += part;
  return total - sum.num_terms * (uint64_t{0x433} << 52);
}
