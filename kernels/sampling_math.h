// The numbers of kernels/sampling.h's arithmetic, for whoever carries it out in other words: the
// host (sampling.cpp) and device code (cuda/sample_math.h). Plain scalars, so that both may use
// them.
#pragma once

namespace incipit {

// Mass of the likeliest token is 1 << kMassBits. So up to 1 << kVocabBitsMax tokens sum without
// overflow, and a token 1e12 times less likely than the likeliest has no mass left.
inline constexpr int kMassBits = 40;
inline constexpr int kVocabBitsMax = 63 - kMassBits;

// exp(x) = 2^n (1 + r + r^2 q(r)) with n = round(x / ln 2), r = x - n ln 2.
inline constexpr float kExpLowest = -64.0f;      // x below it counts as this
inline constexpr float kExpRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
inline constexpr float kExpLog2E = 1.44269504f;
inline constexpr float kExpLn2High = 0.693145752f;  // ln 2 cut to 15 bits: n times it is exact
inline constexpr float kExpLn2Low = 1.42860677e-6f;
// (e^r - 1 - r) / r^2, interpolated at the Chebyshev nodes of |r| <= ln(2) / 2: error 1.1e-8.
inline constexpr float kExpQ3 = 0.0013926184f;
inline constexpr float kExpQ2 = 0.00836317893f;
inline constexpr float kExpQ1 = 0.0416665561f;
inline constexpr float kExpQ0 = 0.166665763f;
inline constexpr float kExpHalf = 0.5f;

// A weight's mass: adding 2^52 leaves the rounded whole number in the low 52 bits.
inline constexpr double kMassScale = 0x1p40;
inline constexpr double kMassRound = 0x1p52;
static_assert(kMassScale == static_cast<double>(1ull << kMassBits));

}  // namespace incipit
