// Replaces placeholders in the input tokens of a step (a batch that the model computes). A
// placeholder is a negative number. It stands for a token that the previous step has sampled.
#pragma once

#include <span>
#include <vector>

#include "base/check.h"
#include "base/types.h"

namespace incipit {

class FedTokens {
 public:
  // Returns a copy of `tokens` in which each placeholder (a number below 0) is replaced by a token
  // that the previous step sampled. The copy is valid until the next call of BeginStep.
  std::span<const TokenId> BeginStep(std::span<const TokenId> tokens) {
    tokens_.assign(tokens.begin(), tokens.end());
    for (TokenId& token : tokens_) {
      if (token >= 0) continue;
      const auto sample = static_cast<size_t>(-1 - token);
      INCIPIT_CHECK(sample < samples_.size());
      token = samples_[sample] < 0 ? 0 : samples_[sample];
    }
    samples_.clear();
    return tokens_;
  }
  // Appends the tokens that one call of Sample has sampled in the current step (batch).
  void Add(std::span<const TokenId> tokens) {
    samples_.insert(samples_.end(), tokens.begin(), tokens.end());
  }

 private:
  std::vector<TokenId> tokens_, samples_;
};

}  // namespace incipit
