// The policy that learns from the workload what to keep.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "kvcache/policies/eviction_policy.h"
#include "kvcache/policies/ghost_runs.h"
#include "kvcache/policies/lru_guard.h"
#include "kvcache/policies/one_off_prefixes.h"
#include "kvcache/policies/paced_clock.h"
#include "kvcache/policies/reuse_class.h"
#include "kvcache/policies/reuse_statistics.h"
#include "kvcache/policies/touch_clock.h"

namespace incipit {

// Learns for each class of blocks (ReuseClassOf) how likely one of a given age is to be used again,
// and gives up the block that is worth least (ReuseStatistics). As a class has the blocks of one
// age together, only the ends of its list come into question: the oldest, and the newest. The
// latter, since where pauses between uses are longer than the cache can hold all blocks, it is
// better to keep some and give up the newest than to lose all shortly before their use.
//
// What was evicted is remembered by runs (GhostRuns), both to count its uses on and to learn from
// them. Where plain LRU turns out to be ahead, it takes over for a while (LruGuard). docs/
// eviction.md has the reasons and figures.
class AdaptivePolicy final : public EvictionPolicy {
 public:
  // `first_touch`: where the clock starts.
  AdaptivePolicy(std::span<Block> blocks, int32_t capacity, int32_t block_size,
                 uint64_t first_touch = uint64_t{1} << 40);

  void OnTime(Time now) override { paced_clock_.PassUntil(now); }
  void Use(std::span<const BlockId> found, SequenceUse& use) override;
  void Add(BlockId id, SequenceUse& use) override;
  void Release(std::span<const BlockId> freed, const SequenceUse& use) override;
  BlockId Evict() override;
  void Remove(BlockId id) override;
  void OnChildless(BlockId id) override;
  void Clear() override;
  size_t num_bytes() const override;

 private:
  // Where a block is. One that is needed is parked when it comes up at either end of its list.
  enum ListState : uint8_t { kElsewhere, kListed, kParkedOldest, kParkedNewest };
  struct Record {
    TouchClock::Stamp last_use = 0;
    uint8_t uses = 0;      // 0: nothing is known; counts stop at 255
    uint8_t born = 0;      // the turn that it was new in
    uint8_t run_code = 0;  // how many were used with it that have its class
    uint8_t reuse_class : 5 = 0;
    uint8_t list_state : 3 = kElsewhere;

    // Whether statistics cannot tell the two apart.
    bool IsUsedLike(const Record& other) const {
      return last_use == other.last_use && run_code == other.run_code &&
             reuse_class == other.reuse_class &&
             (list_state == kElsewhere) == (other.list_state == kElsewhere);
    }
    // And the two have the same state in the lists.
    bool IsListedLike(const Record& other) const {
      return IsEqual(other, {.last_use = ~0u, .run_code = 255, .reuse_class = 31, .list_state = 7});
    }
    bool IsCountedLike(const Record& other) const {
      return IsEqual(other, {.uses = 255, .born = 255});
    }
    // In the bits that are set in `mask`, all at once.
    bool IsEqual(const Record& other, const Record& mask) const {
      const auto word = [](const Record& record) { return std::bit_cast<uint64_t>(record); };
      return ((word(*this) ^ word(other)) & word(mask)) == 0;
    }
  };
  static_assert(sizeof(Record) == 8);

  // An end of a list, and the block that stands there.
  struct End {
    BlockId block = kNoBlock;
    int reuse_class = -1;
    bool newest = false;
    TouchClock::Stamp last_use = 0;
  };

  Record& RecordOf(BlockId id) { return records_[static_cast<size_t>(id)]; }
  BlockList& ListOf(const Record& record) { return lists_[record.reuse_class]; }

  void PassTime();
  size_t TakeUp(std::span<const BlockId> found, uint8_t& turn);
  size_t TakeUpNeighbours(std::span<const BlockId> found, uint8_t& turn);
  uint32_t PrefixIn(std::span<const BlockId> blocks, int turn) const;
  double MeanAgeOf(int age_class) const;
  void LeaveAtRisk(const Record& record, int32_t num_blocks);
  void Park(BlockId id, ListState list_state);
  void Enter(std::span<const BlockId> run, int reuse_class);
  bool MeetGhosts(BlockId id, SequenceUse& use);
  void ForgetGhosts(const GhostRun& run);
  void RestrainAncient();
  void Suffer(int32_t lru_hits, int32_t own_hits);
  BlockId EndOf(int reuse_class, bool newest);
  End LeastWorth();
  End LeastRecentlyUsed();
  bool StillStands(const End& end);

  std::span<Block> blocks_;
  TouchClock clock_;
  PacedClock paced_clock_;
  ReuseStatistics statistics_;
  LruGuard guard_;
  GhostRuns ghosts_;
  OneOffPrefixes one_off_prefixes_;
  std::vector<Record> records_;
  std::array<BlockList, kReuseClasses> lists_;  // the oldest in front
  End choice_;                    // the last one, as long as nothing has changed what led to it
  uint64_t touches_to_come_ = 0;  // of the last release: time passes when something else is used
  double mean_run_ = 8;           // blocks used together that have one class
  size_t next_restrained_ = 0;
};

}  // namespace incipit
