// Writes the metrics of the disk cache (flag --disk-cache).
#pragma once

#include "server/metrics/family_writer.h"
#include "server/metrics/metrics_values.h"
#include "tier/tier_stats.h"

namespace incipit {

// Adds the metrics of the disk cache to `out`. `stats` has the counters since the start of the
// server.
void WriteDiskCache(FamilyWriter& out, const MetricsValues& values, const TierStats& stats);

}  // namespace incipit
