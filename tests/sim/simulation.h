// Simulates scheduler and cache over the fake model, without threads. A seed determines limits,
// requests, cancellations, deadlines, retention hints and failures. Each output is compared with
// the output of the fake model for that request alone.
#pragma once

#include <cstdint>
#include <string>

namespace incipit {

struct SimulationCounts {
  int64_t steps = 0, tokens = 0, requests = 0, refused = 0;
  int64_t preemptions = 0, cancels = 0, expired = 0, failed = 0, aborts = 0, forks = 0;
  int64_t hit_tokens = 0, copied_tokens = 0, evictions = 0, resets = 0;
  // Number of evicted blocks with a low priority; number of evicted blocks with an ended time to
  // live. Subsets of `evictions`.
  int64_t low_priority = 0, lives_over = 0;
  int64_t regret = 0, collisions = 0;
  // Steps planned while another step was in flight; tokens that were still pending when planned;
  // pending tokens that penalties had to count.
  int64_t ahead = 0, fed = 0, counted = 0;
  // Sequences that were left out of a step planned ahead, because choices start or the sequence
  // ends.
  int64_t sat_out = 0;

  SimulationCounts& operator+=(const SimulationCounts& other);
  std::string ToString() const;
};

// Runs one simulation. Returns the error found, or an empty string. A broken invariant aborts the
// process instead, after the seed is printed.
std::string Simulate(uint64_t seed, SimulationCounts& counts);

}  // namespace incipit
