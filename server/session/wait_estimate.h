// Estimates how long requests wait, from the rate at which requests have ended lately.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace incipit {

// Thread-safe, without a lock.
class WaitEstimate {
 public:
  // Reports that a request ended `interval` after the previous end, or after the server became
  // busy. Called by one thread.
  void OnFinish(Duration interval);

  // Returns the time that a request behind `num_waiting` others will wait; 0 before the first end.
  Duration ExpectedWait(int32_t num_waiting) const;

  // Returns the time after which a client should repeat a request that is refused now: between one
  // second and one minute.
  Duration RetryDelay(int32_t num_waiting) const;

 private:
  std::atomic<int64_t> interval_ns_{0};  // between two ends, smoothed
};

}  // namespace incipit
