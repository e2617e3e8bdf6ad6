// A clock that measures the ages of cached blocks in time instead of block uses.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "kvcache/policies/touch_clock.h"

namespace incipit {

// Measures how long ago a stamp of TouchClock (a number of block uses) was, in time. Ages are
// stated in touches (uses of single blocks): the number of touches that take the same time on
// average. The mean time per touch is measured once, kUnitEpochs epochs after the start. The age
// classes of TouchClock therefore also hold for these ages. Before the measurement, or if the
// caller passes no time, an age is the number of touches since the stamp.
//
// Within an epoch, time is assumed to pass evenly with touches. A pause is spread over the touches
// of about the next kWindowEpochs epochs. The counted length of a pause is at most the mean
// duration of these touches. If earlier pauses left more time to be counted, the counted length is
// at most that remaining time. One idle night therefore does not make all blocks old. If touches
// stay rare, time does pass. The counted time per touch is at least kPaceMin of the mean.
//
// The measurement of the mean leaves out the time that is still to be counted. One touch of an even
// workload then has an age of up to 1.5. One pause before the measurement may be longer than all
// other pauses together, such as the night after a test of the server. The measurement leaves out
// this pause.
class PacedClock {
 public:
  explicit PacedClock(const TouchClock& touches) : touches_(touches) {}

  // Advances the time to `now`. If `now` is before the latest time, the call has no effect.
  void PassUntil(Time now);
  // Advances the clock by the time of the next `num_touches` block uses. The caller must call
  // PacedClock::Advance before TouchClock::Advance. REQUIRES: `num_touches` > 0.
  void Advance(uint64_t num_touches);

  // Returns the time since the start of the clock, in mean times per block use (touches).
  double now() const { return has_unit() ? seconds_ * touches_per_second_ : num_touches_; }
  int AgeClassOf(TouchClock::Stamp stamp) const {
    if (!has_unit()) return touches_.AgeClassOf(stamp);
    return AgeClass(SecondsSince(stamp) * touches_per_second_);
  }
  // Returns the age class (range of ages) that contains `age`, in touches.
  int AgeClass(double age) const {
    constexpr double kMost = 1e18;  // an age in the last age class that fits a uint64_t
    return touches_.AgeClass(static_cast<uint64_t>(std::clamp(age, 0.0, kMost)));
  }
  // Returns the age, in touches, of the middle of the epoch that was `epochs_ago` epochs ago. All
  // values of `epochs_ago` from kEpochs - 1 on have the same result.
  double AgeOfEpoch(uint64_t epochs_ago) const;

 private:
  static constexpr size_t kEpochs = 1024;  // number of epochs whose begin is remembered
  static constexpr double kUnitEpochs = 256, kWindowEpochs = 88, kPaceMin = 1.0 / 16;

  bool has_unit() const { return touches_per_second_ > 0; }
  double& BeginOf(uint64_t epoch) { return begins_[epoch % kEpochs]; }
  double BeginOf(uint64_t epoch) const { return begins_[epoch % kEpochs]; }
  double EndOf(uint64_t epoch) const {
    return epoch < touches_.epoch() ? BeginOf(epoch + 1) : seconds_;
  }
  double Passed(double num_touches);
  // Sets touches_per_second_ (the mean rate of block uses) from the time counted until now. `now`
  // is the number of touches that the touch clock has counted.
  void SettleUnit(uint64_t now);
  // Sets the counted time as if each block use (touch) until `now` had taken `pace` seconds.
  void CountEvenly(double pace, uint64_t now);
  double SecondsSince(TouchClock::Stamp stamp) const;

  const TouchClock& touches_;
  double touches_per_second_ = 0;  // mean rate of block uses; 0: not measured yet
  double num_touches_ = 0;         // number of block uses since the start of the clock
  double seconds_ = 0;             // counted time since the start of the clock, in seconds
  double uncounted_ = 0;           // time that has passed but is not counted yet, in seconds
  // Sum of all pauses between block uses, and longest pause, in seconds.
  double pauses_ = 0, longest_pause_ = 0;
  std::array<double, kEpochs> begins_{};  // counted time at the begin of each epoch, in seconds
  bool has_time_ = false;
  Time latest_, counted_until_;
};

}  // namespace incipit
