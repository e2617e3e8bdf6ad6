// Tokens that may be sampled, and the choice of the largest of them.
#pragma once

#include <array>
#include <cstdint>

#include "base/types.h"
#include "kernels/cpu/scratch.h"

namespace incipit {

// Parallel arrays, in order of token.
class Candidates {
 public:
  // Room for a whole row.
  void Reset(int64_t capacity) {
    tokens_ = token_memory_.Get(capacity);
    logits_ = logit_memory_.Get(capacity);
    weights_ = weight_memory_.Get(capacity);
    size_ = 0;
  }
  void Add(TokenId token, float logit) {
    tokens_[size_] = token;
    logits_[size_++] = logit;
  }

  int64_t size() const { return size_; }
  TokenId token(int64_t i) const { return tokens_[i]; }
  float logit(int64_t i) const { return logits_[i]; }
  const float* logits() const { return logits_; }
  float* weights() { return weights_; }

  uint64_t mass(int64_t i) const;

  // Keeps the `k` with the largest logits; of equal ones the lower tokens. Needs no weights.
  void KeepLargest(int64_t k);
  // Keeps the shortest run of the largest whose masses reach `wanted`, which all of them do.
  void KeepMass(uint64_t wanted);

 private:
  // Of the candidates from the largest to the smallest, those before the first run of equal logits
  // in which the sum of values reaches what is wanted; and what that run still has to bring.
  struct Cut {
    uint32_t key = 0;
    uint64_t wanted_of_equals = 0;
  };
  template <class ValueOf>
  Cut FindCut(uint64_t wanted, const ValueOf& value_of);
  template <class ValueOf>
  void KeepUpTo(Cut cut, const ValueOf& value_of);

  Scratch<TokenId> token_memory_;
  Scratch<float> logit_memory_, weight_memory_;
  TokenId* tokens_ = nullptr;
  float* logits_ = nullptr;
  float* weights_ = nullptr;
  int64_t size_ = 0;
  std::array<uint64_t, 2048> histogram_;
};

}  // namespace incipit
