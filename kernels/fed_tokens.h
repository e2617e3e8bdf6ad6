// Stores the tokens that the previous step has sampled. The current step uses these tokens as input
// tokens and for penalties.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/types.h"
#include "kernels/step.h"

namespace incipit {

class FedTokens {
 public:
  // Starts a step. The tokens that Add received since the previous call become the tokens of the
  // previous step. Returns a copy of `tokens` without placeholders: token number i of the previous
  // step replaces each placeholder -1 - i. The copy is valid until the next call of BeginStep.
  std::span<const TokenId> BeginStep(std::span<const TokenId> tokens) {
    std::swap(previous_, current_);
    current_.clear();
    tokens_.assign(tokens.begin(), tokens.end());
    for (TokenId& token : tokens_) {
      if (token < 0) token = std::max(SampleOfPrevious(-1 - token), 0);
    }
    return tokens_;
  }
  // Returns the token that the previous step sampled at index sample.pending_sample. Returns -1 if
  // sample.pending_sample is -1, or if the logits of this token were not finite.
  TokenId PendingTokenOf(const StepSample& sample) const {
    return sample.pending_sample < 0 ? -1 : SampleOfPrevious(sample.pending_sample);
  }
  // Appends the tokens that one call of Sample has sampled in the current step (batch).
  void Add(std::span<const TokenId> tokens) {
    current_.insert(current_.end(), tokens.begin(), tokens.end());
  }

 private:
  TokenId SampleOfPrevious(int32_t index) const {
    INCIPIT_CHECK(static_cast<size_t>(index) < previous_.size());
    return previous_[static_cast<size_t>(index)];
  }

  std::vector<TokenId> tokens_;
  std::vector<TokenId> previous_, current_;  // tokens that the previous and the current step sample
};

}  // namespace incipit
