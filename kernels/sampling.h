// How one token is drawn from one row of logits: the arithmetic that every backend shares, so that
// equal logits give equal tokens everywhere. kernels/reference/sampling.cpp is the whole definition
// as a program; the rules, in their order:
//
//   1. A row with a NaN or +infinity in it, or with nothing above -infinity, is not finite: no
//   draw.
//   2. Repetition penalty over prompt and answer (Keskar et al.: "CTRL", 2019): a positive logit is
//      divided by it, another multiplied. Then minus frequency_penalty times the count in the
//      answer, minus presence_penalty if it is there at all. Then logit_bias. In f32, each
//      operation rounded; what was finite stays within the finite range. Tokens outside the
//      vocabulary have no logit and are ignored.
//   3. Banned tokens are removed. Bans that would leave nothing to draw are void.
//   4. temperature <= 0: the largest logit is taken, of equal ones the lowest token.
//   5. Otherwise a token weighs exp((logit - max) / temperature), held as a 64-bit fixed-point
//   mass.
//      Sums of masses are exact, hence the same in any order.
//   6. top_k keeps the k largest; then top_p the shortest run of the largest whose mass reaches
//   that
//      share of what is left; then min_p those with at least that share of the largest mass. Of
//      equal logits the lower token is the larger.
//   7. 64 random bits, a function of (seed, choice, position) alone, pick a point in the mass that
//      is left, laid out in order of token.
//
// Log probabilities are those of the untouched logits.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "kernels/backend.h"

namespace incipit {

// Mass of the likeliest token is 1 << kMassBits. So up to 1 << kVocabBitsMax tokens sum without
// overflow, and a token 1e12 times less likely than the likeliest has no mass left.
inline constexpr int kMassBits = 40;
inline constexpr int kVocabBitsMax = 63 - kMassBits;

// exp(x) for x <= 0, below 1e-27 under -64; relative error at most 1.2e-7 (one unit in the last
// place). Multiplications and additions are rounded one by one (no fused ones), so that every
// instruction set gives the same bits.
namespace sampling_exp {
inline constexpr float kLowest = -64.0f;
inline constexpr float kLog2E = 1.44269504f;
inline constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
inline constexpr float kLn2High = 0.693145752f, kLn2Low = 1.42860677e-6f;
// (e^r - 1 - r) / r^2 interpolated at the Chebyshev nodes of |r| <= ln(2) / 2; error 1.1e-8.
inline constexpr float kC2 = 0.5f, kC3 = 0.166665763f, kC4 = 0.0416665561f, kC5 = 0.00836317893f,
                       kC6 = 0.0013926184f;
}  // namespace sampling_exp

inline float SamplingExp(float x) {
  namespace c = sampling_exp;
  x = x > c::kLowest ? x : c::kLowest;
  const float shifted = x * c::kLog2E + c::kRound;
  const float n = shifted - c::kRound;
  float r = x - n * c::kLn2High;
  r = r - n * c::kLn2Low;
  float q = c::kC6 * r + c::kC5;
  q = q * r + c::kC4;
  q = q * r + c::kC3;
  q = q * r + c::kC2;
  const float y = (q * (r * r) + r) + 1.0f;
  return std::bit_cast<float>(std::bit_cast<int32_t>(y) + (static_cast<int32_t>(n) << 23));
}

// weight * 2^kMassBits, rounded to nearest, for weights from 0 to 1 and a little over.
inline uint64_t MassOf(float weight) {
  // Adding 2^52 leaves the rounded integer in the low bits.
  const double shifted = double{weight} * 0x1p40 + 0x1p52;
  return std::bit_cast<uint64_t>(shifted) & ((uint64_t{1} << 52) - 1);
}

// 1 / temperature, kept finite.
float InverseTemperature(float temperature);

inline float WeightOf(float logit, float max, float inverse_temperature) {
  return SamplingExp((logit - max) * inverse_temperature);
}

// The mass that a top_p of this size must reach (1 at least), out of `total`.
uint64_t TopPMass(float top_p, uint64_t total);

// The mass that min_p asks of a token.
uint64_t MinPMass(float min_p);

// Where in [0, total) this row's draw falls.
uint64_t DrawPoint(const SampleRow& row, uint64_t total);

// Larger for larger logits, as an unsigned integer; equal for -0 and +0.
inline uint32_t OrderKey(float logit) {
  const auto bits = std::bit_cast<uint32_t>(logit + 0.0f);
  return bits ^ (static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31) | 0x80000000u);
}

// True if penalties, biases or bans change the row.
bool ChangesLogits(const SampleRow& row);

// Rule 2, in place.
void ApplyPenaltiesAndBias(const SampleRow& row, std::span<float> logits);

// Rule 3, in place: -infinity for each banned token.
void ApplyBans(const SampleRow& row, std::span<float> logits);

// Natural logarithm of mass / 2^kMassBits, for mass >= 2^kMassBits; error below 1e-14. Its
// operations are rounded one by one, as those of SamplingExp.
double LogOfMass(uint64_t mass);

// Of a token with this logit in a row with this maximum and mass (at temperature 1).
float LogProbability(float logit, float max, double log_of_mass);

}  // namespace incipit
