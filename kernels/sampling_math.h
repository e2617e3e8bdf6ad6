// Defines the constants of the arithmetic in kernels/sampling.h. Host code (kernels/sampling.cpp)
// and device code (kernels/cuda/device/sampling/sample_math.h) include this file, so this file
// defines only plain scalars.
#pragma once

namespace incipit {

// Number of fraction bits of a mass (the weight of a token in fixed point). The likeliest token of
// a row of logits has the weight 1. A token with a weight of at most 2^-41 has mass 0.
inline constexpr int kMassBits = 40;
// Binary logarithm of the maximum vocabulary size. The sum of the masses (weights in fixed point)
// of 2^kVocabBitsMax tokens fits in 64 bits.
inline constexpr int kVocabBitsMax = 63 - kMassBits;

// Lowest argument of the exponential function. Smaller arguments are replaced by this number.
inline constexpr float kExpLowest = -64.0f;
// 1.5 * 2^23. If this constant is added to an f32 number and then subtracted, the result is the
// number rounded to a whole number.
inline constexpr float kExpRound = 12582912.0f;
inline constexpr float kExpLog2E = 1.44269504f;
// The first 15 significant bits of ln 2. The product of this constant and a small whole number is
// exact.
inline constexpr float kExpLn2High = 0.693145752f;
inline constexpr float kExpLn2Low = 1.42860677e-6f;
// Coefficients of the polynomial q(r), which interpolates (e^r - 1 - r) / r^2 at the Chebyshev
// nodes of |r| <= ln(2) / 2. The relative error of 1 + r + r^2 * q(r), compared with e^r, is at
// most 1.1e-8 in exact arithmetic.
inline constexpr float kExpQ3 = 0.0013926184f;
inline constexpr float kExpQ2 = 0.00836317893f;
inline constexpr float kExpQ1 = 0.0416665561f;
inline constexpr float kExpQ0 = 0.166665763f;
inline constexpr float kExpHalf = 0.5f;

// The low 52 bits of the double `weight * kMassScale + kMassRound` are the mass of a token: its
// weight, rounded to a fixed-point number.
inline constexpr double kMassScale = 0x1p40;
inline constexpr double kMassRound = 0x1p52;
static_assert(kMassScale == static_cast<double>(1ull << kMassBits));

}  // namespace incipit
