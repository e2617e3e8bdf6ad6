#include "kvcache/policies/paced_clock.h"

#include <algorithm>
#include <cmath>

namespace incipit {

void PacedClock::PassUntil(Time now) {
  if (!has_time_) latest_ = counted_until_ = now;
  has_time_ = true;
  latest_ = std::max(latest_, now);
}

void PacedClock::Advance(uint64_t num_touches) {
  const auto touches = static_cast<double>(num_touches);
  const double passed = Passed(touches);
  const uint64_t length = touches_.epoch_touches(), now = touches_.now();
  const uint64_t last = (now + num_touches) / length;
  uint64_t epoch = touches_.epoch() + 1;
  if (last >= kEpochs) epoch = std::max(epoch, last - kEpochs + 1);
  for (; epoch <= last; ++epoch) {
    BeginOf(epoch) = seconds_ + passed * static_cast<double>(epoch * length - now) / touches;
  }
  seconds_ += passed;
  num_touches_ += touches;
  const bool is_time = num_touches_ > kUnitEpochs * static_cast<double>(length);
  if (is_time && !has_unit()) SettleUnit(now + num_touches);
}

void PacedClock::SettleUnit(uint64_t now) {
  const double others = pauses_ - longest_pause_;
  if (others <= 0) return;
  if (longest_pause_ > others) CountEvenly(others / num_touches_, now);
  touches_per_second_ = num_touches_ / seconds_;
}

void PacedClock::CountEvenly(double pace, uint64_t now) {
  seconds_ = num_touches_ * pace;
  const uint64_t length = touches_.epoch_touches(), last = now / length;
  for (uint64_t ago = 0; ago < std::min<uint64_t>(last + 1, kEpochs); ++ago) {
    const auto touches_since = static_cast<double>(now - (last - ago) * length);
    BeginOf(last - ago) = std::max(seconds_ - touches_since * pace, 0.0);
  }
  uncounted_ = std::min(uncounted_, kWindowEpochs * static_cast<double>(length) * pace);
}

// Returns the number of seconds by which the clock advances when `num_touches` blocks are used.
double PacedClock::Passed(double num_touches) {
  const double pause = ToSeconds(latest_ - counted_until_);
  counted_until_ = latest_;
  const double window = kWindowEpochs * touches_.epoch_touches();
  const double pace = num_touches_ > 0 ? seconds_ / num_touches_ : 0;
  const bool is_paced = num_touches_ > window;
  const double counts = is_paced ? std::min(pause, std::max(uncounted_, window * pace)) : pause;
  uncounted_ += counts;
  pauses_ += counts;
  longest_pause_ = std::max(longest_pause_, counts);
  const double passed = -std::expm1(-num_touches / window) * uncounted_;
  uncounted_ -= passed;
  return std::max(passed, kPaceMin * num_touches * pace);
}

double PacedClock::SecondsSince(TouchClock::Stamp stamp) const {
  const uint64_t touch = touches_.now() - touches_.AgeOf(stamp), epoch = touches_.EpochOf(stamp);
  if (epoch + kEpochs <= touches_.epoch()) return seconds_ - BeginOf(touches_.epoch() + 1);
  const uint64_t begin = epoch * touches_.epoch_touches();
  const uint64_t length = std::min<uint64_t>(touches_.now() - begin, touches_.epoch_touches());
  if (length == 0) return 0;
  const auto left = static_cast<double>(begin + length - touch);
  const double end = EndOf(epoch);
  return seconds_ - end + (end - BeginOf(epoch)) * left / static_cast<double>(length);
}

double PacedClock::AgeOfEpoch(uint64_t epochs_ago) const {
  const uint64_t epoch = touches_.epoch() - std::min<uint64_t>(epochs_ago, kEpochs - 1);
  if (has_unit()) return (seconds_ - (BeginOf(epoch) + EndOf(epoch)) / 2) * touches_per_second_;
  const auto length = static_cast<double>(touches_.epoch_touches());
  const double passed = static_cast<double>(touches_.now() - epoch * touches_.epoch_touches());
  return epochs_ago == 0 ? passed / 2 : passed - length / 2;
}

}  // namespace incipit
