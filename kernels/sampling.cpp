#include "kernels/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/random.h"

namespace incipit {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

bool InVocabulary(TokenId token, std::span<const float> logits) {
  return token >= 0 && token < std::ssize(logits);
}

void Penalize(const SamplingParams& params, const TokenCount& count, std::span<float> logits) {
  if (!InVocabulary(count.token, logits) || logits[count.token] == -kInfinity) return;
  float value = logits[count.token];
  if (count.in_prompt + count.in_output > 0) {
    value = value > 0 ? value / params.repetition_penalty : value * params.repetition_penalty;
  }
  if (count.in_output > 0) {
    value = value - params.frequency_penalty * static_cast<float>(count.in_output);
    value = value - params.presence_penalty;
  }
  logits[count.token] = std::clamp(value, -kLargest, kLargest);
}

// Applies the penalties of `sample` to `logits`. `pending`: the output token that the previous step
// sampled and that `sample.counts` does not contain yet; -1: none.
void Penalize(const StepSample& sample, TokenId pending, std::span<float> logits) {
  TokenCount pending_count = {.token = pending};
  for (const TokenCount& count : sample.counts) {
    if (count.token == pending) {
      pending_count = count;
    } else {
      Penalize(*sample.params, count, logits);
    }
  }
  ++pending_count.in_output;
  Penalize(*sample.params, pending_count, logits);
}

}  // namespace

float SamplingExp(float x) {
  x = x > kExpLowest ? x : kExpLowest;
  const float n = (x * kExpLog2E + kExpRound) - kExpRound;
  float r = x - n * kExpLn2High;
  r = r - n * kExpLn2Low;
  float q = kExpQ3 * r + kExpQ2;
  q = q * r + kExpQ1;
  q = q * r + kExpQ0;
  q = q * r + kExpHalf;
  const float y = (q * (r * r) + r) + 1.0f;
  return std::bit_cast<float>(std::bit_cast<int32_t>(y) + (static_cast<int32_t>(n) << 23));
}

uint64_t MassOf(float weight) {
  const double shifted = double{weight} * kMassScale + kMassRound;
  return std::bit_cast<uint64_t>(shifted) & ((uint64_t{1} << 52) - 1);
}

float WeightOf(float logit, float max, float inverse_temperature) {
  return SamplingExp((logit - max) * inverse_temperature);
}

float InverseTemperature(float temperature) { return std::min(1 / temperature, kLargest); }

uint64_t TopPMass(float top_p, uint64_t total) {
  const auto share = static_cast<uint64_t>(double{top_p} * 0x1p63);
  return std::max<uint64_t>(1, static_cast<uint64_t>(Wide{total} * share >> 63));
}

uint64_t MinPMass(float min_p) {
  return static_cast<uint64_t>(std::ceil(double{min_p} * (uint64_t{1} << kMassBits)));
}

uint64_t SamplePoint(const StepSample& sample, uint64_t total) {
  const uint64_t bits = RandomBits(sample.params->seed, static_cast<uint32_t>(sample.choice),
                                   static_cast<uint64_t>(sample.position));
  return static_cast<uint64_t>(Wide{bits} * total >> 64);
}

bool ChangesLogits(const StepSample& sample) {
  const bool has_tokens = !sample.counts.empty() || sample.pending_sample >= 0;
  const bool penalised = sample.params->has_penalties() && has_tokens;
  return penalised || !sample.params->logit_bias.empty() || !sample.banned.empty();
}

void ApplyPenaltiesAndBias(const StepSample& sample, TokenId pending, std::span<float> logits) {
  if (sample.params->has_penalties()) Penalize(sample, pending, logits);
  for (const TokenBias& bias : sample.params->logit_bias) {
    if (!InVocabulary(bias.token, logits) || logits[bias.token] == -kInfinity) continue;
    logits[bias.token] = std::clamp(logits[bias.token] + bias.bias, -kLargest, kLargest);
  }
}

void ApplyBans(const StepSample& sample, std::span<float> logits) {
  for (const TokenId token : sample.banned) {
    if (InVocabulary(token, logits)) logits[token] = -kInfinity;
  }
}

double LogOfMass(uint64_t mass) {
  // Finds m in [sqrt(1/2), sqrt(2)] and a whole number `exponent` for which mass = m * 2^exponent.
  int exponent = std::bit_width(mass) - 1;
  double m = static_cast<double>(mass) / static_cast<double>(uint64_t{1} << exponent);
  if (m > 1.4142135623730951) {
    m = m / 2;
    ++exponent;
  }
  // The natural logarithm of m is 2 artanh(s), computed as a power series.
  const double s = (m - 1) / (m + 1);
  const double square = s * s;
  double series = 0;
  for (int odd = 19; odd >= 1; odd -= 2) series = series * square + 1.0 / odd;
  return (exponent - kMassBits) * 0.69314718055994531 + 2 * (s * series);
}

float LogProbability(float logit, float max, double log_of_mass) {
  if (logit == -kInfinity) return -kInfinity;
  const double value = (double{logit} - double{max}) - log_of_mass;
  return static_cast<float>(std::max(value, -double{kLargest}));
}

}  // namespace incipit
