// The memory of the adaptive policy for evicted blocks. The memory stores runs (series of blocks),
// because the blocks of a sequence are usually evicted one after another.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/types.h"
#include "kvcache/policies/touch_clock.h"

namespace incipit {

// A run of ghosts (evicted blocks that the policy remembers): consecutive blocks of one sequence
// with the same class and the same last use. The blocks were evicted from the last to the first,
// with no other eviction in between.
struct GhostRun {
  TouchClock::Stamp last_use = 0;
  int32_t length = 0;  // number of blocks in the run, from 1 to kLengthMax; 0: no run
  uint8_t uses = 0;    // number of requests that used each block
  uint8_t born = 0;    // turn of the conversation in which the blocks were new
  uint8_t run_code = 0;
  bool is_second_family = false;

  static constexpr int32_t kLengthMax = 2047;
  friend bool operator==(const GhostRun&, const GhostRun&) = default;
};

// Remembers at most `num_runs` runs of ghosts (series of evicted blocks), rounded up to a multiple
// of eight, with 8 bytes per run. A set of eight runs fills one cache line. If a new run needs a
// slot, the oldest run in two sets is forgotten. For this comparison, the age of blocks that were
// used once counts double.
//
// Take finds a run by the key of its first block. An entry stores 17 bits of the key, in addition
// to the bits that choose the set. Fewer than one lookup in 8,000 finds the entry of another key.
// Times are stored with a resolution of an eighth of an epoch (a fixed number of block uses).
class GhostRuns {
 public:
  GhostRuns(int64_t num_runs, const TouchClock& clock);

  // Remembers the eviction of block `id`, which has the key `key` and the parent `parent`. `ghost`
  // describes only this block. Returns the run (series of evicted blocks) that was forgotten to
  // make room, if any.
  std::optional<GhostRun> Add(uint64_t key, BlockId id, BlockId parent, const GhostRun& ghost);
  // Removes the run (series of evicted blocks) whose first block has the key `key`, and returns the
  // run.
  std::optional<GhostRun> Take(uint64_t key);
  // Ends the current run (series of evicted blocks), so that the next eviction starts a new run.
  void EndRun() { open_parent_ = kNoBlock; }
  // Examines a few runs (series of evicted blocks), so that kRounds calls examine all runs. Forgets
  // and returns a run with an age of at least kAncientTicks, before its stored time wraps. In each
  // epoch, the caller must repeat the call until no run is returned.
  std::optional<GhostRun> ForgetAncient();

  size_t num_bytes() const { return sets_.size() * sizeof(Set); }

 private:
  struct Entry {
    uint64_t tag : 17 = 0;
    uint64_t time : 14 = 0;  // time of the last use, in eighths of an epoch
    uint64_t length : 11 = 0;
    uint64_t uses : 8 = 0;
    uint64_t born : 8 = 0;
    uint64_t run_code : 5 = 0;
    uint64_t is_second_family : 1 = 0;
  };
  static_assert(sizeof(Entry) == sizeof(uint64_t));
  static constexpr size_t kWays = 8;
  struct alignas(64) Set {
    std::array<Entry, kWays> entries;
  };
  static constexpr int kTicksPerEpochLog2 = 3;
  static constexpr uint64_t kTimeMask = (uint64_t{1} << 14) - 1;
  // Age, in ticks of an eighth of an epoch, at which ForgetAncient forgets a run of evicted blocks.
  // The age is half of the range of stored times, so every run is examined before its time wraps.
  static constexpr uint64_t kAncientTicks = kTimeMask / 2;
  // Number of epochs in which ForgetAncient examines all runs (series of evicted blocks) once.
  static constexpr uint64_t kRounds = (kTimeMask / 4) >> kTicksPerEpochLog2;

  static uint64_t TagOf(uint64_t key) { return key & ((uint64_t{1} << 17) - 1); }
  Set& SetOf(uint64_t key, int choice) {
    const uint64_t bits = choice == 0 ? key >> 32 : key * 0x9E3779B97F4A7C15 >> 32;
    return sets_[bits * sets_.size() >> 32];
  }
  uint64_t AgeTicks(const Entry& entry) const { return (now_ticks() - entry.time) & kTimeMask; }
  // Factor for the age of evicted blocks that only one request used, so that these blocks are
  // forgotten earlier. Many blocks are used once, and a single use carries little information.
  static constexpr uint64_t kOnceUsedHaste = 2;
  uint64_t Worthlessness(const Entry& entry) const {
    return AgeTicks(entry) * (entry.uses == 1 ? kOnceUsedHaste : 1);
  }
  uint64_t now_ticks() const { return clock_.now() >> tick_shift_; }
  GhostRun Decoded(const Entry& entry) const;
  std::optional<GhostRun> Store();

  const TouchClock& clock_;
  int tick_shift_;
  std::vector<Set> sets_;
  // The series of evicted blocks that may still grow, which is not in `sets_` yet.
  GhostRun open_;
  uint64_t open_key_ = 0;
  BlockId open_parent_ = kNoBlock;
  size_t next_looked_at_ = 0, looked_at_until_ = 0;
};

}  // namespace incipit
