#include "server/metrics/disk_cache_text.h"

#include <array>
#include <string>
#include <vector>

namespace incipit {
namespace {

// LatencyCounts buckets whose upper bounds are published: 128 us to 8.4 s.
constexpr size_t kFirstBucket = 7, kLastBucket = 23;
constexpr auto kLatencyBucketBounds = [] {
  std::array<double, kLastBucket - kFirstBucket + 1> bounds{};
  for (size_t i = 0; i < bounds.size(); ++i) {
    bounds[i] = 1e-6 * static_cast<double>(uint64_t{1} << (kFirstBucket + i));
  }
  return bounds;
}();

double Number(uint64_t value) { return static_cast<double>(value); }

void WriteState(FamilyWriter& out, const TierStats& stats) {
  std::vector<MetricSample> states;
  for (const auto& [state, name] : kTierStateNames) {
    states.push_back({{{"state", std::string(name)}}, state == stats.state ? 1.0 : 0.0});
  }
  out.Gauge("incipit_disk_cache_state",
            "1 for the present state of the disk cache, else 0. on: the disk cache works. "
            "starting: the server reads the tables of the files. locked: another server uses the "
            "folder. off: an error has turned the disk cache off, and the server tries again "
            "later.",
            states);
  out.Counter("incipit_disk_cache_failures_total",
              "Number of times that an error has turned the disk cache off.",
              static_cast<int64_t>(stats.times_turned_off));
  out.Gauge("incipit_disk_cache_bytes", "Size of all files in the folder of the disk cache.",
            Number(stats.bytes_used));
  out.Gauge("incipit_disk_cache_chunks", "Number of chunks in the disk cache.",
            Number(stats.chunks));
  out.Gauge("incipit_disk_cache_pending", "Number of loads and stores that are in progress.",
            {{{{"kind", "load"}}, Number(stats.loads_pending)},
             {{{"kind", "store"}}, Number(stats.stores_pending)}});
  out.Gauge("incipit_disk_cache_staging_bytes",
            "Number of bytes of --tier-staging that loads and stores occupy.",
            Number(stats.staging_bytes_used));
}

void WriteLoads(FamilyWriter& out, const MetricsValues& values, const TierStats& stats) {
  const auto result = [](const char* name, uint64_t count) {
    return MetricSample{{{"result", name}}, Number(count)};
  };
  out.Counter("incipit_disk_cache_loads_total",
              "Number of loads of chunks by result. hit: the chunk was loaded and verified. error: "
              "the disk returned an error. late: the load took too long. cancelled: the request "
              "ended first. staging_full: --tier-staging had no room for the chunk.",
              {result("hit", stats.hits), result("error", stats.load_errors),
               result("late", stats.loads_late), result("cancelled", stats.loads_cancelled),
               result("staging_full", stats.loads_without_slot)});
  std::vector<MetricSample> rejected;
  for (const auto& [reason, name] : kRejectReasonNames) {
    if (reason == RejectReason::kOk) continue;
    rejected.push_back(
        {{{"reason", std::string(name)}}, Number(stats.rejected[static_cast<size_t>(reason)])});
  }
  out.Counter("incipit_disk_cache_rejected_chunks_total",
              "Number of loaded chunks that the verification rejected, by reason. The server "
              "computes the tokens of a rejected chunk, and removes the chunk.",
              rejected);
  out.Counter("incipit_disk_cache_loaded_tokens_total",
              "Number of prompt tokens whose keys and values were loaded from the disk cache.",
              ReadMetric(values.loaded_tokens));
  out.Counter("incipit_disk_cache_waits_total",
              "Number of times that a sequence (output of a request) began to wait for loads of "
              "chunks.",
              ReadMetric(values.load_waits));
  out.Counter("incipit_disk_cache_failed_waits_total",
              "Number of times that a sequence waited for loads of chunks, and at least one load "
              "failed or took longer than --tier-wait-max. The server computes these chunks.",
              ReadMetric(values.failed_load_waits));
  out.Counter("incipit_disk_cache_read_bytes_total",
              "Number of bytes of chunks that were loaded and verified.",
              static_cast<int64_t>(stats.bytes_loaded));
  MetricsHistogram::Snapshot latency{kLatencyBucketBounds, {}, ToSeconds(stats.load_latency.sum)};
  uint64_t total = 0;
  for (size_t i = 0; i < stats.load_latency.buckets.size(); ++i) {
    total += stats.load_latency.buckets[i];
    if (i >= kFirstBucket && i <= kLastBucket) latency.cumulative.push_back(total);
  }
  latency.cumulative.push_back(total);
  out.Histogram("incipit_disk_cache_load_seconds",
                "Time from the start of a load of a chunk until the chunk is verified.", latency);
}

void WriteStores(FamilyWriter& out, const TierStats& stats) {
  out.Counter("incipit_disk_cache_stored_chunks_total",
              "Number of chunks that were written to the disk cache.",
              static_cast<int64_t>(stats.chunks_stored));
  out.Counter("incipit_disk_cache_written_bytes_total",
              "Number of bytes of chunks that were written to the disk cache.",
              static_cast<int64_t>(stats.bytes_stored));
  std::vector<MetricSample> dropped;
  for (const auto& [reason, name] : kStoreDropNames) {
    dropped.push_back(
        {{{"reason", std::string(name)}}, Number(stats.dropped[static_cast<size_t>(reason)])});
  }
  out.Counter("incipit_disk_cache_dropped_stores_total",
              "Number of chunks that were not written to the disk cache, by reason. off: the disk "
              "cache is not on. staging_full: --tier-staging had no room. write_budget: "
              "--tier-write-max was reached. not_reused: --tier-store is reused, and the chunk is "
              "new. not_finite: a value of the chunk is NaN or infinite. error: the disk returned "
              "an error. removed: the chunk was removed before the write. index_full: the disk "
              "cache has too many chunks. time_to_live: cache.retention.ttl is below 1 second. "
              "tenant_share: --tier-tenant-share-max was reached.",
              dropped);
  out.Counter("incipit_disk_cache_removed_chunks_total",
              "Number of chunks that the disk cache has lost. reclaimed: their file was deleted "
              "because the folder was full. removed: their contents may be wrong. Chunks that a "
              "reset has removed are not counted.",
              {{{{"reason", "reclaimed"}}, Number(stats.chunks_reclaimed)},
               {{{"reason", "removed"}}, Number(stats.chunks_removed)}});
}

}  // namespace

void WriteDiskCache(FamilyWriter& out, const MetricsValues& values, const TierStats& stats) {
  WriteState(out, stats);
  WriteLoads(out, values, stats);
  WriteStores(out, stats);
}

}  // namespace incipit
