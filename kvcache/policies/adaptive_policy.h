// The eviction policy `adaptive`: learns from past uses of blocks which blocks to keep.
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

// Estimates from past uses of blocks how soon each block will be used again. Evicts the block with
// the lowest expected number of hits per unit of time. If plain LRU would have had more hits than
// this policy, evicts in LRU order for a limited time. docs/eviction.md explains the algorithm.
class AdaptivePolicy final : public EvictionPolicy {
 public:
  // `first_touch` is the initial value of the clock that counts block uses.
  AdaptivePolicy(std::span<Block> blocks, int32_t capacity, int32_t block_size,
                 uint64_t first_touch = uint64_t{1} << 40);

  void OnTime(Time now) override { paced_clock_.PassUntil(now); }
  void Use(std::span<const BlockId> found, SequenceUse& use) override;
  void Add(BlockId id, BlockOrigin origin, SequenceUse& use) override;
  void Release(std::span<const BlockId> freed, const SequenceUse& use) override;
  BlockId Evict() override;
  void Remove(BlockId id) override;
  void OnChildless(BlockId id) override;
  void Clear() override;
  size_t num_bytes() const override;

 private:
  // State of a block in the lists of the policy. kElsewhere: the block is in no list. kListed: the
  // block is in a list. kParkedOldest, kParkedNewest: the block was the oldest or newest block of
  // its list, and was removed from the list because it must not be evicted yet.
  enum ListState : uint8_t { kElsewhere, kListed, kParkedOldest, kParkedNewest };
  struct Record {
    TouchClock::Stamp last_use = 0;
    uint8_t uses = 0;  // number of requests that used the block, at most 255; 0: unknown
    uint8_t born = 0;  // turn of the conversation (1, 2, ...) in which the block was computed
    // RunCodeOf(n), if n blocks were released together.
    uint8_t run_code = 0;
    uint8_t reuse_class : 5 = 0;
    uint8_t list_state : 3 = kElsewhere;

    bool IsUsedLike(const Record& other) const {
      return last_use == other.last_use && run_code == other.run_code &&
             reuse_class == other.reuse_class &&
             (list_state == kElsewhere) == (other.list_state == kElsewhere);
    }
    // Returns true if last_use, run_code, reuse_class and list_state are equal.
    bool IsListedLike(const Record& other) const {
      return IsEqual(other, {.last_use = ~0u, .run_code = 255, .reuse_class = 31, .list_state = 7});
    }
    bool IsCountedLike(const Record& other) const {
      return IsEqual(other, {.uses = 255, .born = 255});
    }
    // Returns true if the two records are equal in all bits that are 1 in `mask`.
    bool IsEqual(const Record& other, const Record& mask) const {
      const auto word = [](const Record& record) { return std::bit_cast<uint64_t>(record); };
      return ((word(*this) ^ word(other)) & word(mask)) == 0;
    }
  };
  static_assert(sizeof(Record) == 8);

  // One end of a list in `lists_`: the oldest or the newest block of the list.
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
  // One list of blocks for each class of blocks with similar past uses. The oldest block of each
  // list is in front.
  std::array<BlockList, kReuseClasses> lists_;
  // The end of a list (its oldest or its newest block) from which the previous call of Evict() took
  // a block. The next call uses the same end of the list if StillStands(choice_) is true.
  End choice_;
  // Number of block uses by which PassTime() will advance clock_ and paced_clock_.
  uint64_t touches_to_come_ = 0;
  // Mean number of blocks with similar past uses that a request releases together.
  double mean_run_ = 8;
  size_t next_restrained_ = 0;
};

}  // namespace incipit
