// How much of what was looked up lately was found, and whether that is falling. A ratio since the
// start says nothing about the last minutes of a server that has run for weeks.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace incipit {

struct HitCounts {
  int64_t query_tokens = 0;
  int64_t hit_tokens = 0;  // of them, found

  // 0 where nothing was looked up.
  double ratio() const {
    return query_tokens > 0 ? static_cast<double>(hit_tokens) / static_cast<double>(query_tokens)
                            : 0;
  }
};

// What HitRatioMonitor says of one moment.
struct HitRatios {
  double minute = 0, ten_minutes = 0, hour = 0;
  bool decayed = false;
};

// Counts in steps of kResolution and keeps the totals at the start of each. What lies in a window
// is the difference of two of them, so reading takes O(1) time, and so does adding but for the
// steps that have gone by since. A window reaches back by up to kResolution more than its name
// says. Time is the caller's; what comes with a time before the latest counts as of the latest.
// Allocates nothing.
class HitRatioMonitor {
 public:
  static constexpr Duration kResolution = std::chrono::seconds(5);
  static constexpr Duration kMinute = std::chrono::minutes(1);
  static constexpr Duration kTenMinutes = std::chrono::minutes(10);
  static constexpr Duration kHour = std::chrono::hours(1);  // the longest

  // The ratio has decayed when that of the last ten minutes is below kDecayedShare of that of the
  // last hour, with kDecayTokensMin tokens looked up in the ten minutes and as many before them.
  static constexpr double kDecayedShare = 0.5;
  static constexpr int64_t kDecayTokensMin = 10'000;

  void Add(Time now, const HitCounts& counts);

  // REQUIRES: 0 < window <= kHour.
  HitCounts Within(Duration window, Time now) const;
  bool HasDecayed(Time now) const;
  HitRatios Read(Time now) const;

 private:
  static constexpr size_t kNumSteps = static_cast<size_t>(kHour / kResolution) + 1;

  static int64_t StepOf(Time time) { return time.time_since_epoch() / kResolution; }
  const HitCounts& StartOf(int64_t step) const {
    return starts_[static_cast<size_t>(step) % kNumSteps];
  }

  std::array<HitCounts, kNumSteps> starts_{};  // the totals at the start of each step
  HitCounts totals_;
  int64_t last_step_ = -1;  // whose start is known; -1: nothing was counted
};

}  // namespace incipit
