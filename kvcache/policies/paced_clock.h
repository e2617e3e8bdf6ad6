// The ages of blocks by the time that the caller's clock tells.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "kvcache/policies/touch_clock.h"

namespace incipit {

// How long ago a stamp was, in time, and stated in touches: as many as had taken that long on
// average when the unit was settled, which is once, kUnitEpochs after the start. So the age classes
// of TouchClock hold for these ages too. Until then, and where nobody tells the time, ages are the
// touches themselves.
//
// Within an epoch, time is taken to pass evenly with touches. A pause is spread over the touches of
// the next kWindowEpochs or so, and counts no more than so many took on average or is still to be
// counted, so that a night does not make all blocks old, but touches that stay rare do make time
// pass. Nor does time ever pass at less than kPaceMin of the mean. What is still to be counted when
// the unit is settled is not in it: a touch of an even run then is an age of up to one and a half.
// Nor is a pause as long as all others together, such as the night after a server was tried: all
// until then counts as if it had passed evenly without.
class PacedClock {
 public:
  explicit PacedClock(const TouchClock& touches) : touches_(touches) {}

  // It is `now`; what is earlier than said before counts as that.
  void PassUntil(Time now);
  // Before the touches advance by `num_touches`, which is more than none.
  void Advance(uint64_t num_touches);

  // Since the start, in touches.
  double now() const { return has_unit() ? seconds_ * touches_per_second_ : num_touches_; }
  int AgeClassOf(TouchClock::Stamp stamp) const {
    if (!has_unit()) return touches_.AgeClassOf(stamp);
    return AgeClass(SecondsSince(stamp) * touches_per_second_);
  }
  // Of an age in touches.
  int AgeClass(double age) const {
    constexpr double kMost = 1e18;  // far in the last class, and a uint64_t
    return touches_.AgeClass(static_cast<uint64_t>(std::clamp(age, 0.0, kMost)));
  }
  // Of the middle of the epoch that was so many epochs ago, in touches; the same for all that were
  // kEpochs ago or more.
  double AgeOfEpoch(uint64_t epochs_ago) const;

 private:
  static constexpr size_t kEpochs = 1024;  // whose begin is remembered
  static constexpr double kUnitEpochs = 256, kWindowEpochs = 88, kPaceMin = 1.0 / 16;

  bool has_unit() const { return touches_per_second_ > 0; }
  double& BeginOf(uint64_t epoch) { return begins_[epoch % kEpochs]; }
  double BeginOf(uint64_t epoch) const { return begins_[epoch % kEpochs]; }
  double EndOf(uint64_t epoch) const {
    return epoch < touches_.epoch() ? BeginOf(epoch + 1) : seconds_;
  }
  double Passed(double num_touches);
  // With `now` touches made, all of which have been counted.
  void SettleUnit(uint64_t now);
  // As if each touch until now had taken `pace` seconds.
  void CountEvenly(double pace, uint64_t now);
  double SecondsSince(TouchClock::Stamp stamp) const;

  const TouchClock& touches_;
  double touches_per_second_ = 0;          // 0: no unit yet
  double num_touches_ = 0;                 // from the start
  double seconds_ = 0;                     // that have been counted
  double uncounted_ = 0;                   // seconds that touches to come will count
  double pauses_ = 0, longest_pause_ = 0;  // seconds
  std::array<double, kEpochs> begins_{};   // of epochs, in seconds that have been counted
  bool has_time_ = false;
  Time latest_, counted_until_;
};

}  // namespace incipit
