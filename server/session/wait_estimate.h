// Estimates how long requests will wait in the queue. The estimate uses the rate at which earlier
// requests ended.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace incipit {

// Estimates how long requests wait in the queue. Thread-safe; no function takes a lock.
class WaitEstimate {
 public:
  // Adds the end of a request to the estimate. `interval` is the time since the end of the previous
  // request, without the time in which the server was idle. Only one thread may call OnFinish.
  void OnFinish(Duration interval);

  // Returns the time that a new request will probably wait if `num_waiting` requests are in the
  // queue. Returns 0 before the first call of OnFinish.
  Duration ExpectedWait(int32_t num_waiting) const;

  // Returns the time after which a client should send a refused request again. The time is from one
  // second to one minute. `num_waiting` is the number of requests in the queue.
  Duration RetryDelay(int32_t num_waiting) const;

 private:
  // Smoothed time in nanoseconds between the ends of consecutive requests.
  std::atomic<int64_t> interval_ns_{0};
};

}  // namespace incipit
