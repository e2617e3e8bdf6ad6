// Prompts of random tokens that a seed repeats, and the tokens they may be made of.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace incipit {

// Ids below `vocab_size` that stand for text. `has_special` says whether a half open range of ids
// has a special token in it; it is asked O(special tokens x log) times.
absl::StatusOr<std::vector<uint32_t>> OrdinaryTokens(
    uint32_t vocab_size,
    const std::function<absl::StatusOr<bool>(uint32_t begin, uint32_t end)>& has_special);

class BenchPrompts {
 public:
  // REQUIRES: `tokens` is not empty, num_shared <= num_tokens.
  BenchPrompts(std::vector<uint32_t> tokens, uint64_t seed, int32_t num_tokens, int32_t num_shared);

  // The index-th prompt: its first num_shared tokens are those of every other one.
  std::vector<uint32_t> Make(int32_t index) const;

 private:
  std::vector<uint32_t> tokens_;
  uint64_t seed_;
  int32_t num_tokens_, num_shared_;
};

// When requests arrive, in seconds from the start: a Poisson process of `rate` a second.
std::vector<double> PoissonArrivals(uint64_t seed, int32_t num_requests, double rate);

}  // namespace incipit
