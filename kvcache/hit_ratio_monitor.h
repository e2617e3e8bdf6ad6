// Measures the hit ratio of the prefix cache (the share of looked-up tokens that were found) in the
// last minute, the last ten minutes and the last hour.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace incipit {

struct HitCounts {
  int64_t query_tokens = 0;
  // Number of looked-up tokens (query_tokens) that were found in the prefix cache.
  int64_t hit_tokens = 0;

  // Returns the share of looked-up tokens that were found, or 0 if no tokens were looked up.
  double ratio() const {
    return query_tokens > 0 ? static_cast<double>(hit_tokens) / static_cast<double>(query_tokens)
                            : 0;
  }
};

// Hit ratios of the prefix cache in the last minute, the last ten minutes and the last hour.
struct HitRatios {
  double minute = 0, ten_minutes = 0, hour = 0;
  bool decayed = false;
};

// Counts tokens that were looked up and found in the prefix cache, in time windows of up to one
// hour. A window may be up to kResolution (5 s) longer than the caller requests. The monitor
// allocates no memory.
class HitRatioMonitor {
 public:
  static constexpr Duration kResolution = std::chrono::seconds(5);
  static constexpr Duration kMinute = std::chrono::minutes(1);
  static constexpr Duration kTenMinutes = std::chrono::minutes(10);
  static constexpr Duration kHour =
      std::chrono::hours(1);  // the longest time window that Within() accepts

  // HasDecayed() returns true if the hit ratio of the last ten minutes is below kDecayedShare times
  // the hit ratio of the last hour.
  static constexpr double kDecayedShare = 0.5;
  // If fewer tokens than this number were looked up in the last ten minutes, or in the 50 minutes
  // before these ten minutes, HasDecayed() returns false.
  static constexpr int64_t kDecayTokensMin = 10'000;

  void Add(Time now, const HitCounts& counts);

  // Returns the counts of the time window of length `window` that ends at `now`. REQUIRES: 0 <
  // `window` <= kHour.
  HitCounts Within(Duration window, Time now) const;
  bool HasDecayed(Time now) const;
  HitRatios Read(Time now) const;

 private:
  static constexpr size_t kNumSteps = static_cast<size_t>(kHour / kResolution) + 1;

  static int64_t StepOf(Time time) { return time.time_since_epoch() / kResolution; }
  const HitCounts& StartOf(int64_t step) const {
    return starts_[static_cast<size_t>(step) % kNumSteps];
  }

  // Ring buffer with one element for each interval of length kResolution. An element counts the
  // tokens that were looked up and found before the start of its interval.
  std::array<HitCounts, kNumSteps> starts_{};
  HitCounts totals_;
  // Number of the time interval (of length kResolution) in which Add() was last called; -1: never.
  int64_t last_step_ = -1;
};

}  // namespace incipit
