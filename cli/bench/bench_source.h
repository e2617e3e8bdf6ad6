// Chooses the prompts and start times of a load test: random prompts, a workload or a log.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/analysis/trace.h"
#include "cli/bench/bench_options.h"
#include "cli/bench/bench_requests.h"
#include "incipit/v1/admin.pb.h"

namespace incipit {

// The requests of a load test.
struct BenchSource {
  PromptSource prompts;
  int32_t num_requests = 0;
  std::vector<double> arrivals;  // planned start times in seconds; empty: a closed loop
  std::string workload;          // as in BenchSummary
  double length_scale = 1;       // as in BenchSummary
};

// The inputs of the prompts of a load test, other than the flags.
struct PromptBasis {
  std::vector<uint32_t> tokens;  // the ordinary tokens of the model
  v1::GetModelInfoResponse model;
  uint64_t seed = 0;
};

// Reads the first --requests requests of the log --trace. Returns nullopt without --trace. Returns
// an error if the log cannot be read or is wrong.
absl::StatusOr<std::optional<Trace>> ReadLog(const BenchOptions& options);

// Returns the requests that `options` describe. `trace` is the result of ReadLog(). Returns
// INVALID_ARGUMENT if the requests do not fit the context of the model.
absl::StatusOr<BenchSource> MakeSource(const BenchOptions& options, PromptBasis basis,
                                       std::optional<Trace> trace);

}  // namespace incipit
