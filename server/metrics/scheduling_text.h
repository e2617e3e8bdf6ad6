// Writes the metrics of the scheduler: preemptions, order of requests, tenants and predictions.
#pragma once

#include "server/metrics/family_writer.h"
#include "server/metrics/metrics_values.h"
#include "server/metrics/prometheus_text.h"

namespace incipit {

// Adds the metrics of the scheduler to `out`.
void WriteScheduling(FamilyWriter& out, const MetricsValues& values, const MetricsFacts& facts);

}  // namespace incipit
