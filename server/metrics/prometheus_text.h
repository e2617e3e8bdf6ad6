// Writes the metrics in the text format of Prometheus: names, help texts, labels and values.
#pragma once

#include <string>

#include "engine/engine.h"
#include "server/metrics/metrics.h"
#include "server/metrics/metrics_values.h"

namespace incipit {

// Values of metrics that the server does not count, but reads when Prometheus requests the metrics.
struct MetricsFacts {
  ModelMetrics model;
  EngineLoad load;
  double start_time = 0;  // time at which the process started, in seconds since the Unix epoch
};

// Returns the text of all metrics.
std::string MetricsText(const MetricsValues& values, const MetricsFacts& facts,
                        const MetricsOptions& options);

}  // namespace incipit
