// Writes the metrics in the text format of Prometheus: names, help texts, labels and values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/metrics/metrics.h"
#include "server/metrics/metrics_values.h"

namespace incipit {

// Values of metrics that are not counters: properties of the model, and values that the server
// reads when Prometheus requests the metrics.
struct MetricsFacts {
  ModelMetrics model;
  EngineLoad load;
  UnreadOutput unread;
  std::optional<TierStats> disk_cache;        // absent: no disk cache
  std::vector<std::string> reported_tenants;  // see Metrics::SetReportedTenants
  double start_time = 0;  // time at which the process started, in seconds since the Unix epoch
  double time = 0;        // time of the request for the metrics, in seconds since the Unix epoch

  // Returns the number of cache blocks that requests hold, divided by the number of all cache
  // blocks.
  double used_ratio() const {
    return load.num_blocks == 0 ? 0 : static_cast<double>(load.num_used_blocks) / load.num_blocks;
  }
};

// Returns the text of all metrics.
std::string MetricsText(const MetricsValues& values, const MetricsFacts& facts,
                        const MetricsOptions& options);

}  // namespace incipit
