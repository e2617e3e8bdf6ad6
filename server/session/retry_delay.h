// The time after which a client should send a refused request again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace incipit {

// Smallest and largest retry delay of a request that is refused because of the load.
inline constexpr Duration kRetryDelayMin = std::chrono::seconds(1);
inline constexpr Duration kRetryDelayMax = std::chrono::minutes(1);
// The retry delay is the expected wait divided by kRetryParts, so that refused requests return
// before the queue is empty.
inline constexpr int32_t kRetryParts = 4;

// Returns the retry delay of a refused request. `expected_wait` is Engine::expected_wait: the
// predicted time to the first token of a new request. Returns kRetryDelayMin if the time is not
// known.
inline Duration RetryDelayFor(std::optional<Duration> expected_wait) {
  const Duration part = expected_wait.value_or(Duration::zero()) / kRetryParts;
  return std::clamp(part, kRetryDelayMin, kRetryDelayMax);
}

}  // namespace incipit
