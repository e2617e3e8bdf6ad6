// Estimates how long requests wait, from the rate at which requests have ended lately.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace incipit {

// Estimates waiting times. Thread-safe; no function takes a lock.
class WaitEstimate {
 public:
  // Reports that a request ended `interval` after the previous end, or after the server became
  // busy. Only one thread may call OnFinish.
  void OnFinish(Duration interval);

  // Returns the expected waiting time of a request behind `num_waiting` other requests. Returns 0
  // before the first call of OnFinish.
  Duration ExpectedWait(int32_t num_waiting) const;

  // Returns the delay after which a client should repeat a request that is refused now. The delay
  // is between one second and one minute.
  Duration RetryDelay(int32_t num_waiting) const;

 private:
  std::atomic<int64_t> interval_ns_{0};  // smoothed time between the ends of two requests
};

}  // namespace incipit
