// Figures of the scheduler for the metrics of the server.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "scheduler/step_time_model.h"
#include "scheduler/tenant_shares.h"

namespace incipit {

// Why a running sequence was preempted:
// - kHead: an earlier sequence needs the blocks of the preempted sequence. The preempted sequence
//   was admitted while the earlier sequence did not fit into the cache.
// - kShare: another tenant gets its share of the running sequences.
// - kDecode: sequences that decode need blocks.
enum class PreemptionReason : uint8_t { kHead, kShare, kDecode };
inline constexpr size_t kNumPreemptionReasons = 3;

// Why a planned step does not start a waiting request:
// - kRoom: an earlier request, or the request itself, does not fit into the cache.
// - kSlots: running_max sequences run.
// - kTokens: the step has no room for further prompt tokens.
// - kPrefix: another request computes a prefix that both requests share.
// - kLoad: keys and values of a prefix are loaded from a tier.
// - kOrder: the rules about the order of requests allow no further start in this step.
enum class DeferralReason : uint8_t { kRoom, kSlots, kTokens, kPrefix, kLoad, kOrder };
inline constexpr size_t kNumDeferralReasons = 6;

// Counters, as changes since the previous call of Scheduler::TakeCounts.
struct SchedulerCounts {
  std::array<int64_t, kNumPreemptionReasons> preemptions{};  // by PreemptionReason
  // By DeferralReason: number of waiting sequences, summed over all planned steps.
  std::array<int64_t, kNumDeferralReasons> deferrals{};
  // Number of requests that ended with kTooLate, for each reported tenant.
  PerTenant<int64_t> too_late{};
  // Number of times that a sequence was admitted before an earlier sequence of the same tenant. An
  // admission before several earlier sequences counts once for each of them.
  int64_t overtakes = 0;
  int64_t loads = 0;         // number of times that a sequence began to wait for loads from a tier
  int64_t failed_loads = 0;  // number of these waits after which at least one load was not ready
  // Service of each reported tenant. The service of a tenant is the sum of the prices of its
  // tokens, divided by the weight of the tenant.
  ServiceTotals services{};

  int64_t num_preemptions() const {
    int64_t sum = 0;
    for (const int64_t count : preemptions) sum += count;
    return sum;
  }
};

// The present state of the scheduler.
struct SchedulerFigures {
  int32_t num_active_tenants = 0;  // tenants with waiting or running requests
  // Largest minus smallest service of the tenants with waiting requests. The service of a tenant is
  // the sum of the prices of its tokens, divided by the weight of the tenant. 0 if fewer than two
  // tenants have waiting requests.
  double service_gap = 0;
  // Median relative error of the predicted durations of steps, for each StepClass.
  std::array<double, kNumStepClasses> step_time_errors{};
};

}  // namespace incipit
