// How many tokens a step may have: as many as the machine computes in half a second, so that a long
// prompt holds up nobody who is waiting for their next token, and a fast machine is not kept small.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "engine/transformer_runner.h"
#include "kernels/backend.h"
#include "transformer/model.h"

namespace incipit {

struct StepBudgetOptions {
  int32_t step_tokens_min = 64, step_tokens_max = 2048;  // powers of two
  Duration step_time_max = std::chrono::milliseconds(500);
  Duration probe_time_max = std::chrono::milliseconds(150);  // spent on measuring, about
};

// The largest power of two within the options' bounds whose step stays under step_time_max.
// `measure` runs a step of so many tokens and says how long it took. Small steps are run, growing
// while there is time for it, and larger ones extrapolated from them.
absl::StatusOr<int32_t> ChooseStepTokens(
    const StepBudgetOptions& options,
    absl::FunctionRef<absl::StatusOr<Duration>(int32_t num_tokens)> measure);

// The same, measured with prefill steps of `model` in a small runner of its own, which is gone when
// this returns. `runner_options`: as the runner will have; its sizes are not taken over.
absl::StatusOr<int32_t> MeasureStepTokens(Backend& backend, const Model& model,
                                          const TransformerRunnerOptions& runner_options,
                                          const Clock& clock,
                                          const StepBudgetOptions& options = {});

}  // namespace incipit
