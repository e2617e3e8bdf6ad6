// A whole system without threads, driven by a seed: random limits, traffic, cancels, deadlines,
// wishes and failures against scheduler, cache and the fake model, with every answer compared with
// what the model gives to that request alone.
#pragma once

#include <cstdint>
#include <string>

namespace incipit {

struct SimulationCounts {
  int64_t steps = 0, tokens = 0, requests = 0, refused = 0;
  int64_t preemptions = 0, cancels = 0, expired = 0, failed = 0, aborts = 0, forks = 0;
  int64_t hit_tokens = 0, copied_tokens = 0, evictions = 0, resets = 0;
  int64_t low_priority = 0, lives_over = 0;  // of the evictions
  int64_t regret = 0, collisions = 0;
  int64_t ahead = 0, fed = 0;  // steps planned while one was in flight; tokens not known then

  SimulationCounts& operator+=(const SimulationCounts& other);
  std::string ToString() const;
};

// What went wrong, or empty. A broken invariant aborts instead, after printing the seed.
std::string Simulate(uint64_t seed, SimulationCounts& counts);

}  // namespace incipit
