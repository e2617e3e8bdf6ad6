// Samples tokens on the CPU: from one row of logits on one thread, and from all rows of a step on
// several threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/candidates.h"
#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/threads.h"
#include "kernels/fed_tokens.h"
#include "kernels/step.h"

namespace incipit {

// Memory for the log probabilities of one row of logits. The size of `top` is the number of
// likeliest tokens to store, at most the vocabulary size.
struct LogprobSlot {
  TokenLogprob* chosen = nullptr;
  int32_t* rank = nullptr;
  std::span<TokenLogprob> top;
};

// Samples from one row of logits at a time by the rules of kernels/sampling.h, without sorting the
// vocabulary. Each thread needs its own sampler.
class RowSampler {
 public:
  explicit RowSampler(const simd::Kernels& kernels) : kernels_(&kernels) {}

  bool IsFinite(std::span<const float> logits) { return Survey(logits); }

  // Returns the sampled token, or -1 if a logit of the row is NaN or +infinity, or all logits are
  // -infinity. `pending`: the output token that the previous step sampled and that `sample.counts`
  // does not contain yet; -1: none.
  TokenId Sample(const StepSample& sample, TokenId pending, std::span<const float> logits);

  // Computes the log probability and the rank of `token`, and the likeliest tokens of the row
  // `logits`.
  // REQUIRES: all values of `logits` are finite or -infinity.
  void FillLogprobs(std::span<const float> logits, TokenId token, const LogprobSlot& slot);

 private:
  // Makes `logits` the current row and computes the maximum of each chunk of simd::kChunk logits.
  // Returns false if a logit is NaN or +infinity, or all logits are -infinity.
  bool Survey(std::span<const float> logits);
  void Adjust(const StepSample& sample, TokenId pending);

  TokenId LowestOfLargest() const;
  TokenId SampleFromRow(const StepSample& sample);
  TokenId SampleFromCandidates(const StepSample& sample) const;

  void Collect(float lowest);
  void CollectLargest(int64_t k);
  void CollectMass(const StepSample& sample);
  uint64_t Weigh(float inverse_temperature);
  int32_t RankOf(TokenId token) const;

  std::span<const float> Chunk(int64_t chunk) const {
    const auto begin = static_cast<size_t>(chunk * simd::kChunk);
    return logits_.subspan(begin, std::min<size_t>(simd::kChunk, logits_.size() - begin));
  }

  const simd::Kernels* kernels_;
  std::span<const float> logits_;  // the current row of logits
  std::vector<float> maxima_;      // element i: the largest logit of chunk i of the current row
  float max_ = 0;
  Candidates candidates_;
  std::vector<float> adjusted_, sorted_maxima_;
  std::vector<uint64_t> sums_;
};

// Samples from the rows of a step, and computes log probabilities, on several threads.
class CpuSampler {
 public:
  CpuSampler(const simd::Kernels& kernels, const Threads& threads);

  // Samples the tokens of `args`. `fed_tokens` contains the tokens that the previous step sampled.
  void Sample(const SampleArgs& args, const FedTokens& fed_tokens);
  void Score(const ScoreArgs& args);

 private:
  // One row of logits for which log probabilities are requested.
  struct LogprobRow {
    int32_t logits_row = 0;
    TokenId token = -1;
    int32_t num_top = 0;
    // false: the row is invalid (for example, a logit is NaN), and zeros are stored for this row
    bool finite = false;
    size_t top_begin = 0;  // index in Logprobs::top of the first entry of this row
  };

  void AppendLogprobs(const TensorView& logits, Logprobs& logprobs);

  const Threads& threads_;
  std::vector<RowSampler> samplers_;  // element i: the sampler that thread i uses
  std::vector<LogprobRow> wanted_;
};

}  // namespace incipit
