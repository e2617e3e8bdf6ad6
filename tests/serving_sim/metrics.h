// Figures of a run of the simulation with time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tests/serving_sim/device_model.h"
#include "tests/serving_sim/load.h"
#include "tests/serving_sim/run.h"
#include "tests/serving_sim/service_log.h"

namespace incipit::serving_sim {

// Goodput counts the requests that meet two targets.
// - TTFT (time from arrival to the first output token) is at most kTtftFactor times the time that
//   the prompt takes on an idle device. For a request with a deadline, the first token must come by
//   the deadline instead.
// - ITL (time between two output tokens): the 99th percentile over the output of the request is at
//   most kItlFactor times the time of a step that only decodes (TokenGap::ratio).
inline constexpr double kTtftFactor = 5, kItlFactor = 2;
// Length of the intervals in which the service of two tenants is compared, in seconds.
inline constexpr int32_t kServiceWindow = 30;

struct Percentiles {
  double p50 = 0, p99 = 0;  // in seconds; 0: no value
};

// Returns the 50th and 99th percentile of `values` (nearest-rank method). Sorts `values`.
Percentiles PercentilesOf(std::vector<double>& values);

struct Metrics {
  // Percentiles over all requests.
  Percentiles ttft, itl;
  // Percentiles over the requests with SimRequest::is_focus.
  Percentiles focus_ttft, focus_itl;
  // Number of requests that meet both targets, divided by `makespan`.
  double goodput = 0;
  double met_ttft = 0;  // share of all requests that meet the target of TTFT, from 0 to 1
  double met_itl = 0;   // share of all requests that meet the target of ITL, from 0 to 1
  // Share of the requests with SimRequest::is_focus that meet both targets, from 0 to 1.
  double focus_met = 0;
  double throughput = 0;      // number of output tokens divided by `makespan`
  double makespan = 0;        // time at which the last request ended, in seconds
  double makespan_ratio = 0;  // `makespan` divided by Load::makespan_min
  int64_t refused = 0;        // requests that ended without an output token
  // Median of (time from the arrival to the refusal) / (time from the arrival to the deadline) of
  // the refused requests with a deadline. 0: each refusal came at the arrival.
  double refusal_time = 0;
  // Estimated share of the requests with deadlines that were refused, but would have been in time
  // (WronglyRefused).
  std::optional<double> wrongly_refused;
  int64_t late = 0;  // requests whose first token was later than their deadline
  int64_t cut = 0;   // requests that ended after some, but not all, of their output tokens
  int64_t preemptions = 0;
  ServiceDifference service;
  int64_t overtakes = 0;  // MaxOvertakes
  // Largest number of steps between the arrival and the first step of a request.
  int64_t wait_steps = 0;
  // Computed prompt tokens / Load::distinct_prompt_tokens - 1: the share of tokens that were
  // computed more often than necessary. Negative if parts of blocks were copied from the cache.
  double duplicate = 0;
  double step_tokens = 0;  // mean number of tokens in a step
};

// Counts, for each request, the later requests of the same tenant that started in an earlier step.
// Returns the largest count.
int64_t MaxOvertakes(const Load& load, const RunRecord& run);

Metrics Measure(const DeviceModel& device, const Load& load, const RunRecord& run);

}  // namespace incipit::serving_sim
