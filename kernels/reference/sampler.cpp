#include "kernels/reference/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "kernels/sampling.h"

namespace incipit::reference {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool IsFiniteRow(std::span<const float> logits) {
  const auto bad = [](float z) { return std::isnan(z) || z == kInfinity; };
  const auto usable = [](float z) { return z > -kInfinity; };
  return std::none_of(logits.begin(), logits.end(), bad) &&
         std::any_of(logits.begin(), logits.end(), usable);
}

// Returns all token ids in descending order of their logits. Tokens with equal logits are in
// ascending order of token id.
std::vector<TokenId> InOrder(std::span<const float> logits) {
  std::vector<TokenId> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  std::stable_sort(tokens.begin(), tokens.end(),
                   [&](TokenId a, TokenId b) { return logits[a] > logits[b]; });
  return tokens;
}

uint64_t SumOf(std::span<const TokenId> tokens, std::span<const uint64_t> masses) {
  uint64_t sum = 0;
  for (const TokenId token : tokens) sum += masses[token];
  return sum;
}

void KeepTopP(float top_p, std::span<const uint64_t> masses, std::vector<TokenId>& tokens) {
  const uint64_t wanted = TopPMass(top_p, SumOf(tokens, masses));
  uint64_t sum = 0;
  size_t count = 0;
  while (sum < wanted) sum += masses[tokens[count++]];
  tokens.resize(count);
}

TokenId SampleFrom(const StepSample& sample, std::span<const float> logits) {
  const SamplingParams& params = *sample.params;
  std::vector<TokenId> tokens = InOrder(logits);
  if (params.temperature <= 0) return tokens.front();
  const float max = logits[tokens.front()];
  const float inverse = InverseTemperature(params.temperature);
  std::vector<uint64_t> masses(logits.size());
  for (size_t v = 0; v < logits.size(); ++v) masses[v] = MassOf(WeightOf(logits[v], max, inverse));

  if (params.top_k > 0) tokens.resize(std::min<size_t>(tokens.size(), params.top_k));
  KeepTopP(params.top_p, masses, tokens);
  const uint64_t enough = MinPMass(params.min_p);
  std::erase_if(tokens, [&](TokenId token) { return masses[token] < enough; });

  std::sort(tokens.begin(), tokens.end());
  const uint64_t point = SamplePoint(sample, SumOf(tokens, masses));
  uint64_t sum = 0;
  for (const TokenId token : tokens) {
    sum += masses[token];
    if (sum > point) return token;
  }
  INCIPIT_CHECK(false);
  return -1;
}

}  // namespace

SampledToken SampleToken(const StepSample& sample, TokenId pending, std::span<const float> logits) {
  if (!IsFiniteRow(logits)) return {};
  std::vector<float> adjusted(logits.begin(), logits.end());
  ApplyPenaltiesAndBias(sample, pending, adjusted);
  std::vector<float> allowed = adjusted;
  ApplyBans(sample, allowed);
  return {SampleFrom(sample, IsFiniteRow(allowed) ? allowed : adjusted), RowStatus::kOk};
}

RowStatus AppendLogprobs(std::span<const float> logits, TokenId token, int32_t num_top,
                         Logprobs& logprobs) {
  if (!IsFiniteRow(logits)) {
    logprobs.chosen.push_back({token, 0});
    logprobs.rank.push_back(0);
    logprobs.top_begin.push_back(static_cast<int32_t>(logprobs.top.size()));
    return RowStatus::kNonFinite;
  }
  const std::vector<TokenId> tokens = InOrder(logits);
  const float max = logits[tokens.front()];
  uint64_t sum = 0;
  for (const float logit : logits) sum += MassOf(WeightOf(logit, max, 1));
  const double log_of_sum = LogOfMass(sum);
  const auto logprob = [&](TokenId t) {
    return TokenLogprob{t, LogProbability(logits[t], max, log_of_sum)};
  };

  logprobs.chosen.push_back(logprob(token));
  const auto position = std::find(tokens.begin(), tokens.end(), token);
  logprobs.rank.push_back(static_cast<int32_t>(position - tokens.begin()) + 1);
  const size_t count = std::min<size_t>(tokens.size(), std::max(num_top, 0));
  for (size_t i = 0; i < count; ++i) logprobs.top.push_back(logprob(tokens[i]));
  logprobs.top_begin.push_back(static_cast<int32_t>(logprobs.top.size()));
  return RowStatus::kOk;
}

}  // namespace incipit::reference
