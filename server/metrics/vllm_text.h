// Writes metrics under the metric names of vLLM, because existing dashboards, autoscalers and
// routers read these names.
#pragma once

#include <string>

#include "server/metrics/metrics_values.h"
#include "server/metrics/prometheus_text.h"

namespace incipit {

// Returns the text of all metrics that have a name of vLLM.
std::string VllmMetricsText(const MetricsValues& values, const MetricsFacts& facts);

}  // namespace incipit
