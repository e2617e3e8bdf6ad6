// A clock that measures the ages of cached blocks in time instead of block uses.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "kvcache/policies/touch_clock.h"

namespace incipit {

// Measures the ages of blocks in time, not in block uses. The unit of an age is the mean time per
// block use (touch), so the age classes of TouchClock also apply to these ages. The mean is
// measured once, kUnitEpochs epochs after the start. Before this measurement, an age is a number of
// block uses.
//
// A pause without block uses is counted little by little, during the block uses of about the next
// kWindowEpochs epochs. The counted length of a pause is limited to about the mean duration of
// these block uses, so one idle night does not make all blocks old. The counted time per block use
// is at least kPaceMin of the mean.
//
// The mean leaves out a pause that is longer than all other pauses together, such as the night
// after a test of the server.
class PacedClock {
 public:
  explicit PacedClock(const TouchClock& touches) : touches_(touches) {}

  // Records that the present time is `now`. If `now` is before the latest time, the call has no
  // effect.
  void PassUntil(Time now);
  // Advances the clock by the time that the next `num_touches` block uses take. The caller must
  // call PacedClock::Advance before TouchClock::Advance. REQUIRES: `num_touches` > 0.
  void Advance(uint64_t num_touches);

  // Returns the time since the start of the clock, divided by the mean time per block use.
  double now() const { return has_unit() ? seconds_ * touches_per_second_ : num_touches_; }
  int AgeClassOf(TouchClock::Stamp stamp) const {
    if (!has_unit()) return touches_.AgeClassOf(stamp);
    return AgeClass(SecondsSince(stamp) * touches_per_second_);
  }
  // Returns the index of the age class (range of ages) that contains `age`. The unit of `age` is a
  // block use.
  int AgeClass(double age) const {
    constexpr double kMost = 1e18;  // greater ages are also in the last age class
    return touches_.AgeClass(static_cast<uint64_t>(std::clamp(age, 0.0, kMost)));
  }
  // Returns the age of a block that was last used in the middle of the epoch `epochs_ago` epochs
  // ago. The unit is a block use. If `epochs_ago` is above kEpochs - 1, the result is the same as
  // for kEpochs - 1.
  double AgeOfEpoch(uint64_t epochs_ago) const;

 private:
  static constexpr size_t kEpochs = 1024;  // number of epochs whose start times are stored
  static constexpr double kUnitEpochs = 256, kWindowEpochs = 88, kPaceMin = 1.0 / 16;

  bool has_unit() const { return touches_per_second_ > 0; }
  double& BeginOf(uint64_t epoch) { return begins_[epoch % kEpochs]; }
  double BeginOf(uint64_t epoch) const { return begins_[epoch % kEpochs]; }
  double EndOf(uint64_t epoch) const {
    return epoch < touches_.epoch() ? BeginOf(epoch + 1) : seconds_;
  }
  double Passed(double num_touches);
  // Sets touches_per_second_ (the mean number of block uses per second) from the time that the
  // clock has counted. `now` is the present value of the touch clock, a number of block uses.
  void SettleUnit(uint64_t now);
  // Sets the counted time to the time that would have passed with `pace` seconds for each block
  // use. `now` is the present value of the touch clock, a number of block uses.
  void CountEvenly(double pace, uint64_t now);
  double SecondsSince(TouchClock::Stamp stamp) const;

  const TouchClock& touches_;
  double touches_per_second_ = 0;  // mean number of block uses per second; 0: not measured yet
  double num_touches_ = 0;         // number of block uses since the start of the clock
  double seconds_ = 0;             // counted time since the start of the clock, in seconds
  double uncounted_ = 0;           // time that has passed but is not counted yet, in seconds
  // Total length of all pauses between block uses, and length of the longest pause, in seconds.
  double pauses_ = 0, longest_pause_ = 0;
  std::array<double, kEpochs> begins_{};  // counted time at the start of each epoch, in seconds
  bool has_time_ = false;
  Time latest_, counted_until_;
};

}  // namespace incipit
