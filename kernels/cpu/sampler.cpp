#include "kernels/cpu/sampler.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/check.h"
#include "kernels/checks.h"
#include "kernels/sampling.h"

namespace incipit {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::span<const float> RowOf(const TensorView& logits, int32_t row) {
  return {static_cast<const float*>(logits.data) + row * logits.cols,
          static_cast<size_t>(logits.cols)};
}

}  // namespace

bool RowSampler::Survey(std::span<const float> logits) {
  logits_ = logits;
  maxima_.resize((logits.size() + simd::kChunk - 1) / simd::kChunk);
  const bool finite = kernels_->chunk_maxima(logits.data(), std::ssize(logits), maxima_.data());
  max_ = *std::max_element(maxima_.begin(), maxima_.end());
  return finite && max_ > -kInfinity;
}

// Applies penalties, biases and bans to a copy of the current row of logits. The copy then becomes
// the current row. If the bans exclude every token, all bans are ignored.
void RowSampler::Adjust(const StepSample& sample, TokenId pending) {
  const std::span<const float> original = logits_;
  adjusted_.assign(original.begin(), original.end());
  ApplyPenaltiesAndBias(sample, pending, adjusted_);
  ApplyBans(sample, adjusted_);
  if (Survey(adjusted_)) return;
  adjusted_.assign(original.begin(), original.end());
  ApplyPenaltiesAndBias(sample, pending, adjusted_);
  INCIPIT_CHECK(Survey(adjusted_));
}

TokenId RowSampler::Sample(const StepSample& sample, TokenId pending,
                           std::span<const float> logits) {
  if (!Survey(logits)) return -1;
  if (ChangesLogits(sample)) Adjust(sample, pending);
  const SamplingParams& params = *sample.params;
  if (params.temperature <= 0) return LowestOfLargest();

  const bool has_top_k = params.top_k > 0 && params.top_k < std::ssize(logits);
  if (has_top_k) {
    CollectLargest(params.top_k);
    const uint64_t total = Weigh(InverseTemperature(params.temperature));
    if (params.top_p < 1) candidates_.KeepMass(TopPMass(params.top_p, total));
  } else if (params.top_p < 1) {
    CollectMass(sample);
  } else if (params.min_p > 0) {
    // min_p excludes tokens whose logit is too far below the largest logit. `below` is slightly
    // larger than this distance, so that rounding errors cannot exclude a token that min_p keeps.
    const double below = (0.01 - std::log(params.min_p)) * params.temperature;
    Collect(static_cast<float>(max_ - below));
    Weigh(InverseTemperature(params.temperature));
  } else {
    return SampleFromRow(sample);
  }
  return SampleFromCandidates(sample);
}

TokenId RowSampler::LowestOfLargest() const {
  const int64_t chunk = std::find(maxima_.begin(), maxima_.end(), max_) - maxima_.begin();
  const std::span<const float> logits = Chunk(chunk);
  const int64_t position = std::find(logits.begin(), logits.end(), max_) - logits.begin();
  return static_cast<TokenId>(chunk * simd::kChunk + position);
}

// Fills `candidates_` with all tokens whose logit is at least `lowest`, in ascending order of token
// id.
void RowSampler::Collect(float lowest) {
  candidates_.Reset(std::ssize(logits_));
  for (int64_t chunk = 0; chunk < std::ssize(maxima_); ++chunk) {
    if (maxima_[chunk] < lowest) continue;
    auto token = static_cast<TokenId>(chunk * simd::kChunk);
    for (const float logit : Chunk(chunk)) {
      if (logit >= lowest) candidates_.Add(token, logit);
      ++token;
    }
  }
}

// Fills `candidates_` with the k tokens that have the largest logits. Skips each chunk of the row
// whose largest logit (an element of `maxima_`) is too small.
void RowSampler::CollectLargest(int64_t k) {
  float lowest = -kInfinity;
  if (k <= std::ssize(maxima_)) {
    sorted_maxima_.assign(maxima_.begin(), maxima_.end());
    const auto nth = sorted_maxima_.begin() + (k - 1);
    std::nth_element(sorted_maxima_.begin(), nth, sorted_maxima_.end(), std::greater<>());
    lowest = *nth;
  }
  Collect(lowest);
  candidates_.KeepLargest(k);
}

// Fills `candidates_` with the most probable tokens: as few as possible, but with a total
// probability of at least top_p. To save time, first collects only the tokens with logits near the
// largest logit. In most rows, these tokens are enough.
void RowSampler::CollectMass(const StepSample& sample) {
  const SamplingParams& params = *sample.params;
  const float inverse = InverseTemperature(params.temperature);
  const uint64_t total =
      kernels_->weigh(logits_.data(), std::ssize(logits_), max_, inverse, nullptr);
  const uint64_t wanted = TopPMass(params.top_p, total);
  for (const float below : {8.0f, 16.0f, kInfinity}) {
    Collect(max_ - below * params.temperature);
    if (Weigh(inverse) >= wanted) break;
  }
  candidates_.KeepMass(wanted);
}

uint64_t RowSampler::Weigh(float inverse_temperature) {
  return kernels_->weigh(candidates_.logits(), candidates_.size(), max_, inverse_temperature,
                         candidates_.weights());
}

TokenId RowSampler::SampleFromCandidates(const StepSample& sample) const {
  const uint64_t enough = MinPMass(sample.params->min_p);
  uint64_t total = 0;
  for (int64_t i = 0; i < candidates_.size(); ++i) {
    const uint64_t mass = candidates_.mass(i);
    if (mass >= enough) total += mass;
  }
  const uint64_t point = SamplePoint(sample, total);
  uint64_t sum = 0;
  for (int64_t i = 0; i < candidates_.size(); ++i) {
    const uint64_t mass = candidates_.mass(i);
    if (mass >= enough) sum += mass;
    if (sum > point) return candidates_.token(i);
  }
  INCIPIT_CHECK(false);
  return -1;
}

// Samples from all tokens of the row: selects a random point in the sum of all token weights, finds
// the range of 4096 tokens that contains the point, and then the token.
TokenId RowSampler::SampleFromRow(const StepSample& sample) {
  constexpr int64_t kPart = 4096;
  const float inverse = InverseTemperature(sample.params->temperature);
  const int64_t size = std::ssize(logits_);
  sums_.clear();
  uint64_t total = 0;
  for (int64_t begin = 0; begin < size; begin += kPart) {
    const int64_t part = std::min(kPart, size - begin);
    sums_.push_back(kernels_->weigh(logits_.data() + begin, part, max_, inverse, nullptr));
    total += sums_.back();
  }
  uint64_t point = SamplePoint(sample, total);
  int64_t begin = 0;
  for (const uint64_t sum : sums_) {
    if (point < sum) break;
    point -= sum;
    begin += kPart;
  }
  float weights[kPart];
  const int64_t part = std::min(kPart, size - begin);
  kernels_->weigh(logits_.data() + begin, part, max_, inverse, weights);
  for (int64_t i = 0; i < part; ++i) {
    const uint64_t mass = MassOf(weights[i]);
    if (point < mass) return static_cast<TokenId>(begin + i);
    point -= mass;
  }
  INCIPIT_CHECK(false);
  return -1;
}

int32_t RowSampler::RankOf(TokenId token) const {
  const float logit = logits_[token];
  int32_t rank = 1;
  for (int64_t chunk = 0; chunk < std::ssize(maxima_); ++chunk) {
    if (maxima_[chunk] < logit) continue;
    auto other = static_cast<TokenId>(chunk * simd::kChunk);
    for (const float value : Chunk(chunk)) {
      if (value > logit || (value == logit && other < token)) ++rank;
      ++other;
    }
  }
  return rank;
}

void RowSampler::FillLogprobs(std::span<const float> logits, TokenId token,
                              const LogprobSlot& slot) {
  INCIPIT_CHECK(Survey(logits));
  const uint64_t mass = kernels_->weigh(logits.data(), std::ssize(logits), max_, 1, nullptr);
  const double log_of_mass = LogOfMass(mass);
  *slot.chosen = {token, LogProbability(logits[token], max_, log_of_mass)};
  *slot.rank = RankOf(token);
  if (slot.top.empty()) return;

  CollectLargest(std::ssize(slot.top));
  for (int64_t i = 0; i < candidates_.size(); ++i) {
    const float logprob = LogProbability(candidates_.logit(i), max_, log_of_mass);
    slot.top[i] = {candidates_.token(i), logprob};
  }
  std::sort(slot.top.begin(), slot.top.end(),
            [logits](const TokenLogprob& a, const TokenLogprob& b) {
              const float first = logits[a.token], second = logits[b.token];
              return first > second || (first == second && a.token < b.token);
            });
}

CpuSampler::CpuSampler(const simd::Kernels& kernels, const Threads& threads) : threads_(threads) {
  samplers_.reserve(static_cast<size_t>(threads.count()));
  for (int32_t i = 0; i < threads.count(); ++i) samplers_.emplace_back(kernels);
}

void CpuSampler::Sample(const SampleArgs& args, const FedTokens& fed_tokens) {
  CheckSampleArgs(args);
  const int64_t count = std::ssize(args.samples);
  threads_.ForEach(count, count * args.logits.cols, [&](int64_t i, int32_t thread) {
    const StepSample& sample = args.samples[i];
    const TokenId token = samplers_[thread].Sample(sample, fed_tokens.PendingTokenOf(sample),
                                                   RowOf(args.logits, args.logits_rows[i]));
    args.tokens[i] = token;
    args.status[i] = token >= 0 ? RowStatus::kOk : RowStatus::kNonFinite;
  });
  wanted_.clear();
  for (int64_t i = 0; i < count; ++i) {
    const int32_t num_logprobs = args.samples[i].params->num_logprobs;
    if (num_logprobs < 0) continue;
    wanted_.push_back({.logits_row = args.logits_rows[i],
                       .token = args.tokens[i],
                       .num_top = num_logprobs,
                       .finite = args.status[i] == RowStatus::kOk});
  }
  if (!wanted_.empty()) AppendLogprobs(args.logits, *args.logprobs);
}

void CpuSampler::Score(const ScoreArgs& args) {
  CheckScoreArgs(args);
  wanted_.clear();
  for (size_t i = 0; i < args.scores.size(); ++i) {
    const StepScore& score = args.scores[i];
    const int32_t row = args.logits_rows[i];
    const bool finite = samplers_.front().IsFinite(RowOf(args.logits, row));
    args.status[i] = finite ? RowStatus::kOk : RowStatus::kNonFinite;
    wanted_.push_back(
        {.logits_row = row, .token = score.target, .num_top = score.num_top, .finite = finite});
  }
  AppendLogprobs(args.logits, *args.logprobs);
}

// Appends one row of log probabilities to `logprobs` for each element of `wanted_` (a row of
// logits), in the same order.
void CpuSampler::AppendLogprobs(const TensorView& logits, Logprobs& logprobs) {
  const size_t first = logprobs.chosen.size();
  for (LogprobRow& row : wanted_) {
    const int64_t num_top = row.finite ? std::max(row.num_top, 0) : 0;
    row.num_top = static_cast<int32_t>(std::min(num_top, logits.cols));
    row.top_begin = logprobs.top.size();
    logprobs.top.resize(logprobs.top.size() + static_cast<size_t>(row.num_top));
    logprobs.top_begin.push_back(static_cast<int32_t>(logprobs.top.size()));
    logprobs.chosen.push_back({row.token, 0});
    logprobs.rank.push_back(0);
  }
  const int64_t count = std::ssize(wanted_);
  threads_.ForEach(count, count * logits.cols, [&](int64_t i, int32_t thread) {
    const LogprobRow& row = wanted_[i];
    if (!row.finite) return;
    samplers_[thread].FillLogprobs(
        RowOf(logits, row.logits_row), row.token,
        {.chosen = &logprobs.chosen[first + i],
         .rank = &logprobs.rank[first + i],
         .top = std::span(logprobs.top).subspan(row.top_begin, static_cast<size_t>(row.num_top))});
  });
}

}  // namespace incipit
