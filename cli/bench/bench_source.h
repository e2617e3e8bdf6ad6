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
  std::vector<double> arrivals;  // as in BenchPlan
  std::string workload;          // as in BenchSummary
  double length_scale = 1;       // as in BenchSummary
};

// Data that MakeSource() needs to create prompts, in addition to the flags.
struct PromptBasis {
  std::vector<uint32_t> tokens;  // ids of all tokens of the model that are not special tokens
  v1::GetModelInfoResponse model;
  uint64_t seed = 0;
};

// Reads the log that --trace names, up to the number of requests that --requests sets. Returns
// nullopt if --trace is not set. Returns an error if the log cannot be read or is invalid.
absl::StatusOr<std::optional<Trace>> ReadLog(const BenchOptions& options);

// Returns the prompts and start times of the load test that `options` describes. `trace` is the
// result of ReadLog(). Returns INVALID_ARGUMENT if the requests do not fit the context of the
// model.
absl::StatusOr<BenchSource> MakeSource(const BenchOptions& options, PromptBasis basis,
                                       std::optional<Trace> trace);

}  // namespace incipit
