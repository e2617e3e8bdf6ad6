// How one token is sampled from one row of logits: the arithmetic that every backend shares, so
// that equal logits give equal tokens everywhere. kernels/reference/sampler.cpp is the whole
// definition as a program; the rules, in their order:
//
//   1. A row with a NaN or +infinity in it, or with nothing above -infinity, is not finite
//      and has no token.
//   2. Repetition penalty over prompt and answer (Keskar et al.: "CTRL", 2019): a positive logit is
//      divided by it, another multiplied. Then minus frequency_penalty times the count in the
//      answer, minus presence_penalty if it is there at all. Then logit_bias. In f32, each
//      operation rounded; what was finite stays within the finite range. Tokens outside the
//      vocabulary have no logit and are ignored.
//   3. Banned tokens are removed. Bans that would leave nothing to sample are void.
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

#include "kernels/sampling_math.h"
#include "kernels/step.h"

namespace incipit {

// exp(x) for x <= 0, that of -64 (1.6e-28) below it; at most one unit in the last place off. Every
// multiplication and addition is rounded by itself, so that all instruction sets give these bits:
//   n = round(x / ln 2), r = x - n ln 2, 2^n (1 + r + r^2 q(r))
float SamplingExp(float x);

// weight * 2^kMassBits, rounded to nearest, ties to even, for weights from 0 to 1 and a little
// over.
uint64_t MassOf(float weight);

// 1 / temperature, kept finite.
float InverseTemperature(float temperature);

// SamplingExp((logit - max) * inverse_temperature).
float WeightOf(float logit, float max, float inverse_temperature);

// The mass that a top_p of this size must reach (1 at least), out of `total`.
uint64_t TopPMass(float top_p, uint64_t total);

// The mass that min_p asks of a token.
uint64_t MinPMass(float min_p);

// The point in [0, total) that the sample's random bits pick.
uint64_t SamplePoint(const StepSample& sample, uint64_t total);

// Larger for larger logits, as an unsigned integer; equal for -0 and +0.
inline uint32_t OrderKey(float logit) {
  const auto bits = std::bit_cast<uint32_t>(logit + 0.0f);
  return bits ^ (static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31) | 0x80000000u);
}

// True if penalties, biases or bans change the logits of the sample's row.
bool ChangesLogits(const StepSample& sample);

// Rule 2, in place.
void ApplyPenaltiesAndBias(const StepSample& sample, std::span<float> logits);

// Rule 3, in place: -infinity for each banned token.
void ApplyBans(const StepSample& sample, std::span<float> logits);

// Natural logarithm of mass / 2^kMassBits, for mass >= 2^kMassBits; error below 1e-14. Its
// operations are rounded one by one, as those of SamplingExp.
double LogOfMass(uint64_t mass);

// Of a token with this logit in a row with this maximum and mass (at temperature 1).
float LogProbability(float logit, float max, double log_of_mass);

}  // namespace incipit
