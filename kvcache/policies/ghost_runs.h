// What the adaptive policy remembers of blocks that it evicted: by runs, as blocks of a chain are
// evicted one after another.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/types.h"
#include "kvcache/policies/touch_clock.h"

namespace incipit {

// Blocks of one chain that were last used together, alike in class, and evicted from the last to
// the first without another in between.
struct GhostRun {
  TouchClock::Stamp last_use = 0;
  int32_t length = 0;  // 1 to kLengthMax; 0: none
  uint8_t uses = 0;    // of each
  uint8_t born = 0;    // the turn that they were new in
  uint8_t run_code = 0;
  bool is_second_family = false;

  static constexpr int32_t kLengthMax = 2047;
  friend bool operator==(const GhostRun&, const GhostRun&) = default;
};

// At most `num_runs` runs, a multiple of eight, of 8 bytes each: in sets of one cache line, of
// which the oldest goes when a new one needs its place. A run is found by the key of its first
// block, of which 17 bits are kept besides those that choose the set, so that one look in 16,000
// finds a run that is another's. Times are kept to an eighth of an epoch.
class GhostRuns {
 public:
  GhostRuns(int64_t num_runs, const TouchClock& clock);

  // A block with this key, whose parent is `parent`, is evicted; `ghost` tells of it alone. Returns
  // the run that was forgotten for it, if any.
  std::optional<GhostRun> Add(uint64_t key, BlockId id, BlockId parent, const GhostRun& ghost);
  // The run that begins with `key` leaves.
  std::optional<GhostRun> Take(uint64_t key);
  // What is evicted next does not continue the run.
  void EndRun() { open_parent_ = kNoBlock; }
  // Looks at a few runs, all of them once in kRounds calls, and forgets one that has become so old
  // that its time could be mistaken. To be called once an epoch until it returns nothing.
  std::optional<GhostRun> ForgetAncient();

  size_t num_bytes() const { return sets_.size() * sizeof(Set); }

 private:
  struct Entry {
    uint64_t tag : 17 = 0;
    uint64_t time : 14 = 0;  // of the last use, in ticks
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
  // A run is ancient long before its time wraps, and is looked at in between.
  static constexpr uint64_t kAncientTicks = kTimeMask / 2;
  static constexpr uint64_t kRounds = (kTimeMask / 4) >> kTicksPerEpochLog2;  // in epochs

  static uint64_t TagOf(uint64_t key) { return key & ((uint64_t{1} << 17) - 1); }
  Set& SetOf(uint64_t key, int choice) {
    const uint64_t bits = choice == 0 ? key >> 32 : key * 0x9E3779B97F4A7C15 >> 32;
    return sets_[bits * sets_.size() >> 32];
  }
  uint64_t AgeTicks(const Entry& entry) const { return (now_ticks() - entry.time) & kTimeMask; }
  // Blocks that were used once go this many times as early: there are many of them, and their one
  // use is little to know.
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
  // The run that may still grow, not in the table.
  GhostRun open_;
  uint64_t open_key_ = 0;
  BlockId open_parent_ = kNoBlock;
  size_t next_looked_at_ = 0, looked_at_until_ = 0;
};

}  // namespace incipit
