#include "engine/arrival_pause.h"

#include <algorithm>

#include "base/check.h"

namespace incipit {

void ArrivalPause::Begin(int32_t num_ended, Duration decode_step, Time now) {
  INCIPIT_CHECK(num_ended > 0);
  if (is_used_) {
    const double share = std::min(1.0, static_cast<double>(num_arrived_) / num_ended_);
    share_ += kWeight * (share - share_);
  }
  const Duration length = std::min(longest_, FromSeconds(kStepShareMax * ToSeconds(decode_step)));
  num_skipped_ = is_used_ ? 1 : num_skipped_ + 1;
  is_used_ = length > Duration{} && (share_ >= kShareMin || num_skipped_ >= kTryEvery);
  end_ = now + length;
  num_ended_ = num_ended;
  num_arrived_ = 0;
}

bool ArrivalPause::IsWaiting(Time now) const {
  return is_used_ && num_arrived_ < num_ended_ && now < end_;
}

}  // namespace incipit
