// Compares the adaptive policy with what the least recently used order would have hit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kvcache/policies/touch_clock.h"

namespace incipit {

// A cache of `capacity` blocks that evicts the least recently used holds the blocks used last, so
// the ages of all that are cached or remembered say which block it would have found: no shadow of
// its contents is needed. When that cache is ahead by kDebtCapacities of the capacity and
// kDebtRequests mean requests, the policy has been fooled, and the plain order takes over for
// kRelief capacities of touches; longer, if that comes again soon.
class LruGuard {
 public:
  LruGuard(const TouchClock& clock, int32_t capacity);

  // Blocks last used at `stamp` are cached or remembered, or no longer.
  void Enter(TouchClock::Stamp stamp, int32_t num_blocks) { Count(stamp, num_blocks); }
  void Leave(TouchClock::Stamp stamp, int32_t num_blocks) { Count(stamp, -num_blocks); }
  bool WouldHold(TouchClock::Stamp stamp) const { return clock_.EpochOf(stamp) >= held_from_; }

  // Of a request's blocks, the guard's order would have found `lru` and the policy found `own`.
  // True: the plain order takes over.
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
  // The next relief is twice as long, to this bound, if it comes within so many capacities of
  // touches after the end of the last one.
  static constexpr double kReliefFactorMax = 64, kSoonCapacities = 8;
  static constexpr double kMeanStep = 0.01;

  void Count(TouchClock::Stamp stamp, int32_t num_blocks);

  const TouchClock& clock_;
  int32_t capacity_;
  uint64_t epoch_;
  uint64_t held_from_ = 0;  // the epoch that the least recently used block it holds was used in
  std::vector<int32_t> last_used_;  // blocks by the epoch of their last use
  int64_t num_known_ = 0;           // of all these epochs
  double mean_request_ = 16;        // blocks
  double debt_ = 0;                 // hits
  double relief_factor_ = 1;
  std::optional<uint64_t> relief_until_;
};

}  // namespace incipit
