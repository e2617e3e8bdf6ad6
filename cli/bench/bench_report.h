// What a load run means: percentiles, throughput, the share that the cache saved.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "cli/bench/bench_load.h"

namespace incipit {

// In milliseconds; zero without any value.
struct Percentiles {
  double p50 = 0, p90 = 0, p99 = 0, max = 0;
};

// By nearest rank, of values in seconds.
Percentiles PercentilesOf(std::vector<double> seconds);

// The moments of a closed loop in which as many requests as it keeps in flight are between their
// first and their last token: how fast answers go on, without the prompts of a run's beginning and
// the emptiness of its end.
struct FullLoad {
  int32_t concurrency = 0;  // 0: an open loop, which has none
  double seconds = 0;
  double output_tokens_per_s = 0;  // 0 without such moments
};

FullLoad FullLoadOf(const BenchResult& result);

struct BenchSummary {
  int64_t num_requests = 0, num_errors = 0;
  double seconds = 0;
  int64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  double output_tokens_per_s = 0;
  FullLoad full_load;
  Percentiles first_token, inter_token, total;  // of the requests that succeeded
  std::map<std::string, int64_t> errors;        // by message
};

BenchSummary Summarize(const BenchResult& result);

// {"requests", "errors", "duration_s", "prompt_tokens", "cached_tokens", "output_tokens",
// "output_tokens_per_s", "full_load_s", "full_load_output_tokens_per_s", "ttft_ms", "itl_ms",
// "e2e_ms"}, the last three {p50, p90, p99, max}; full_load is null where there is none.
nlohmann::ordered_json ToJson(const BenchSummary& summary);

// For people, several lines.
std::string Describe(const BenchSummary& summary);

}  // namespace incipit
