#include "kvcache/hit_ratio_monitor.h"

#include <algorithm>

#include "base/check.h"

namespace incipit {
namespace {

HitCounts Difference(const HitCounts& later, const HitCounts& earlier) {
  return {.query_tokens = later.query_tokens - earlier.query_tokens,
          .hit_tokens = later.hit_tokens - earlier.hit_tokens};
}

}  // namespace

void HitRatioMonitor::Add(Time now, const HitCounts& counts) {
  const int64_t step = std::max(StepOf(now), last_step_);
  const auto num_missing = std::min(step - last_step_, static_cast<int64_t>(kNumSteps));
  for (int64_t missing = step - num_missing + 1; missing <= step; ++missing) {
    starts_[static_cast<size_t>(missing) % kNumSteps] = totals_;
  }
  last_step_ = step;
  totals_.query_tokens += counts.query_tokens;
  totals_.hit_tokens += counts.hit_tokens;
}

HitCounts HitRatioMonitor::Within(Duration window, Time now) const {
  INCIPIT_CHECK(window > Duration::zero() && window <= kHour);
  const int64_t first_step = std::max(StepOf(now), last_step_) - window / kResolution;
  // Return zero counts if no counts were added within the time window.
  if (last_step_ < 0 || first_step > last_step_) return {};
  if (first_step < 0) return totals_;
  return Difference(totals_, StartOf(first_step));
}

bool HitRatioMonitor::HasDecayed(Time now) const {
  const HitCounts recent = Within(kTenMinutes, now);
  const HitCounts hour = Within(kHour, now);
  const HitCounts before = Difference(hour, recent);
  if (recent.query_tokens < kDecayTokensMin || before.query_tokens < kDecayTokensMin) return false;
  return recent.ratio() < kDecayedShare * hour.ratio();
}

HitRatios HitRatioMonitor::Read(Time now) const {
  return {.minute = Within(kMinute, now).ratio(),
          .ten_minutes = Within(kTenMinutes, now).ratio(),
          .hour = Within(kHour, now).ratio(),
          .decayed = HasDecayed(now)};
}

}  // namespace incipit
