// The memory of the adaptive policy for evicted blocks. The memory stores series of blocks (runs),
// because the blocks of one sequence are usually evicted one after another.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/types.h"
#include "kvcache/policies/touch_clock.h"

namespace incipit {

// A series of evicted blocks that the policy remembers: consecutive blocks of one sequence, evicted
// one after another, from the last to the first. All blocks of the series have the same reuse class
// (ReuseClassOf) and the same last use.
struct GhostRun {
  TouchClock::Stamp last_use = 0;
  int32_t length = 0;  // number of blocks in the series, from 1 to kLengthMax; 0: no series
  uint8_t uses = 0;    // number of requests that used each block before the eviction
  uint8_t born = 0;    // turn of the conversation in which the blocks were computed
  uint8_t run_code = 0;
  bool is_second_family = false;

  static constexpr int32_t kLengthMax = 2047;
  friend bool operator==(const GhostRun&, const GhostRun&) = default;
};

// Remembers about `num_runs` series of evicted blocks (runs), with 8 bytes for each series. Each
// series is stored in one of two sets of eight series. If both sets are full, the oldest series is
// forgotten; series of blocks that were used once are forgotten at half of the age.
//
// Take finds a series by a part of the key of its first block, so fewer than one lookup in 8,000
// finds the series of another key.
class GhostRuns {
 public:
  GhostRuns(int64_t num_runs, const TouchClock& clock);

  // Remembers the eviction of block `id`, which has the key `key` and the parent `parent`. `ghost`
  // describes only this block. If an older series of evicted blocks is forgotten to free memory,
  // returns the older series.
  std::optional<GhostRun> Add(uint64_t key, BlockId id, BlockId parent, const GhostRun& ghost);
  // Removes the run (series of evicted blocks) whose first block has the key `key`, and returns the
  // run.
  std::optional<GhostRun> Take(uint64_t key);
  // Ends the current series of evicted blocks (run): the next evicted block begins a new series.
  void EndRun() { open_parent_ = kNoBlock; }
  // Examines some of the stored series of evicted blocks (all of them in kRounds calls). Forgets
  // and returns a series whose age is at least kAncientTicks. In each epoch, the caller must repeat
  // the call until no series is returned.
  std::optional<GhostRun> ForgetAncient();

  size_t num_bytes() const { return sets_.size() * sizeof(Set); }

 private:
  struct Entry {
    uint64_t tag : 17 = 0;
    // Time of the last use; the unit is an eighth of an epoch (a fixed number of block uses).
    uint64_t time : 14 = 0;
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
  // Age at which ForgetAncient forgets a series of evicted blocks, in eighths of an epoch. Half of
  // the range of stored times, so that no stored time overflows.
  static constexpr uint64_t kAncientTicks = kTimeMask / 2;
  // Number of epochs (an epoch is a fixed number of block uses) in which ForgetAncient examines
  // each series of evicted blocks once.
  static constexpr uint64_t kRounds = (kTimeMask / 4) >> kTicksPerEpochLog2;

  static uint64_t TagOf(uint64_t key) { return key & ((uint64_t{1} << 17) - 1); }
  Set& SetOf(uint64_t key, int choice) {
    const uint64_t bits = choice == 0 ? key >> 32 : key * 0x9E3779B97F4A7C15 >> 32;
    return sets_[bits * sets_.size() >> 32];
  }
  uint64_t AgeTicks(const Entry& entry) const { return (now_ticks() - entry.time) & kTimeMask; }
  // Factor for the age of evicted blocks that only one request used. These blocks are therefore
  // forgotten earlier than other blocks of the same age.
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
  // The current series of evicted blocks, which may still grow and is not in `sets_` yet.
  GhostRun open_;
  uint64_t open_key_ = 0;
  BlockId open_parent_ = kNoBlock;
  size_t next_looked_at_ = 0, looked_at_until_ = 0;
};

}  // namespace incipit
