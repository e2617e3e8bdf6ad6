// Declares the rules by which a token is sampled from one row of logits. Every backend uses this
// arithmetic, so that all backends sample the same token from the same logits.
// kernels/reference/sampler.cpp implements all rules in one short program. The rules are applied in
// this order:
//
//   1. A row is not finite if it contains a NaN or +infinity, or if all its values are -infinity.
//      No token is sampled from a row that is not finite.
//   2. The repetition penalty applies to tokens of the prompt and the output (Keskar et al.:
//      "CTRL", 2019). A positive logit is divided by the penalty, any other logit is multiplied by
//      the penalty. Then frequency_penalty times the token's count in the output is subtracted.
//      Then presence_penalty is subtracted if the token occurs in the output. Then logit_bias is
//      added. Each operation is rounded to f32, and finite values are clamped to the finite range.
//      Penalties and biases of tokens outside of the vocabulary are ignored. A pending token
//      (an output token that the host does not know yet, see StepSample::pending_sample) counts as
//      one more occurrence in the output.
//   3. Banned tokens are removed. If the bans would remove every token, all bans are ignored.
//   4. If temperature <= 0, the token with the largest logit is returned. Among equal logits, the
//      lowest token id is returned. Rules 5 to 7 do not apply.
//   5. Each token has the weight exp((logit - max) / temperature), where max is the largest logit.
//      A mass is the weight as a 64-bit fixed-point number. Sums of masses are exact, hence
//      independent of the order of summation.
//   6. top_k keeps the k tokens with the largest logits. Then top_p keeps the fewest tokens with
//      the largest logits whose masses sum to at least top_p times the mass of the tokens that
//      top_k keeps. Then min_p keeps the tokens whose mass is at least min_p times the largest
//      mass. Among equal logits, the lower token id counts as the larger logit.
//   7. The range [0, sum of the masses of all kept tokens) is divided into one interval per token,
//      in ascending order of token id. The length of an interval is the mass of its token. 64
//      random bits, a function of (seed, choice, position) only, select a point in the range. The
//      token of the interval that contains the point is returned.
//
// Log probabilities are computed from the logits before any of these rules.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "kernels/sampling_math.h"
#include "kernels/step.h"

namespace incipit {

// Returns exp(x) for x <= 0, with an error of at most one unit in the last place. For x < -64,
// returns exp(-64) = 1.6e-28. Every multiplication and addition is rounded separately, so that all
// instruction sets return the same bits.
float SamplingExp(float x);

// Returns the mass of a token: weight * 2^kMassBits, rounded to the nearest whole number, ties to
// even. `weight` is the weight of the token and may be slightly above 1.
uint64_t MassOf(float weight);

// Returns 1 / temperature, or the largest finite number if 1 / temperature is infinite.
float InverseTemperature(float temperature);

// Returns the weight of a token, SamplingExp((logit - max) * inverse_temperature). `max` is the
// largest logit of the row.
float WeightOf(float logit, float max, float inverse_temperature);

// Returns the minimum sum of the masses (fixed-point weights) of the tokens that top_p keeps: top_p
// * total, but at least 1.
uint64_t TopPMass(float top_p, uint64_t total);

// Returns the smallest mass (fixed-point weight) of a token that min_p keeps.
uint64_t MinPMass(float min_p);

// Returns a random point in [0, total), which depends only on `total` and on the seed, choice and
// position of `sample`. `total` is the sum of the masses (fixed-point weights) of all kept tokens.
uint64_t SamplePoint(const StepSample& sample, uint64_t total);

// Returns an unsigned integer that sorts logits: a larger logit has a larger integer. -0 and +0
// have the same integer.
inline uint32_t OrderKey(float logit) {
  const auto bits = std::bit_cast<uint32_t>(logit + 0.0f);
  return bits ^ (static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31) | 0x80000000u);
}

// Returns true if penalties, biases or bans of `sample` may change the logits.
bool ChangesLogits(const StepSample& sample);

// Applies rule 2 of this file (penalties and biases) to `logits` in place. `pending`: the output
// token that the previous step sampled and that `sample.counts` does not contain yet; -1: none.
void ApplyPenaltiesAndBias(const StepSample& sample, TokenId pending, std::span<float> logits);

// Applies rule 3 of this file (bans): sets the logit of each banned token to -infinity.
void ApplyBans(const StepSample& sample, std::span<float> logits);

// Returns the natural logarithm of mass * 2^-kMassBits, with an error below 1e-14. Every operation
// is rounded separately, so that all instruction sets return the same bits.
// REQUIRES: mass >= 2^kMassBits.
double LogOfMass(uint64_t mass);

// Returns the log probability of a token with the logit `logit`. `max` is the largest logit of the
// row. `log_of_mass` is the natural logarithm of the sum of exp(x - max) over all logits x of the
// row, computed with LogOfMass().
float LogProbability(float logit, float max, double log_of_mass);

}  // namespace incipit
