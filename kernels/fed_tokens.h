// Tokens that a step takes from the draws of the step before it, for a backend that computes every
// operation when it is called.
#pragma once

#include <span>
#include <vector>

#include "base/check.h"
#include "base/types.h"

namespace incipit {

class FedTokens {
 public:
  // The tokens of the step that begins, with draws in place of the numbers below 0. Valid until the
  // next call, like `tokens`.
  std::span<const TokenId> BeginStep(std::span<const TokenId> tokens) {
    tokens_.assign(tokens.begin(), tokens.end());
    for (TokenId& token : tokens_) {
      if (token >= 0) continue;
      const auto draw = static_cast<size_t>(-1 - token);
      INCIPIT_CHECK(draw < draws_.size());
      token = draws_[draw] < 0 ? 0 : draws_[draw];
    }
    draws_.clear();
    return tokens_;
  }
  // What a call of Sample drew.
  void Add(std::span<const TokenId> draws) {
    draws_.insert(draws_.end(), draws.begin(), draws.end());
  }

 private:
  std::vector<TokenId> tokens_, draws_;
};

}  // namespace incipit
