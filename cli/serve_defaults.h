// Chooses values for the flags of `incipit serve` that were not set.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/step_budget.h"
#include "engine/transformer_runner.h"
#include "kernels/backend.h"
#include "server/options.h"
#include "transformer/model.h"

namespace incipit {

bool IsCpu(const Backend& backend);

// Returns the path of the file that stores the measured speeds of matrix products on the GPU.
// Returns an empty string if no file is used.
std::string TuningFileOf(const Options& options);

struct RunnerChoice {
  TransformerRunnerOptions runner;
  // The steps that were measured to choose --step-tokens. Empty if --step-tokens is set.
  std::vector<MeasuredStep> measured_steps{};
};

// Returns the options of the model runner, such as the size of the cache. If --step-tokens (maximum
// number of tokens in a batch) is not set, chooses this number by measurements. Returns an error if
// a measurement fails.
absl::StatusOr<RunnerChoice> RunnerOptionsOf(const Options& options, Backend& backend,
                                             const Model& model);

// Returns the maximum number of steps in flight: steps (batches) that are launched and not
// committed.
int32_t StepsInFlightOf(const Options& options, const Backend& backend);

}  // namespace incipit
