// Tokens that a step takes from the samples of the previous step, for a backend that computes every
// operation when it is called.
#pragma once

#include <span>
#include <vector>

#include "base/check.h"
#include "base/types.h"

namespace incipit {

class FedTokens {
 public:
  // Returns the tokens of the step that begins, with sampled tokens in place of the numbers below
  // 0. Valid until the next call.
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
  // Adds the tokens of a call of Sample.
  void Add(std::span<const TokenId> tokens) {
    samples_.insert(samples_.end(), tokens.begin(), tokens.end());
  }

 private:
  std::vector<TokenId> tokens_, samples_;
};

}  // namespace incipit
