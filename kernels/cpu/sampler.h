// Sampling of a whole step on the CPU: its rows over the threads.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/row_sampler.h"
#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/threads.h"

namespace incipit {

class CpuSampler {
 public:
  CpuSampler(const simd::Kernels& kernels, const Threads& threads);

  void Sample(const SampleArgs& args);
  void Score(const ScoreArgs& args);

 private:
  // A row of log probabilities to append.
  struct LogprobRow {
    int32_t logits_row = 0;
    TokenId token = -1;
    int32_t num_top = 0;
    bool finite = false;   // a row that is not gets 0, rank 0 and no likeliest tokens
    size_t top_begin = 0;  // its place in Logprobs::top
  };

  void AppendLogprobs(const TensorView& logits, Logprobs& logprobs);

  const Threads& threads_;
  std::vector<RowSampler> samplers_;  // one for each thread
  std::vector<LogprobRow> wanted_;
};

}  // namespace incipit
