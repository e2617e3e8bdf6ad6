// Defines operations on SIMD vectors with AVX2, FMA and F16C. Source files that are compiled for
// AVX2 include this file inside their namespace.
#pragma once

struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

struct Vec {
  static constexpr int kLanes = 8;
  __m256 v;
};
using Mask = __m256;

constexpr int kPanelVectors = 2;
// Number of input rows that are multiplied together. The sums use 12 of the 16 vector registers, a
// column of the weights uses 2, and an element of the input uses 1.
constexpr int kTileRows = 6;
// Distance in bytes from the weights that are multiplied to the weights that are prefetched, in a
// product with few input rows.
constexpr int64_t kPrefetchBytes = 2048;
constexpr int kInt8PanelVectors = 2;
constexpr int kInt8TileRows = 4;
constexpr int kInt8Unroll = 4;
constexpr int kAttendRows = 6;
constexpr int kAttendSums = 12;  // maximum number of SIMD registers for the sums of attention
constexpr bool kBF16PairsInterleave = true;

inline Vec Zero() { return {_mm256_setzero_ps()}; }
inline Vec Broadcast(float x) { return {_mm256_set1_ps(x)}; }
inline Vec Load(const float* p) { return {_mm256_loadu_ps(p)}; }
inline void Store(float* p, Vec a) { _mm256_storeu_ps(p, a.v); }
inline Vec Add(Vec a, Vec b) { return {_mm256_add_ps(a.v, b.v)}; }
inline Vec Sub(Vec a, Vec b) { return {_mm256_sub_ps(a.v, b.v)}; }
inline Vec Mul(Vec a, Vec b) { return {_mm256_mul_ps(a.v, b.v)}; }
inline Vec Div(Vec a, Vec b) { return {_mm256_div_ps(a.v, b.v)}; }
// If a or b is NaN in a lane, Max and Min return b in this lane.
inline Vec Max(Vec a, Vec b) { return {_mm256_max_ps(a.v, b.v)}; }
inline Vec Min(Vec a, Vec b) { return {_mm256_min_ps(a.v, b.v)}; }
inline Vec MultiplyAdd(Vec a, Vec b, Vec c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
inline Vec NegativeMultiplyAdd(Vec a, Vec b, Vec c) { return {_mm256_fnmadd_ps(a.v, b.v, c.v)}; }

inline Vec Widen(const float* p) { return Load(p); }
inline Vec Widen(const F16* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
inline Vec Widen(const BF16* p) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16))};
}
// Loads 16 bf16 elements and widens them to f32. `even` receives the elements 0, 2, 4, ..., `odd`
// the elements 1, 3, 5, .... Each result needs only one instruction.
inline void WidenPair(const BF16* p, Vec& even, Vec& odd) {
  __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  asm("" : "+x"(bits));  // prevents the compiler from loading the elements twice
  even = {_mm256_castsi256_ps(_mm256_slli_epi32(bits, 16))};
  odd = {_mm256_castsi256_ps(_mm256_and_si256(bits, _mm256_set1_epi32(-0x10000)))};
}
inline void PutInOrder(const BF16*, Vec& even, Vec& odd) {
  const __m256 low = _mm256_unpacklo_ps(even.v, odd.v), high = _mm256_unpackhi_ps(even.v, odd.v);
  even = {_mm256_permute2f128_ps(low, high, 0x20)};
  odd = {_mm256_permute2f128_ps(low, high, 0x31)};
}

// A vector of integers in a product with eight-bit weights: pairs of 16-bit factors, or 32-bit
// sums.
struct IntVec {
  __m256i v;
};
struct IntWeights {
  __m256i v;
};
constexpr int64_t kColsPerFactor = 2;
constexpr int32_t kFactorOffset = 0;

inline IntVec LoadInts(const void* p) {
  return {_mm256_loadu_si256(static_cast<const __m256i*>(p))};
}
inline void StoreInts(void* p, IntVec a) { _mm256_storeu_si256(static_cast<__m256i*>(p), a.v); }
inline IntVec BroadcastInts(const char* p) {
  return {_mm256_castps_si256(_mm256_broadcast_ss(reinterpret_cast<const float*>(p)))};
}
inline IntWeights WidenInt8(const char* p) {
  return {_mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
inline IntVec MultiplyAddInts(IntVec factor, IntWeights weights, IntVec sum) {
  sum.v = _mm256_add_epi32(sum.v, _mm256_madd_epi16(factor.v, weights.v));
  // Without this empty asm statement, the compiler would first add the products of several columns
  // to each other, which needs too many registers.
  asm("" : "+x"(sum.v));
  return sum;
}
inline Vec ToFloats(IntVec a) { return {_mm256_cvtepi32_ps(a.v)}; }
inline IntVec RoundToInts(Vec a) { return {_mm256_cvtps_epi32(a.v)}; }
// Stores each integer of `a` as a 16-bit integer. Products with eight-bit weights read their input
// rows in this layout.
inline void StoreNumbers(void* p, IntVec a) {
  const __m128i narrow =
      _mm_packs_epi32(_mm256_castsi256_si128(a.v), _mm256_extracti128_si256(a.v, 1));
  _mm_storeu_si128(static_cast<__m128i*>(p), narrow);
}

inline __m256i LaneIndices() { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
inline __m256i LanesBelow(int64_t end) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(end)), LaneIndices());
}
inline Vec LoadPartial(const float* p, int64_t lanes) {
  return {_mm256_maskload_ps(p, LanesBelow(lanes))};
}
inline void StorePartial(float* p, int64_t lanes, Vec a) {
  _mm256_maskstore_ps(p, LanesBelow(lanes), a.v);
}
// Returns a vector with the lanes [begin, end) of a and the other lanes of b.
inline Vec SelectLanes(int64_t begin, int64_t end, Vec a, Vec b) {
  const __m256i inside = _mm256_andnot_si256(LanesBelow(begin), LanesBelow(end));
  return {_mm256_blendv_ps(b.v, a.v, _mm256_castsi256_ps(inside))};
}

inline Mask NotLess(Vec a, Vec b) { return _mm256_cmp_ps(a.v, b.v, _CMP_NLT_UQ); }
inline Mask Or(Mask a, Mask b) { return _mm256_or_ps(a, b); }
inline bool Any(Mask a) { return _mm256_movemask_ps(a) != 0; }

inline float ReduceAdd(Vec a) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
inline float ReduceMax(Vec a) {
  __m128 s = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  s = _mm_max_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

// Returns 2^n in each lane. REQUIRES: each n is a whole number in [-126, 127].
inline Vec PowerOfTwo(Vec n) {
  const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n.v), _mm256_set1_epi32(127));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(biased, 23))};
}
// Shifts the lowest bits of each lane of `a` to the position of the exponent in an f32 number.
inline Vec ShiftedToExponent(Vec a) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(a.v), 23))};
}
inline Vec AddToExponent(Vec a, Vec n) {
  const __m256i shifted = _mm256_slli_epi32(_mm256_cvtps_epi32(n.v), 23);
  return {_mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a.v), shifted))};
}

// A sum of masses (token weights in fixed point). `v` also contains `num_terms` times the constant
// 0x433 << 52, the bits of the double 2^52. TotalOf() subtracts these constants.
struct MassSum {
  __m256i v;
  uint64_t num_terms;
};
inline MassSum NoMass() { return {_mm256_setzero_si256(), 0}; }
inline __m256i ShiftedMass(__m128 w) {
  const __m256d scaled = _mm256_mul_pd(_mm256_cvtps_pd(w), _mm256_set1_pd(0x1p40));
  return _mm256_castpd_si256(_mm256_add_pd(scaled, _mm256_set1_pd(0x1p52)));
}
inline void AddMass(Vec w, MassSum& sum) {
  sum.v = _mm256_add_epi64(sum.v, ShiftedMass(_mm256_castps256_ps128(w.v)));
  sum.v = _mm256_add_epi64(sum.v, ShiftedMass(_mm256_extractf128_ps(w.v, 1)));
  sum.num_terms += Vec::kLanes;
}
inline uint64_t TotalOf(const MassSum& sum) {
  uint64_t parts[4];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(parts), sum.v);
  return parts[0] + parts[1] + parts[2] + parts[3] - sum.num_terms * (uint64_t{0x433} << 52);
}
