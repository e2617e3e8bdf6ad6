// Makes the requests of a load test. Computes how many prompt tokens of each request a prefix cache
// without a size limit would find.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "cli/bench/bench_load.h"
#include "cli/bench/bench_prompts.h"
#include "cli/bench/implied_cache.h"
#include "incipit/v1/inference.pb.h"

namespace incipit {

// The functions that create the prompts of a load test.
struct PromptSource {
  // Returns the prompt of request number `index`, which `user` sends.
  std::function<BenchPrompt(int32_t index, int32_t user)> next;
  // Receives the end of each request. May be empty.
  std::function<void(const BenchEnd& end)> on_end{};
};

// Makes the requests of a load test. Not thread-safe.
class BenchRequests {
 public:
  // The server samples the output of request i with the seed `seed` + i. `block_size` is the number
  // of tokens in a block of the server's prefix cache; nullopt: unknown.
  BenchRequests(PromptSource source, uint64_t seed, float temperature,
                std::optional<int32_t> block_size);

  // Makes request number `index`, which `user` sends. REQUIRES: the requests are made in the order
  // in which they are sent, and OnEnd() was called for the previous request of `user`.
  v1::GenerateRequest Make(int32_t index, int32_t user);

  // Passes `end` (the end of a request) to PromptSource::on_end. If the request succeeded, adds its
  // output to `cache_`, a model of the server's prefix cache.
  void OnEnd(const BenchEnd& end);

  // Sets BenchRecord::implied_tokens (the prompt tokens that a prefix cache without a size limit
  // would find) in all records. Record i belongs to request i. Returns false if the server did not
  // report its block size, or if `cache_` is full.
  bool FillImplied(std::span<BenchRecord> records) const;

 private:
  const PromptSource source_;
  const uint64_t seed_;
  const float temperature_;
  std::optional<ImpliedCache> cache_;
  std::vector<uint32_t> implied_tokens_;        // index: number of the request
  std::vector<std::vector<uint32_t>> prompts_;  // prompts of running requests; index: user
};

}  // namespace incipit
