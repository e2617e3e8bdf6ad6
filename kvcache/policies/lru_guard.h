// Compares the hits of the adaptive policy with the hits that plain LRU would have had.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kvcache/policies/touch_clock.h"

namespace incipit {

// Compares the hits of the adaptive policy with the hits that plain LRU would have had. Plain LRU
// would hold the `capacity` blocks that were used last. The guard counts the cached blocks and the
// remembered evicted blocks by their last use, to know which blocks plain LRU would hold.
//
// If plain LRU is ahead by too many hits (kDebtCapacities, kDebtRequests), the adaptive policy
// evicts in LRU order for some time, called a relief. A relief lasts for kRelief * capacity block
// uses, and longer if the previous relief ended recently.
class LruGuard {
 public:
  LruGuard(const TouchClock& clock, int32_t capacity);

  // Adds `num_blocks` blocks that were last used at `stamp` to the counts of cached and remembered
  // evicted blocks.
  void Enter(TouchClock::Stamp stamp, int32_t num_blocks) { Count(stamp, num_blocks); }
  // Removes `num_blocks` blocks that were last used at `stamp` from the counts of cached and
  // remembered evicted blocks.
  void Leave(TouchClock::Stamp stamp, int32_t num_blocks) { Count(stamp, -num_blocks); }
  // Returns whether a cache with plain LRU would hold a block that was last used at `stamp`.
  bool WouldHold(TouchClock::Stamp stamp) const { return clock_.EpochOf(stamp) >= held_from_; }

  // Counts the hits for one request: plain LRU would have found `lru` blocks, and the adaptive
  // policy found `own` blocks. Returns true if plain LRU is now so far ahead that the adaptive
  // policy must evict in LRU order for some time.
  bool Compare(int32_t lru, int32_t own);
  bool TakesOver() const { return relief_until_ && clock_.now() < *relief_until_; }
  void CountRequest(double num_blocks) {
    mean_request_ += kMeanStep * (num_blocks - mean_request_);
  }

  void BeginEpoch();
  size_t num_bytes() const { return sizeof(*this) + last_used_.size() * sizeof(int32_t); }

 private:
  static constexpr size_t kEpochs = 1024;
  static constexpr double kDebtCapacities = 0.25, kDebtRequests = 6;
  static constexpr double kRelief = 2;
  // A relief (a period of eviction in LRU order) is twice as long as the previous relief if it
  // begins less than kSoonCapacities * capacity block uses after the end of the previous relief.
  // The longest relief is kReliefFactorMax times as long as the first relief.
  static constexpr double kReliefFactorMax = 64, kSoonCapacities = 8;
  static constexpr double kMeanStep = 0.01;

  void Count(TouchClock::Stamp stamp, int32_t num_blocks);

  const TouchClock& clock_;
  int32_t capacity_;
  uint64_t epoch_;
  // The first epoch (a period with a fixed number of block uses) of those blocks that plain LRU
  // would hold: all blocks whose last use was in epoch `held_from_` or later.
  uint64_t held_from_ = 0;
  // Element e % kEpochs: number of blocks whose last use was in epoch e (a period with a fixed
  // number of block uses).
  std::vector<int32_t> last_used_;
  int64_t num_known_ = 0;     // sum of the numbers in last_used_
  double mean_request_ = 16;  // mean number of blocks that a request releases
  // Number of hits by which plain LRU is ahead of the adaptive policy, at least 0.
  double debt_ = 0;
  double relief_factor_ = 1;
  std::optional<uint64_t> relief_until_;
};

}  // namespace incipit
