#include "server/session/wait_estimate.h"

#include <algorithm>

namespace incipit {
namespace {

constexpr Duration kRetryDelayMin = std::chrono::seconds(1);
constexpr Duration kRetryDelayMax = std::chrono::minutes(1);

}  // namespace

void WaitEstimate::OnFinish(Duration interval) {
  const int64_t ns = std::chrono::nanoseconds(interval).count();
  const int64_t smoothed = interval_ns_.load();
  interval_ns_.store(smoothed == 0 ? ns : smoothed + (ns - smoothed) / 8);
}

Duration WaitEstimate::ExpectedWait(int32_t num_waiting) const {
  return std::chrono::nanoseconds(interval_ns_.load()) * int64_t{num_waiting};
}

Duration WaitEstimate::RetryDelay(int32_t num_waiting) const {
  const Duration interval{std::chrono::nanoseconds(interval_ns_.load())};
  // The retry delay is the time in which about a quarter of the waiting requests will end.
  return std::clamp(interval * (1 + num_waiting / 4), kRetryDelayMin, kRetryDelayMax);
}

}  // namespace incipit
