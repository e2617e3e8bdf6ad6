// Compiles the inner loops with vectors of four elements, which any compiler can translate.
// Multiplications and additions are never fused, so that the bits are the same on every machine.
#include <cstdint>
#include <utility>

#include "kernels/cpu/simd/kernels.h"

namespace incipit::simd {
namespace {

struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

using Floats = float __attribute__((vector_size(16)));
using Ints = int32_t __attribute__((vector_size(16)));

struct Vec {
  static constexpr int kLanes = 4;
  Floats v;
};
using Mask = Ints;

constexpr const char* kName = "portable";
using DottedBF16 = BF16;
constexpr int kPanelVectors = 2;
// Number of input rows that one loop multiplies with the weights. The sums of these rows use 8 of
// the 16 vector registers.
constexpr int kTileRows = 4;
// Distance in bytes from the weights that are multiplied to the weights that are prefetched, in a
// product with few input rows.
constexpr int64_t kPrefetchBytes = 2048;
constexpr int kInt8PanelVectors = 2;
constexpr int kInt8TileRows = 4;
constexpr int kInt8Unroll = 1;
constexpr int kAttendRows = 2;
constexpr int kAttendSums = 8;  // maximum number of SIMD registers for the sums of attention
constexpr bool kBF16PairsInterleave = false;

inline Vec Zero() { return {Floats{0, 0, 0, 0}}; }
inline Vec Broadcast(float x) { return {Floats{x, x, x, x}}; }
inline Vec Load(const float* p) {
  Vec a;
  __builtin_memcpy(&a.v, p, sizeof(a.v));
  return a;
}
inline void Store(float* p, Vec a) { __builtin_memcpy(p, &a.v, sizeof(a.v)); }
inline Vec Add(Vec a, Vec b) { return {a.v + b.v}; }
inline Vec Sub(Vec a, Vec b) { return {a.v - b.v}; }
inline Vec Mul(Vec a, Vec b) { return {a.v * b.v}; }
inline Vec Div(Vec a, Vec b) { return {a.v / b.v}; }
inline Vec Blend(Mask mask, Vec a, Vec b) {
  return {reinterpret_cast<Floats>((reinterpret_cast<Ints>(a.v) & mask) |
                                   (reinterpret_cast<Ints>(b.v) & ~mask))};
}
// If a or b is NaN in a lane, Max and Min return b in this lane.
inline Vec Max(Vec a, Vec b) { return Blend(a.v > b.v, a, b); }
inline Vec Min(Vec a, Vec b) { return Blend(a.v < b.v, a, b); }
inline Vec MultiplyAdd(Vec a, Vec b, Vec c) { return {a.v * b.v + c.v}; }
inline Vec NegativeMultiplyAdd(Vec a, Vec b, Vec c) { return {c.v - a.v * b.v}; }

inline float WidenOne(F16 value) {
  const uint32_t sign = uint32_t{value.bits & 0x8000u} << 16;
  const uint32_t magnitude = value.bits & 0x7FFFu;
  // The exponent bias of f32 is 112 larger than the exponent bias of f16. The multiplication by
  // 2^112 also converts subnormal numbers correctly.
  const float scaled = __builtin_bit_cast(float, magnitude << 13) * 0x1p112f;
  const uint32_t bits = magnitude >= 0x7C00 ? 0x7F800000 | (magnitude & 0x3FF) << 13
                                            : __builtin_bit_cast(uint32_t, scaled);
  return __builtin_bit_cast(float, sign | bits);
}
inline Vec Widen(const float* p) { return Load(p); }
inline Vec Widen(const F16* p) {
  return {Floats{WidenOne(p[0]), WidenOne(p[1]), WidenOne(p[2]), WidenOne(p[3])}};
}
inline Vec Widen(const BF16* p) {
  const Ints bits = {p[0].bits << 16, p[1].bits << 16, p[2].bits << 16, p[3].bits << 16};
  return {reinterpret_cast<Floats>(bits)};
}

// A vector of integers in a product with eight-bit weights: pairs of 16-bit factors, or 32-bit
// sums.
struct IntVec {
  Ints v;
};
struct IntWeights {
  Ints first, second;
};
constexpr int64_t kColsPerFactor = 2;
constexpr int32_t kFactorOffset = 0;

inline IntVec LoadInts(const void* p) {
  IntVec a;
  __builtin_memcpy(&a.v, p, sizeof(a.v));
  return a;
}
inline void StoreInts(void* p, IntVec a) { __builtin_memcpy(p, &a.v, sizeof(a.v)); }
inline IntVec BroadcastInts(const char* p) {
  int32_t pair;
  __builtin_memcpy(&pair, p, sizeof(pair));
  return {Ints{pair, pair, pair, pair}};
}
inline IntWeights WidenInt8(const char* p) {
  const auto at = [p](int i) { return int32_t{static_cast<int8_t>(p[i])}; };
  return {Ints{at(0), at(2), at(4), at(6)}, Ints{at(1), at(3), at(5), at(7)}};
}
inline IntVec MultiplyAddInts(IntVec factor, IntWeights weights, IntVec sum) {
  const Ints first = factor.v << 16 >> 16, second = factor.v >> 16;
  return {sum.v + first * weights.first + second * weights.second};
}
inline Vec ToFloats(IntVec a) { return {__builtin_convertvector(a.v, Floats)}; }
// Rounds each lane of `a` to the nearest whole number, ties to even. The lowest bits of the f32
// number x + 1.5 * 2^23 are the rounded x.
inline IntVec RoundToInts(Vec a) {
  const Floats shifted = a.v + 12582912.0f;
  return {reinterpret_cast<Ints>(shifted) - 0x4B400000};
}
// Stores each integer of `a` as a 16-bit integer. Products with eight-bit weights read their input
// rows in this layout.
inline void StoreNumbers(void* p, IntVec a) {
  const int16_t narrow[4] = {static_cast<int16_t>(a.v[0]), static_cast<int16_t>(a.v[1]),
                             static_cast<int16_t>(a.v[2]), static_cast<int16_t>(a.v[3])};
  __builtin_memcpy(p, narrow, sizeof(narrow));
}

inline Vec LoadPartial(const float* p, int64_t lanes) {
  Vec a = Zero();
  for (int64_t i = 0; i < lanes; ++i) a.v[i] = p[i];
  return a;
}
inline void StorePartial(float* p, int64_t lanes, Vec a) {
  for (int64_t i = 0; i < lanes; ++i) p[i] = a.v[i];
}
// Returns a vector with the lanes [begin, end) of a and the other lanes of b.
inline Vec SelectLanes(int64_t begin, int64_t end, Vec a, Vec b) {
  const Ints lane = {0, 1, 2, 3};
  const auto first = static_cast<int32_t>(begin), last = static_cast<int32_t>(end);
  const Ints from = {first, first, first, first}, to = {last, last, last, last};
  return Blend((lane >= from) & (lane < to), a, b);
}

inline Mask NotLess(Vec a, Vec b) { return ~(a.v < b.v); }
inline Mask Or(Mask a, Mask b) { return a | b; }
inline bool Any(Mask a) { return (a[0] | a[1] | a[2] | a[3]) != 0; }

inline float ReduceAdd(Vec a) { return (a.v[0] + a.v[2]) + (a.v[1] + a.v[3]); }
inline float ReduceMax(Vec a) {
  const float even = a.v[0] > a.v[2] ? a.v[0] : a.v[2];
  const float odd = a.v[1] > a.v[3] ? a.v[1] : a.v[3];
  return even > odd ? even : odd;
}

// Converts floating-point whole numbers in [-126, 127] to integers. A NaN becomes -127, because C++
// does not define the conversion of a NaN to an integer.
inline Ints ToInts(Vec n) { return __builtin_convertvector(Max(n, Broadcast(-127.0f)).v, Ints); }
// Returns 2^n in each lane. REQUIRES: each n is a whole number in [-126, 127].
inline Vec PowerOfTwo(Vec n) { return {reinterpret_cast<Floats>((ToInts(n) + 127) << 23)}; }
// Shifts the lowest bits of each lane of `a` to the position of the exponent in an f32 number.
inline Vec ShiftedToExponent(Vec a) {
  using Bits = uint32_t __attribute__((vector_size(16)));
  return {reinterpret_cast<Floats>(reinterpret_cast<Bits>(a.v) << 23)};
}
inline Vec AddToExponent(Vec a, Vec n) {
  return {reinterpret_cast<Floats>(reinterpret_cast<Ints>(a.v) + (ToInts(n) << 23))};
}

struct MassSum {
  uint64_t total;
};
inline MassSum NoMass() { return {0}; }
inline void AddMass(Vec w, MassSum& sum) {
  for (int i = 0; i < Vec::kLanes; ++i) {
    const double shifted = double{w.v[i]} * 0x1p40 + 0x1p52;
    sum.total += __builtin_bit_cast(uint64_t, shifted) & ((uint64_t{1} << 52) - 1);
  }
}
inline uint64_t TotalOf(const MassSum& sum) { return sum.total; }

#include "kernels/cpu/simd/table.inl"

}  // namespace

const Kernels& PortableKernels() { return kKernels; }

}  // namespace incipit::simd
