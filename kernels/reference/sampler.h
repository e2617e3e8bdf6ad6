// Sampling as its definition: sorts the vocabulary, keeps and samples. See kernels/sampling.h.
#pragma once

#include <span>
#include <utility>

#include "kernels/step.h"

namespace incipit::reference {

struct SampledToken {
  TokenId token = -1;  // -1 where the row is not finite
  RowStatus status = RowStatus::kNonFinite;
};
SampledToken SampleToken(const StepSample& sample, std::span<const float> logits);

// Appends one row: `token` with its rank, and the `num_top` likeliest. A row that is not finite has
// log probability 0, rank 0 and no likeliest tokens.
RowStatus AppendLogprobs(std::span<const float> logits, TokenId token, int32_t num_top,
                         Logprobs& logprobs);

}  // namespace incipit::reference
