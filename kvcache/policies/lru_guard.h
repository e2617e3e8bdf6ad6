// Compares the hits of the adaptive policy with the hits that plain LRU would have had.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kvcache/policies/touch_clock.h"

namespace incipit {

// Compares the hits of the adaptive policy with the hits of plain LRU. Plain LRU in a cache of
// `capacity` blocks holds the blocks that were used last. The ages of all cached and remembered
// blocks therefore show which blocks plain LRU would have found, without a simulation of LRU.
//
// The lead of LRU is the number of hits of plain LRU minus the number of hits of the adaptive
// policy, and at least 0. A relief begins if the lead exceeds a limit. The limit is kDebtCapacities
// times the capacity, plus the blocks of kDebtRequests mean requests. During a relief, the adaptive
// policy evicts in LRU order. A relief lasts for kRelief * capacity block uses (touches), and
// longer if the last relief ended recently.
class LruGuard {
 public:
  LruGuard(const TouchClock& clock, int32_t capacity);

  // Adds `num_blocks` blocks that were last used at `stamp` to the cached or remembered blocks.
  void Enter(TouchClock::Stamp stamp, int32_t num_blocks) { Count(stamp, num_blocks); }
  // Removes `num_blocks` blocks that were last used at `stamp` from the cached or remembered
  // blocks.
  void Leave(TouchClock::Stamp stamp, int32_t num_blocks) { Count(stamp, -num_blocks); }
  // Returns whether a cache with plain LRU would hold a block that was last used at `stamp`.
  bool WouldHold(TouchClock::Stamp stamp) const { return clock_.EpochOf(stamp) >= held_from_; }

  // Compares the hits for one request: plain LRU would have found `lru` blocks, and the adaptive
  // policy found `own` blocks. Returns true if a relief begins, a period in which the adaptive
  // policy evicts in LRU order.
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
  // A relief is a period of evictions in LRU order. The new relief is twice as long as the previous
  // relief if fewer than kSoonCapacities * capacity blocks were used since the previous relief
  // ended. The longest relief is kReliefFactorMax times as long as the first.
  static constexpr double kReliefFactorMax = 64, kSoonCapacities = 8;
  static constexpr double kMeanStep = 0.01;

  void Count(TouchClock::Stamp stamp, int32_t num_blocks);

  const TouchClock& clock_;
  int32_t capacity_;
  uint64_t epoch_;
  uint64_t held_from_ = 0;  // epoch of the last use of the oldest block that plain LRU would hold
  std::vector<int32_t> last_used_;  // number of blocks for each epoch of last use
  int64_t num_known_ = 0;           // sum of the numbers in last_used_
  double mean_request_ = 16;        // mean number of blocks that a request releases
  double debt_ = 0;  // hits of plain LRU minus hits of the adaptive policy, at least 0
  double relief_factor_ = 1;
  std::optional<uint64_t> relief_until_;
};

}  // namespace incipit
