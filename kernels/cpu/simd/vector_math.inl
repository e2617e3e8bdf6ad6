// Defines functions that compute all elements of a SIMD vector at once, for example Exp. The source
// file of every instruction set includes this file inside its namespace.
#pragma once

// Loads two SIMD vectors of consecutive elements of type T and converts the elements to f32. For
// some types T, the order of the elements is changed.
template <class T>
inline void WidenPair(const T* p, Vec& first, Vec& second) {
  first = Widen(p);
  second = Widen(p + Vec::kLanes);
}
template <class T>
inline void PutInOrder(const T*, Vec&, Vec&) {}
// True if WidenPair puts elements with even indices into the first vector, and elements with odd
// indices into the second vector. Element 2i is then in lane i of the first vector.
template <class T>
constexpr bool kPairsInterleave = kBF16PairsInterleave && sizeof(T) == sizeof(BF16) &&
                                  !__is_same(T, F16);

// Returns exp(x), computed as 2^n * e^r with n = round(x / ln 2). x is clamped to [-87.33, 88], so
// that the lowest result is 2^-126. A NaN stays a NaN, and exp(0) is exactly 1.
inline Vec Exp(Vec x) {
  x = Min(Broadcast(88.0f), Max(Broadcast(-87.33f), x));
  // 1.5 * 2^23: adding this number to an f32 number rounds the f32 number to a whole number
  const Vec round = Broadcast(12582912.0f);
  const Vec n = Sub(MultiplyAdd(x, Broadcast(1.44269504f), round), round);
  // This constant is ln 2, cut to 15 bits. Its product with the small whole number n is therefore
  // exact.
  Vec r = NegativeMultiplyAdd(n, Broadcast(0.693145752f), x);
  r = NegativeMultiplyAdd(n, Broadcast(1.42860677e-6f), r);
  // q(r) is a polynomial that interpolates (e^r - 1 - r) / r^2 at the Chebyshev nodes, with an
  // error of 1.1e-8.
  Vec q = MultiplyAdd(Broadcast(0.0013926184f), r, Broadcast(0.00836317893f));
  q = MultiplyAdd(q, r, Broadcast(0.0416665561f));
  q = MultiplyAdd(q, r, Broadcast(0.166665763f));
  q = MultiplyAdd(q, r, Broadcast(0.5f));
  const Vec y = Add(MultiplyAdd(q, Mul(r, r), r), Broadcast(1.0f));
  return Mul(y, PowerOfTwo(n));
}

// Replaces each element x of COUNT vectors by 2^x. The result is 2^-126 for x < -126, exactly 1 for
// 0, and NaN for NaN. REQUIRES: no element is greater than 0.
template <int COUNT>
__attribute__((always_inline)) inline void Exp2(Vec (&x)[COUNT]) {
  // Coefficients of a polynomial that interpolates (2^r - 1) / r for |r| <= 1/2 at the Chebyshev
  // nodes. The error is 7e-8, including rounding.
  constexpr float kTerms[] = {1.54531634e-4f,
                              1.33908633e-3f,
                              9.61808302e-3f,
                              5.55035695e-2f,
                              0.240226507f,
                              0.693147182f,
                              1};
  // Adding 1.5 * 2^23 to an f32 number rounds the number to a whole number. The term 127 is the
  // exponent bias of f32.
  const Vec round = Broadcast(12582912.0f + 127);
  Vec y[COUNT], power[COUNT];
#pragma GCC unroll 8
  for (int i = 0; i < COUNT; ++i) x[i] = Max(Broadcast(-126.0f), x[i]);
#pragma GCC unroll 8
  for (int i = 0; i < COUNT; ++i) power[i] = Add(x[i], round);
#pragma GCC unroll 8
  for (int i = 0; i < COUNT; ++i) x[i] = Sub(x[i], Sub(power[i], round));
#pragma GCC unroll 8
  for (int i = 0; i < COUNT; ++i) y[i] = Broadcast(kTerms[0]);
#pragma GCC unroll 8
  for (int term = 1; term < 7; ++term) {
#pragma GCC unroll 8
    for (int i = 0; i < COUNT; ++i) y[i] = MultiplyAdd(y[i], x[i], Broadcast(kTerms[term]));
  }
#pragma GCC unroll 8
  for (int i = 0; i < COUNT; ++i) x[i] = Mul(y[i], ShiftedToExponent(power[i]));
}
inline Vec Exp2(Vec x) {
  Vec one[1] = {x};
  Exp2(one);
  return one[0];
}

inline Vec Silu(Vec x) { return Div(x, Add(Broadcast(1.0f), Exp(Sub(Zero(), x)))); }

// Returns SamplingExp(x) of kernels/sampling.h for each lane. The bits are the same, because the
// operations and their order are the same.
inline Vec SamplingExp(Vec x) {
  x = Max(x, Broadcast(-64.0f));
  const Vec round = Broadcast(12582912.0f);
  const Vec n = Sub(Add(Mul(x, Broadcast(1.44269504f)), round), round);
  Vec r = Sub(x, Mul(n, Broadcast(0.693145752f)));
  r = Sub(r, Mul(n, Broadcast(1.42860677e-6f)));
  Vec q = Add(Mul(Broadcast(0.0013926184f), r), Broadcast(0.00836317893f));
  q = Add(Mul(q, r), Broadcast(0.0416665561f));
  q = Add(Mul(q, r), Broadcast(0.166665763f));
  q = Add(Mul(q, r), Broadcast(0.5f));
  const Vec y = Add(Add(Mul(q, Mul(r, r)), r), Broadcast(1.0f));
  return AddToExponent(y, n);
}

constexpr int64_t RoundUpTo(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Calls f(offset, lanes) for each vector of a row of `size` elements. `lanes` is kLanes, except in
// the last call if fewer than kLanes elements are left.
template <class F>
void ForEachVector(int64_t size, F f) {
  int64_t i = 0;
  for (; i + Vec::kLanes <= size; i += Vec::kLanes) f(i, int64_t{Vec::kLanes});
  if (i < size) f(i, size - i);
}

inline Vec LoadSome(const float* data, int64_t lanes) {
  return lanes == Vec::kLanes ? Load(data) : LoadPartial(data, lanes);
}

inline void StoreSome(float* data, int64_t lanes, Vec value) {
  if (lanes == Vec::kLanes) {
    Store(data, value);
  } else {
    StorePartial(data, lanes, value);
  }
}
