#include "kvcache/policies/lru_guard.h"

#include <algorithm>
#include <utility>

namespace incipit {

LruGuard::LruGuard(const TouchClock& clock, int32_t capacity)
    : clock_(clock), capacity_(capacity), epoch_(clock.epoch()), last_used_(kEpochs) {}

void LruGuard::Count(TouchClock::Stamp stamp, int32_t num_blocks) {
  const uint64_t epoch = clock_.EpochOf(stamp);
  if (epoch + kEpochs <= epoch_) return;
  last_used_[epoch % kEpochs] += num_blocks;
  num_known_ += num_blocks;
}

void LruGuard::BeginEpoch() {
  for (; epoch_ < clock_.epoch(); ++epoch_) {
    num_known_ -= std::exchange(last_used_[(epoch_ + 1) % kEpochs], 0);
  }
  held_from_ = 0;
  if (num_known_ < capacity_) return;
  int64_t num_held = 0;
  uint64_t ago = 0;
  while (num_held < capacity_) num_held += last_used_[(epoch_ - ago++) % kEpochs];
  held_from_ = epoch_ - ago + 1;
}

bool LruGuard::Compare(int32_t lru, int32_t own) {
  if (TakesOver()) {
    debt_ = 0;
    return false;
  }
  debt_ = std::max(0.0, debt_ + lru - own);
  if (debt_ <= kDebtCapacities * capacity_ + kDebtRequests * mean_request_) return false;
  debt_ = 0;
  const bool soon = relief_until_ && static_cast<double>(clock_.now() - *relief_until_) <
                                         kSoonCapacities * capacity_;
  relief_factor_ = soon ? std::min(kReliefFactorMax, relief_factor_ * 2) : 1;
  relief_until_ = clock_.now() + static_cast<uint64_t>(relief_factor_ * kRelief * capacity_);
  return true;
}

}  // namespace incipit
