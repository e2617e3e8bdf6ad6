// Chooses values for the options of `incipit serve` that the operator did not set.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "engine/transformer_runner.h"
#include "kernels/backend.h"
#include "server/options.h"
#include "transformer/model.h"

namespace incipit {

bool IsCpu(const Backend& backend);

// Returns the path of the file with the measured speeds of GPU matrix products, or an empty string
// if no file is used.
std::string TuningFileOf(const Options& options);

// Returns the options of the runner, such as the sizes of the cache and of a step. If the operator
// set no step size, measures a suitable size; returns an error if the measurement fails.
absl::StatusOr<TransformerRunnerOptions> RunnerOptionsOf(const Options& options, Backend& backend,
                                                         const Model& model);

// Returns the maximum number of steps in flight.
int32_t StepsInFlightOf(const Options& options, const Backend& backend);

}  // namespace incipit
