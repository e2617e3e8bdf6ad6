// A table of evicted blocks, for the adaptive eviction policy. Consecutive blocks of a sequence
// that are evicted one after another are stored as one group.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/types.h"
#include "kvcache/policies/touch_clock.h"

namespace incipit {

// A group of evicted blocks: consecutive blocks of one sequence that were evicted one after another
// and had the same past uses.
struct GhostRun {
  TouchClock::Stamp last_use = 0;
  int32_t length = 0;  // number of blocks in the group, from 1 to kLengthMax; 0: no group
  uint8_t uses = 0;    // number of requests that used each block before the eviction
  uint8_t born = 0;    // turn of the conversation (1, 2, ...) in which the blocks were computed
  uint8_t run_code = 0;
  bool is_second_family = false;

  static constexpr int32_t kLengthMax = 2047;
  friend bool operator==(const GhostRun&, const GhostRun&) = default;
};

// Remembers about `num_runs` groups of evicted blocks, with 8 bytes for each group. Forgets an old
// group if no slot is free. Finds a group by a hash of its first block. Fewer than one lookup in
// 8,000 finds a wrong group.
class GhostRuns {
 public:
  GhostRuns(int64_t num_runs, const TouchClock& clock);

  // Remembers the eviction of block `id`, whose properties are `ghost`. `parent` is the previous
  // block of the sequence. If the table has no room, overwrites an older group of evicted blocks
  // and returns this group.
  std::optional<GhostRun> Add(uint64_t key, BlockId id, BlockId parent, const GhostRun& ghost);
  // Removes and returns the group of evicted blocks whose first block has the key `key`, if any.
  std::optional<GhostRun> Take(uint64_t key);
  // Makes the next evicted block the first block of a new group.
  void EndRun() { open_parent_ = kNoBlock; }
  // Forgets and returns one group of evicted blocks whose last use was at least kAncientTicks ago.
  // In each epoch (clock_.epoch_touches() block uses), the caller must call ForgetAncient
  // repeatedly until the result is std::nullopt. The calls of one epoch examine only a part of the
  // table.
  std::optional<GhostRun> ForgetAncient();

  size_t num_bytes() const { return sets_.size() * sizeof(Set); }

 private:
  struct Entry {
    uint64_t tag : 17 = 0;
    // Value of clock_, which counts the uses of all blocks, at the last use of these blocks. One
    // unit is clock_.epoch_touches() / 8 uses.
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
  // A group of evicted blocks is forgotten after this time without a use, in the unit of
  // Entry::time. Entry::time wraps after 2^14 units, so the limit is only half of this number.
  static constexpr uint64_t kAncientTicks = kTimeMask / 2;
  // ForgetAncient examines all groups of evicted blocks once in this number of epochs. An epoch is
  // a period of clock_.epoch_touches() block uses.
  static constexpr uint64_t kRounds = (kTimeMask / 4) >> kTicksPerEpochLog2;

  static uint64_t TagOf(uint64_t key) { return key & ((uint64_t{1} << 17) - 1); }
  Set& SetOf(uint64_t key, int choice) {
    const uint64_t bits = choice == 0 ? key >> 32 : key * 0x9E3779B97F4A7C15 >> 32;
    return sets_[bits * sets_.size() >> 32];
  }
  uint64_t AgeTicks(const Entry& entry) const { return (now_ticks() - entry.time) & kTimeMask; }
  // If only one request used the blocks of a group, the time since their last use is multiplied by
  // this factor. Such a group is therefore forgotten earlier than other groups.
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
  // The latest group of evicted blocks, to which the next evicted block may be added. Not in
  // `sets_` yet.
  GhostRun open_;
  uint64_t open_key_ = 0;
  BlockId open_parent_ = kNoBlock;
  size_t next_looked_at_ = 0, looked_at_until_ = 0;
};

}  // namespace incipit
