// Prints the figures of runs as tables or as lines of JSON.
#pragma once

#include <span>
#include <string>

#include "tests/serving_sim/device_model.h"
#include "tests/serving_sim/load.h"
#include "tests/serving_sim/metrics.h"
#include "tests/serving_sim/sim_scheduler.h"

namespace incipit::serving_sim {

// The figures of one run.
struct RunResult {
  LoadKind load{};
  double utilization = 0;
  double capacity = 0;  // Load::capacity, in requests per second
  double makespan_min = 0;
  size_t num_requests = 0;
  SchedulerKind scheduler{};
  Metrics metrics;
  double cpu_s = 0;  // real time that the simulation took, in seconds
};

// Returns a table with a heading and one row for each result.
std::string ResultTable(std::span<const RunResult> results);

// Returns a table with one row for each load and utilization: the figures of Incipit's scheduler
// divided by those of the best baseline. Leaves out a row if the results lack Incipit's scheduler
// or all baselines.
std::string ComparisonTable(std::span<const RunResult> results);

// Returns one line of JSON. All times are in seconds.
std::string ResultJson(const DeviceModel& device, const RunResult& result);

}  // namespace incipit::serving_sim
