// The values that `incipit serve` chooses for options that the operator left to the program.
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

// Returns the path of the file that keeps measured GPU products; empty if there is none.
std::string TuningFileOf(const Options& options);

// Returns the size of the cache and of a step. Measures the size of a step if the operator gave
// none. Errors are those of the measurement.
absl::StatusOr<TransformerRunnerOptions> RunnerOptionsOf(const Options& options, Backend& backend,
                                                         const Model& model);

// Returns how many steps may be in flight.
int32_t StepsInFlightOf(const Options& options, const Backend& backend);

}  // namespace incipit
