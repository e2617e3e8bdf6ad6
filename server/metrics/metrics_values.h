// The counters and histograms from which the server computes its metrics.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "engine/engine.h"
#include "server/metrics/metrics.h"
#include "server/metrics/metrics_histogram.h"

namespace incipit {

inline constexpr size_t kNumFinishReasons = 5;  // number of enumerators of FinishReason

// Values of the label `reason` of the metric incipit_prefix_cache_evictions_total, in the order of
// the enumerators of EvictionReason.
inline constexpr std::string_view kEvictionReasonNames[kNumEvictionReasons] = {
    "capacity", "priority", "ttl", "reset"};

using MetricsCounter = std::atomic<int64_t>;

// The counters and histograms of all metrics. The value of a counter never decreases.
struct MetricsValues {
  std::array<MetricsCounter, kNumFinishReasons> finished{};
  std::array<MetricsCounter, kNumRejectionLabels> rejected{};
  MetricsCounter queried_tokens{0}, hit_tokens{0}, copied_tokens{0};
  MetricsCounter requeried_tokens{0}, rehit_tokens{0};
  MetricsCounter stored_blocks{0}, regret_blocks{0}, collisions{0}, preemptions{0};
  std::array<MetricsCounter, kNumEvictionReasons> evictions{};
  MetricsHistogram eviction_age{kAgeBounds}, eviction_idle{kAgeBounds};
  MetricsCounter prompt_computed_tokens{0}, prompt_cached_tokens{0}, generated_tokens{0};
  MetricsCounter step_prefill_tokens{0}, step_decode_tokens{0};
  std::atomic<double> plan_seconds{0}, run_seconds{0}, commit_seconds{0};
  MetricsHistogram first_token{kLatencyBounds}, inter_token{kLatencyBounds};
  MetricsHistogram total{kLatencyBounds}, queue{kLatencyBounds};
  MetricsHistogram prefill{kLatencyBounds}, decode{kLatencyBounds};
  MetricsHistogram step{kStepBounds};
};

}  // namespace incipit
