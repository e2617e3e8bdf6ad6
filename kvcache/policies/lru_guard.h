// Compares the hits of the adaptive policy with the hits that plain LRU would have had.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kvcache/policies/touch_clock.h"

namespace incipit {

// Compares the hits of the adaptive policy with the hits that plain LRU would have had. If plain
// LRU is ahead by too many hits, the adaptive policy evicts in LRU order for a limited time. Plain
// LRU would hold the `capacity` blocks that were used last.
class LruGuard {
 public:
  LruGuard(const TouchClock& clock, int32_t capacity);

  // Counts `num_blocks` blocks that were last used at the time `stamp`. The blocks are cached, or
  // are evicted blocks that the policy remembers.
  void Enter(TouchClock::Stamp stamp, int32_t num_blocks) { Count(stamp, num_blocks); }
  // Undoes Enter() for `num_blocks` blocks that were last used at the time `stamp`.
  void Leave(TouchClock::Stamp stamp, int32_t num_blocks) { Count(stamp, -num_blocks); }
  // Returns whether a cache with plain LRU would hold a block whose last use was at the time
  // `stamp`.
  bool WouldHold(TouchClock::Stamp stamp) const { return clock_.EpochOf(stamp) >= held_from_; }

  // Counts the hits of one request: `lru` hits with plain LRU, and `own` hits with the adaptive
  // policy. Returns true if the adaptive policy must now evict in LRU order for a limited time.
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
  // In a relief period, the adaptive policy evicts in LRU order. The length of a relief period is
  // relief_factor_ * kRelief * capacity_ block uses.
  static constexpr double kRelief = 2;
  // Maximum of relief_factor_. relief_factor_ doubles if fewer than kSoonCapacities * capacity_
  // blocks were used since the previous relief period (a time in which blocks are evicted in LRU
  // order).
  static constexpr double kReliefFactorMax = 64, kSoonCapacities = 8;
  static constexpr double kMeanStep = 0.01;

  void Count(TouchClock::Stamp stamp, int32_t num_blocks);

  const TouchClock& clock_;
  int32_t capacity_;
  uint64_t epoch_;
  // Plain LRU would hold the blocks whose last use was in epoch number `held_from_` or later. An
  // epoch is a period with a fixed number of block uses.
  uint64_t held_from_ = 0;
  // Element e % kEpochs: number of blocks whose last use was in epoch number e. An epoch is a
  // period with a fixed number of block uses.
  std::vector<int32_t> last_used_;
  // number of known blocks (cached or remembered): the sum of the elements of last_used_
  int64_t num_known_ = 0;
  double mean_request_ = 16;  // mean number of blocks that a request releases
  // Number of hits by which plain LRU is ahead of the adaptive policy. Never negative.
  double debt_ = 0;
  double relief_factor_ = 1;
  std::optional<uint64_t> relief_until_;
};

}  // namespace incipit
