// Measures how long a request waits for each reason.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace incipit {

// The reason for which a request waits. kRoom: too few cache blocks were free when the scheduler
// last tried to admit the request. kPrefix: another request computes a prefix that both requests
// share. kLoad: keys and values of a prefix are loaded from a tier. kShare: too many sequences run,
// the step has no room, or other requests go first.
enum class WaitReason : uint8_t { kShare, kRoom, kPrefix, kLoad };
inline constexpr size_t kNumWaitReasons = 4;
using WaitTimes = std::array<Duration, kNumWaitReasons>;  // by WaitReason

inline Duration SumOf(const WaitTimes& times) {
  Duration sum{};
  for (const Duration time : times) sum += time;
  return sum;
}

// Measures how long a request waits for each WaitReason. A request waits for exactly one reason at
// a time. The first reason is kShare (other requests go first). If the reason changes between two
// plans, the change is recorded with the time of the earlier plan.
class WaitClock {
 public:
  WaitClock() = default;
  explicit WaitClock(Time arrival) : since_(arrival) {}

  // Ends the present wait at `now`, and begins a wait for `reason`. REQUIRES: `now` is not before
  // the arrival and the previous call of Enter.
  void Enter(WaitReason reason, Time now) {
    times_[static_cast<size_t>(reason_)] += now - since_;
    since_ = now;
    reason_ = reason;
  }
  // Returns the times of all waits that have ended. Their sum is the time from the arrival to the
  // latest call of Enter.
  const WaitTimes& times() const { return times_; }

 private:
  WaitTimes times_{};
  WaitReason reason_ = WaitReason::kShare;
  Time since_{};
};

}  // namespace incipit
