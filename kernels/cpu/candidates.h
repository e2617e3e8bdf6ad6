// Stores the candidates of one row of logits: the tokens that may be sampled. Also removes
// candidates with small logits.
#pragma once

#include <array>
#include <cstdint>

#include "base/types.h"
#include "kernels/cpu/scratch.h"

namespace incipit {

// The candidates for sampling (tokens with their logits and weights), sorted by token id.
class Candidates {
 public:
  // Removes all candidates and reserves memory for `capacity` candidates.
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

  // Returns the mass of candidate i: its weight in fixed point (MassOf of kernels/sampling.h).
  uint64_t mass(int64_t i) const;

  // Keeps the `k` candidates with the largest logits. Among candidates with equal logits, lower
  // token ids are kept. Does not use weights().
  void KeepLargest(int64_t k);
  // Keeps the candidates with the largest logits: as few as possible, but enough that the sum of
  // their masses (weights in fixed point) is at least `wanted`. REQUIRES: the sum for all
  // candidates is at least `wanted`.
  void KeepMass(uint64_t wanted);

 private:
  // Describes which candidates are kept: all candidates with a logit above a limit, and some of the
  // candidates with a logit equal to the limit.
  struct Cut {
    // All candidates with a logit above this limit are kept. The limit is stored as an integer
    // (OrderKey of kernels/sampling.h).
    uint32_t key = 0;
    // Candidates with a logit equal to the limit are kept until their total reaches this number.
    // KeepLargest counts each candidate as 1, KeepMass as its mass (weight in fixed point).
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
