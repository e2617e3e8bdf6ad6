// Computes and formats the results of a load test: percentiles, throughput and the share of cached
// tokens.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench/bench_load.h"

namespace incipit {

// Percentiles and maximum of latencies, in milliseconds. All values are 0 if there are no
// latencies.
struct Percentiles {
  double p50 = 0, p90 = 0, p99 = 0, max = 0;
};

// Returns the percentiles of the latencies `seconds` in milliseconds. A percentile is always one of
// the given latencies (nearest rank).
Percentiles PercentilesOf(std::vector<double> seconds);

// The part of a load test in which `concurrency` requests decode at the same time. A request
// decodes from its first output token to its last output token. In this part of the load test, the
// throughput is the speed of decode without prefill.
struct FullLoad {
  // Number of users of a closed loop. Each user sends one request at a time. 0: an open loop, in
  // which the number of running requests changes.
  int32_t concurrency = 0;
  double seconds = 0;  // total time in which `concurrency` requests decode at the same time
  double output_tokens_per_s = 0;  // output tokens per second during `seconds`; 0 if `seconds` is 0
};

FullLoad FullLoadOf(const BenchResult& result);

// Latency targets, in seconds. A request meets the targets if it succeeds, its time to the first
// token is at most `first_token`, and the 99th percentile of its times between tokens is at most
// `inter_token`.
struct BenchTargets {
  double first_token = 1, inter_token = 0.1;
};

bool MeetsTargets(const BenchRecord& record, const BenchTargets& targets);

struct BenchSummary {
  std::string workload;  // name of the workload, or "trace" for a log; empty: neither
  // Factor by which the prompt and output lengths of the workload or replayed log were multiplied.
  double length_scale = 1;
  int64_t num_requests = 0, num_errors = 0;
  double seconds = 0;
  int64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  // Number of prompt tokens that a prefix cache without a size limit would find (ImpliedCache).
  // Absent if the number is unknown.
  std::optional<int64_t> implied_tokens;
  // Number of blocks that the server evicted during the load test, and number of blocks that the
  // server computed again soon after their eviction. Absent if the server did not report these
  // numbers.
  std::optional<int64_t> evictions, regret;
  double output_tokens_per_s = 0;
  BenchTargets targets;
  int64_t num_within_targets = 0;  // number of requests that meet `targets`
  FullLoad full_load;
  Percentiles first_token, inter_token, total;  // latencies of the requests without error
  // Key: error message; value: number of requests with this error.
  std::map<std::string, int64_t> errors;
};

// Computes the summary of the records of `result`. The caller sets `workload`, `length_scale`,
// `evictions` and `regret`. If BenchRequests::FillImplied returned false, the caller must also
// clear BenchSummary::implied_tokens.
BenchSummary Summarize(const BenchResult& result, const BenchTargets& targets = {});

// Returns the results of a load test as the JSON object that `incipit bench --json` prints.
nlohmann::ordered_json ToJson(const BenchSummary& summary);

// Returns the measurements of request number `index` as the JSON object that `incipit bench
// --records` writes.
nlohmann::ordered_json ToJson(int64_t index, const BenchRecord& record);

// Returns the results of a load test as several lines of text.
std::string Describe(const BenchSummary& summary);

}  // namespace incipit
