// Measures the hit ratio of the prefix cache in the last minute, ten minutes and hour. Also checks
// whether the hit ratio of the last ten minutes is much lower than the ratio of the last hour.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace incipit {

struct HitCounts {
  int64_t query_tokens = 0;
  // Number of tokens, among query_tokens, that were found in the prefix cache.
  int64_t hit_tokens = 0;

  // Returns the share of looked-up tokens that were found, or 0 if no tokens were looked up.
  double ratio() const {
    return query_tokens > 0 ? static_cast<double>(hit_tokens) / static_cast<double>(query_tokens)
                            : 0;
  }
};

// The hit ratios of the prefix cache at one moment, as returned by HitRatioMonitor::Read.
struct HitRatios {
  double minute = 0, ten_minutes = 0, hour = 0;
  bool decayed = false;
};

// Counts looked-up tokens and found tokens in time windows. Only the total counts at the start of
// each interval of kResolution are stored, so a time window may be up to kResolution longer than
// requested.
//
// Read takes constant time. Add takes constant time, plus one store for each interval since the
// previous call. A time before the latest time is treated as the latest time. The monitor allocates
// no memory.
class HitRatioMonitor {
 public:
  static constexpr Duration kResolution = std::chrono::seconds(5);
  static constexpr Duration kMinute = std::chrono::minutes(1);
  static constexpr Duration kTenMinutes = std::chrono::minutes(10);
  static constexpr Duration kHour =
      std::chrono::hours(1);  // longest time window that Within accepts

  // The hit ratio has decayed if the ratio of the last ten minutes is below kDecayedShare times the
  // ratio of the last hour. The check needs at least kDecayTokensMin looked-up tokens in the last
  // ten minutes, and as many in the 50 minutes before these ten minutes.
  static constexpr double kDecayedShare = 0.5;
  static constexpr int64_t kDecayTokensMin = 10'000;

  void Add(Time now, const HitCounts& counts);

  // Returns the counts of the time span of length `window` that ends at `now`. REQUIRES: 0 <
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

  // Ring buffer of the values that totals_ had at the starts of the latest intervals. An interval
  // is kResolution long.
  std::array<HitCounts, kNumSteps> starts_{};
  HitCounts totals_;
  int64_t last_step_ = -1;  // number of the latest interval in `starts_`; -1: Add was never called
};

}  // namespace incipit
