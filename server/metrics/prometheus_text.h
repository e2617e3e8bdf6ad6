// The metrics in Prometheus' text format: names, help texts, labels and values.
#pragma once

#include <string>

#include "engine/engine.h"
#include "server/metrics/metrics.h"
#include "server/metrics/metrics_values.h"

namespace incipit {

// The values that are read at a scrape rather than counted.
struct MetricsFacts {
  ModelMetrics model;
  EngineLoad load;
  double start_time = 0;  // seconds since the epoch
};

// Returns the whole exposition.
std::string MetricsText(const MetricsValues& values, const MetricsFacts& facts,
                        const MetricsOptions& options);

}  // namespace incipit
