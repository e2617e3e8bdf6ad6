// Samples by the rules of kernels/sampling.h: sorts the vocabulary, removes tokens by each rule,
// then samples from the remaining tokens.
#pragma once

#include <span>
#include <utility>

#include "kernels/step.h"

namespace incipit::reference {

struct SampledToken {
  // The sampled token, or -1 if a logit of the row is NaN or +infinity, or if all logits are
  // -infinity.
  TokenId token = -1;
  RowStatus status = RowStatus::kNonFinite;
};
// Samples a token for `sample` from `logits`. `pending`: the output token that the previous step
// sampled and that `sample.counts` does not contain yet; -1: none.
SampledToken SampleToken(const StepSample& sample, TokenId pending, std::span<const float> logits);

// Appends the log probability and the rank of `token`, and the `num_top` tokens with the largest
// values of `logits`. If a logit is NaN or +infinity, or all logits are -infinity, appends zeros
// for `token` and no likeliest tokens.
RowStatus AppendLogprobs(std::span<const float> logits, TokenId token, int32_t num_top,
                         Logprobs& logprobs);

}  // namespace incipit::reference
