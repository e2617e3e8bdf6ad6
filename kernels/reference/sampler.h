// Sampling exactly as defined in kernels/sampling.h: sorts the vocabulary, removes tokens by the
// rules, then samples from the rest.
#pragma once

#include <span>
#include <utility>

#include "kernels/step.h"

namespace incipit::reference {

struct SampledToken {
  TokenId token = -1;  // -1 if the row of logits is not finite
  RowStatus status = RowStatus::kNonFinite;
};
SampledToken SampleToken(const StepSample& sample, std::span<const float> logits);

// Appends one row of log probabilities: `token` with its rank, and the `num_top` likeliest tokens.
// If the row of logits is not finite, appends log probability 0, rank 0 and no likeliest tokens.
RowStatus AppendLogprobs(std::span<const float> logits, TokenId token, int32_t num_top,
                         Logprobs& logprobs);

}  // namespace incipit::reference
