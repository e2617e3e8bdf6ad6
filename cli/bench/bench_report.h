// Computes and formats the results of a load test: percentiles, throughput and the share of cached
// tokens.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <span>
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

// The part of a load test in which all `concurrency` requests decode: each request has received its
// first output token and not yet its last output token. The throughput in this part is the speed of
// decode alone.
struct FullLoad {
  // Number of requests that run at the same time; 0: an open loop, in which this number changes.
  int32_t concurrency = 0;
  double seconds = 0;  // total time, in seconds, in which all `concurrency` requests decode
  double output_tokens_per_s = 0;  // output tokens per second during `seconds`; 0 if `seconds` is 0
};

FullLoad FullLoadOf(const BenchResult& result);

struct BenchSummary {
  int64_t num_requests = 0, num_errors = 0;
  double seconds = 0;
  int64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  double output_tokens_per_s = 0;
  FullLoad full_load;
  Percentiles first_token, inter_token, total;  // latencies of the requests without error
  // Key: error message; value: number of requests with this error.
  std::map<std::string, int64_t> errors;
};

BenchSummary Summarize(const BenchResult& result);

// Returns the results of a load test as the JSON object that `incipit bench --json` prints.
nlohmann::ordered_json ToJson(const BenchSummary& summary);

// Returns the results of a load test as several lines of text.
std::string Describe(const BenchSummary& summary);

}  // namespace incipit
