// Samples from one row of logits at a time, bit for bit as kernels/sampling.h defines, without
// sorting the vocabulary.
//
// One pass over a row finds the largest logit of each chunk. That answers greedy requests, and lets
// what comes after it visit only the chunks that hold what it looks for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/candidates.h"
#include "kernels/cpu/simd/kernels.h"
#include "kernels/step.h"

namespace incipit {

// Where one row's log probabilities go. As many of the likeliest are wanted as fit in `top`, which
// is no larger than the vocabulary.
struct LogprobPlace {
  TokenLogprob* chosen = nullptr;
  int32_t* rank = nullptr;
  std::span<TokenLogprob> top;
};

// Not thread-safe: each thread has one, with its working memory.
class RowSampler {
 public:
  explicit RowSampler(const simd::Kernels& kernels) : kernels_(&kernels) {}

  bool IsFinite(std::span<const float> logits) { return Survey(logits); }

  // -1 where the row is not finite.
  TokenId Sample(const StepSample& sample, std::span<const float> logits);

  // REQUIRES: the row is finite.
  void FillLogprobs(std::span<const float> logits, TokenId token, const LogprobPlace& place);

 private:
  // Makes `logits` the row at hand. False if it is not finite.
  bool Survey(std::span<const float> logits);
  void Adjust(const StepSample& sample);

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
  std::span<const float> logits_;  // the row at hand
  std::vector<float> maxima_;      // of its chunks
  float max_ = 0;
  Candidates candidates_;
  std::vector<float> adjusted_, sorted_maxima_;
  std::vector<uint64_t> sums_;
};

}  // namespace incipit
