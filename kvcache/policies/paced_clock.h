// A clock that measures how long ago cached blocks were used. A long pause without block uses
// counts only in part.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "kvcache/policies/touch_clock.h"

namespace incipit {

// Measures the ages of cached blocks: the times since their last use. The unit of an age is the
// mean time between two block uses, which is measured once. Before this measurement, an age is the
// number of block uses since the last use.
//
// A pause without block uses, such as a night, increases ages gradually and only by a limited
// amount. docs/eviction.md explains the rules.
class PacedClock {
 public:
  explicit PacedClock(const TouchClock& touches) : touches_(touches) {}

  // Sets the present time to `now`. Does nothing if `now` is before the present time.
  void PassUntil(Time now);
  // Advances the clock when `num_touches` blocks are used. The caller must then call
  // TouchClock::Advance. REQUIRES: `num_touches` > 0.
  void Advance(uint64_t num_touches);

  // Returns the time since the start of the clock. The unit is the mean time between two block
  // uses.
  double now() const { return has_unit() ? seconds_ * touches_per_second_ : num_touches_; }
  int AgeClassOf(TouchClock::Stamp stamp) const {
    if (!has_unit()) return touches_.AgeClassOf(stamp);
    return AgeClass(SecondsSince(stamp) * touches_per_second_);
  }
  // Returns the index of the range of ages that contains `age`. The unit of `age` is the mean time
  // between two block uses.
  int AgeClass(double age) const {
    constexpr double kMost = 1e18;
    return touches_.AgeClass(static_cast<uint64_t>(std::clamp(age, 0.0, kMost)));
  }
  // Returns the age of a block that was last used `epochs_ago` epochs before the present epoch. An
  // epoch is a period with a fixed number of block uses. The unit of the age is the mean time
  // between two block uses. If `epochs_ago` is above kEpochs - 1, returns the age for kEpochs - 1.
  double AgeOfEpoch(uint64_t epochs_ago) const;

 private:
  // Number of epochs (periods with a fixed number of block uses) whose start times are stored.
  static constexpr size_t kEpochs = 1024;
  static constexpr double kUnitEpochs = 256, kWindowEpochs = 88, kPaceMin = 1.0 / 16;

  bool has_unit() const { return touches_per_second_ > 0; }
  double& BeginOf(uint64_t epoch) { return begins_[epoch % kEpochs]; }
  double BeginOf(uint64_t epoch) const { return begins_[epoch % kEpochs]; }
  double EndOf(uint64_t epoch) const {
    return epoch < touches_.epoch() ? BeginOf(epoch + 1) : seconds_;
  }
  double Passed(double num_touches);
  // Sets touches_per_second_, the mean number of block uses per second. `now` is the number of all
  // block uses so far.
  void SettleUnit(uint64_t now);
  // Computes the stored times again: each block use so far now counts as `pace` seconds. `now` is
  // the number of all block uses so far.
  void CountEvenly(double pace, uint64_t now);
  double SecondsSince(TouchClock::Stamp stamp) const;

  const TouchClock& touches_;
  double touches_per_second_ = 0;  // mean number of block uses per second; 0: not measured yet
  double num_touches_ = 0;         // number of block uses since the start of the clock
  // time since the start of the clock, in seconds; a long pause counts only in part
  double seconds_ = 0;
  double uncounted_ = 0;  // time that has passed but is not counted yet, in seconds
  // Total length of all pauses between block uses, and length of the longest pause, in seconds.
  double pauses_ = 0, longest_pause_ = 0;
  // Element e % kEpochs: value of seconds_ at the start of epoch e. An epoch is a period with a
  // fixed number of block uses.
  std::array<double, kEpochs> begins_{};
  bool has_time_ = false;
  Time latest_, counted_until_;
};

}  // namespace incipit
