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
  // Numbers of evicted blocks, included in `evictions`. low_priority: blocks with a retention hint
  // of low priority. lives_over: blocks whose time to live had ended.
  int64_t low_priority = 0, lives_over = 0;
  int64_t regret = 0, collisions = 0;
  // ahead: steps that were planned while another step was in flight. fed: tokens that were planned
  // before they were sampled. counted: tokens in `fed` whose request has penalties.
  int64_t ahead = 0, fed = 0, counted = 0;
  // Number of times that a step was planned without a sequence because of the step in flight: its
  // commit would end the sequence or start its other choices.
  int64_t sat_out = 0;
  // stored_chunks: chunks that were copied to the tier. loads: chunks that the tier began to load.
  // loaded_tokens: prompt tokens that were loaded instead of computed. failed_loads: admissions of
  // which a load failed or took too long. load_parts: parts of steps that write loaded chunks and
  // compute no token, because staging could not hold all chunks.
  int64_t stored_chunks = 0, loads = 0, loaded_tokens = 0, failed_loads = 0, load_parts = 0;

  SimulationCounts& operator+=(const SimulationCounts& other);
  std::string ToString() const;
};

// Runs one simulation. Returns the error found, or an empty string. A broken invariant aborts the
// process instead, after the seed is printed.
std::string Simulate(uint64_t seed, SimulationCounts& counts);

}  // namespace incipit
