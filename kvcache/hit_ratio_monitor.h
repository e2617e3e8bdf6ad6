// Hit ratios of the prefix cache in the last minute, ten minutes and hour, and a check whether the
// hit ratio has decayed. A hit ratio since the start of the server does not show what happened in
// the last minutes.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace incipit {

struct HitCounts {
  int64_t query_tokens = 0;
  int64_t hit_tokens = 0;  // prompt tokens that were found in the prefix cache, among query_tokens

  // Returns the share of looked-up tokens that were found, or 0 if no tokens were looked up.
  double ratio() const {
    return query_tokens > 0 ? static_cast<double>(hit_tokens) / static_cast<double>(query_tokens)
                            : 0;
  }
};

// Hit ratios of the prefix cache at one moment, from HitRatioMonitor::Read.
struct HitRatios {
  double minute = 0, ten_minutes = 0, hour = 0;
  bool decayed = false;
};

// Counts looked-up tokens and found tokens in intervals of kResolution. The monitor keeps the
// running totals at the start of each interval, so the counts of a window are the difference of two
// totals. A call of Read costs O(1). A call of Add costs O(1), and one entry for each interval
// since the previous call. A window reaches back up to kResolution further than its length. The
// caller passes the time. Counts with a time before the latest time are added at the latest time.
// The monitor allocates no memory.
class HitRatioMonitor {
 public:
  static constexpr Duration kResolution = std::chrono::seconds(5);
  static constexpr Duration kMinute = std::chrono::minutes(1);
  static constexpr Duration kTenMinutes = std::chrono::minutes(10);
  static constexpr Duration kHour = std::chrono::hours(1);  // longest window that Within accepts

  // Bounds of the check whether the hit ratio has decayed. The hit ratio has decayed if the ratio
  // of the last ten minutes is below kDecayedShare times the ratio of the last hour. The check
  // needs at least kDecayTokensMin looked-up tokens in the last ten minutes, and as many in the
  // other 50 minutes of the hour.
  static constexpr double kDecayedShare = 0.5;
  static constexpr int64_t kDecayTokensMin = 10'000;

  void Add(Time now, const HitCounts& counts);

  // Returns the counts of the last `window`, which ends at `now`. REQUIRES: 0 < `window` <= kHour.
  HitCounts Within(Duration window, Time now) const;
  bool HasDecayed(Time now) const;
  HitRatios Read(Time now) const;

 private:
  static constexpr size_t kNumSteps = static_cast<size_t>(kHour / kResolution) + 1;

  static int64_t StepOf(Time time) { return time.time_since_epoch() / kResolution; }
  const HitCounts& StartOf(int64_t step) const {
    return starts_[static_cast<size_t>(step) % kNumSteps];
  }

  // ring: the value of totals_ at the start of each interval of kResolution.
  std::array<HitCounts, kNumSteps> starts_{};
  HitCounts totals_;
  int64_t last_step_ = -1;  // latest interval whose start is in `starts_`; -1: Add was never called
};

}  // namespace incipit
