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

// Percentiles of latencies in milliseconds, all 0 if there are no latencies.
struct Percentiles {
  double p50 = 0, p90 = 0, p99 = 0, max = 0;
};

// Returns the percentiles of the latencies `seconds` by nearest rank, converted to milliseconds.
Percentiles PercentilesOf(std::vector<double> seconds);

// The part of a load test at full load: all requests that a closed loop keeps in flight are between
// their first and their last output token. The throughput at full load shows the speed of decode,
// without the prefill at the start of the load test and the idle sequences at its end.
struct FullLoad {
  int32_t concurrency = 0;  // number of requests in flight; 0: an open loop, which has no full load
  double seconds = 0;       // duration of full load
  double output_tokens_per_s = 0;  // 0 if the load test never had full load
};

FullLoad FullLoadOf(const BenchResult& result);

struct BenchSummary {
  int64_t num_requests = 0, num_errors = 0;
  double seconds = 0;
  int64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  double output_tokens_per_s = 0;
  FullLoad full_load;
  Percentiles first_token, inter_token, total;  // latencies of the successful requests
  std::map<std::string, int64_t> errors;        // number of failed requests by error message
};

BenchSummary Summarize(const BenchResult& result);

// Returns the results of a load test as one JSON object with the keys requests, errors, duration_s,
// prompt_tokens, cached_tokens, output_tokens, output_tokens_per_s, full_load_s,
// full_load_output_tokens_per_s, ttft_ms, itl_ms and e2e_ms. The last three values have the form
// {p50, p90, p99, max}. The two values at full load are null if all requests were never decoding at
// the same time.
nlohmann::ordered_json ToJson(const BenchSummary& summary);

// Returns the results of a load test as several lines of text.
std::string Describe(const BenchSummary& summary);

}  // namespace incipit
