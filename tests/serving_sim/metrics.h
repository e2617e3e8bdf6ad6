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

// Targets of the goodput, fixed before the runs.
//  - TTFT (time from arrival to the first output token): the deadline of the request or, without a
//    deadline, 5 times the time that a prompt of its length takes alone on the device.
//  - ITL (time between two output tokens): the 99th percentile of a request's gaps is at most 2
//    times a step that only decodes (TokenGap::ratio).
inline constexpr double kTtftFactor = 5, kItlFactor = 2;
// The service of tenants is compared in windows of this length, in seconds.
inline constexpr int32_t kServiceWindow = 30;

struct Percentiles {
  double p50 = 0, p99 = 0;  // in seconds; 0: no value
};

// Returns percentiles by the nearest rank. Changes the order of `values`.
Percentiles PercentilesOf(std::vector<double>& values);

struct Metrics {
  Percentiles ttft, itl;              // of all requests
  Percentiles focus_ttft, focus_itl;  // of the requests with SimRequest::is_focus
  double goodput = 0;         // requests per second that meet both targets, until the last one ends
  double met_ttft = 0;        // part of all requests that meets the target of TTFT
  double met_itl = 0;         // part of all requests that meets the target of ITL
  double focus_met = 0;       // part of the focus that meets both targets
  double throughput = 0;      // output tokens per second, until the last request ends
  double makespan = 0;        // time of the end of the last request, in seconds
  double makespan_ratio = 0;  // `makespan` divided by Load::makespan_min
  int64_t refused = 0;        // requests that ended without an output token
  // Estimate of the part of the requests with deadlines that were refused wrongly (WronglyRefused).
  std::optional<double> wrongly_refused;
  int64_t late = 0;  // requests whose first token was later than their deadline
  int64_t cut = 0;   // requests that ended before their last token
  int64_t preemptions = 0;
  ServiceDifference service;
  int64_t overtakes = 0;   // MaxOvertakes
  int64_t wait_steps = 0;  // most steps between the arrival and the first step of a request
  // Prompt tokens that were computed in total, divided by the distinct ones, minus 1. Negative if
  // parts of blocks were copied from the cache.
  double duplicate = 0;
  double step_tokens = 0;  // mean number of tokens in a step
};

// Returns the most requests of one tenant that arrived later than a request of this tenant and had
// an earlier first step.
int64_t MaxOvertakes(const Load& load, const RunRecord& run);

Metrics Measure(const DeviceModel& device, const Load& load, const RunRecord& run);

}  // namespace incipit::serving_sim
