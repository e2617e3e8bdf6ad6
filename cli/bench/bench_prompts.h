// Creates prompts of random tokens and random arrival times for load tests. Equal seeds give equal
// prompts and times.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"

namespace incipit {

// Returns the token ids in [0, vocab_size) that are not special tokens. `has_special(begin, end)`
// must return true if at least one of the ids [begin, end) is special. `has_special` is called
// about once for every 1,024 ids, and up to 20 more times for each special token.
absl::StatusOr<std::vector<uint32_t>> OrdinaryTokens(
    uint32_t vocab_size,
    const std::function<absl::StatusOr<bool>(uint32_t begin, uint32_t end)>& has_special);

// The prompt and the number of output tokens of one request.
struct BenchPrompt {
  std::vector<uint32_t> tokens;
  int32_t output_tokens = 0;
};

class BenchPrompts {
 public:
  // REQUIRES: `tokens` is not empty, and `num_shared` <= `num_tokens`.
  BenchPrompts(std::vector<uint32_t> tokens, uint64_t seed, int32_t num_tokens, int32_t num_shared);

  // Returns the tokens of prompt number `index`. The first `num_shared` tokens are equal in all
  // prompts.
  std::vector<uint32_t> Make(int32_t index) const;

 private:
  std::vector<uint32_t> tokens_;
  uint64_t seed_;
  int32_t num_tokens_, num_shared_;
};

// Returns random arrival times of `num_requests` requests (a Poisson process), in seconds since the
// start of a load test. On average, `rate` requests arrive per second.
std::vector<double> PoissonArrivals(uint64_t seed, int32_t num_requests, double rate);

// Returns the random think time after request number `index`, in seconds. A user sends no request
// during the think time. Think times have an exponential distribution with the mean `mean`, in
// seconds.
double ThinkTime(uint64_t seed, int32_t index, double mean);

}  // namespace incipit
