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
#include "server/metrics/vllm_bounds.h"

namespace incipit {

inline constexpr size_t kNumFinishReasons = 6;  // number of enumerators of FinishReason

// Values of the label `reason` of the metric incipit_prefix_cache_evictions_total, in the order of
// the enumerators of EvictionReason.
inline constexpr std::string_view kEvictionReasonNames[kNumEvictionReasons] = {
    "capacity", "priority", "ttl", "reset"};

// Values of the label `reason` of the metric incipit_tenant_refusals_total: the reasons to refuse a
// request because of the load of the server. kTooLate: the engine had accepted the request.
enum class TenantRefusal : uint8_t { kQueueFull, kQueueTooLong, kTooLate };
inline constexpr size_t kNumTenantRefusals = 3;

using MetricsCounter = std::atomic<int64_t>;

// The counters and histograms of all metrics. The value of each counter, except
// `kv_event_subscribers`, never decreases.
struct MetricsValues {
  std::array<MetricsCounter, kNumFinishReasons> finished{};
  std::array<MetricsCounter, kNumRejectionLabels> rejected{};
  MetricsCounter queried_tokens{0}, hit_tokens{0}, copied_tokens{0};
  MetricsCounter requeried_tokens{0}, rehit_tokens{0};
  MetricsCounter stored_blocks{0}, regret_blocks{0}, collisions{0};
  std::array<MetricsCounter, kNumEvictionReasons> evictions{};
  MetricsHistogram eviction_age{kAgeBounds}, eviction_idle{kAgeBounds};
  std::array<MetricsCounter, kNumPreemptionReasons> preemptions{};
  MetricsCounter overtakes{0};
  std::array<MetricsCounter, kNumDeferralReasons> deferrals{};
  PerTenant<std::array<std::atomic<double>, kNumWaitReasons>> wait_seconds{};
  PerTenant<std::atomic<double>> tenant_services{};
  PerTenant<std::array<MetricsCounter, kNumTenantRefusals>> tenant_refusals{};
  MetricsCounter prompt_computed_tokens{0}, prompt_cached_tokens{0}, generated_tokens{0};
  MetricsCounter loaded_tokens{0};  // prompt tokens that were loaded from the disk cache
  // Times that a sequence waited for loads from the disk cache, and times, included in
  // `load_waits`, that at least one of these loads failed or took too long.
  MetricsCounter load_waits{0}, failed_load_waits{0};
  MetricsCounter step_prefill_tokens{0}, step_decode_tokens{0};
  std::atomic<double> plan_seconds{0}, run_seconds{0}, commit_seconds{0}, store_seconds{0};
  std::atomic<double> pause_seconds{0};
  std::array<MetricsCounter, kNumKvEventGaps> kv_event_gaps{};
  MetricsCounter kv_event_subscribers{0};  // present number of gateways that receive cache events
  // Each histogram from `first_token` to `decode` is published twice: as a metric of Incipit, and
  // with other buckets as a metric with a name of vLLM.
  MetricsHistogram first_token{kLatencyBounds, kVllmFirstTokenBounds};
  MetricsHistogram inter_token{kLatencyBounds, kVllmInterTokenBounds};
  MetricsHistogram total{kLatencyBounds, kVllmRequestBounds};
  MetricsHistogram queue{kLatencyBounds, kVllmRequestBounds};
  MetricsHistogram prefill{kLatencyBounds, kVllmRequestBounds};
  MetricsHistogram decode{kLatencyBounds, kVllmRequestBounds};
  MetricsHistogram step{kStepBounds};
  // The histograms from `step_tokens` to `request_output_tokens_max` are published only under the
  // name of a vLLM metric.
  MetricsHistogram step_tokens{kVllmStepTokenBounds};
  MetricsHistogram inference{kVllmRequestBounds};
  MetricsHistogram request_inter_token{kVllmInterTokenBounds};
  MetricsHistogram request_choices{kVllmChoiceBounds};
  MetricsHistogram request_prompt_tokens{kVllmTokenBounds};
  MetricsHistogram request_output_tokens{kVllmTokenBounds};
  MetricsHistogram longest_output_tokens{kVllmTokenBounds};
  MetricsHistogram request_output_tokens_max{kVllmTokenBounds};
};

}  // namespace incipit
