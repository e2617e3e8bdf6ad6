// Chooses the maximum number of tokens in a step, so that a step takes about half a second. A step
// of a long prompt then delays other requests by at most about half a second.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "engine/transformer_runner.h"
#include "kernels/backend.h"
#include "scheduler/step_time_model.h"
#include "transformer/model.h"

namespace incipit {

struct StepBudgetOptions {
  // Smallest and largest result of ChooseStepTokens, in tokens per step. Both numbers are powers of
  // two.
  int32_t step_tokens_min = 64, step_tokens_max = 2048;
  Duration step_time_max = std::chrono::milliseconds(500);
  // Approximate time limit for all measurements together.
  Duration probe_time_max = std::chrono::milliseconds(150);
};

// Returns the largest number of tokens, a power of two within the bounds of `options`, for which a
// step takes less than step_time_max. `measure` runs a step of `num_tokens` tokens and returns its
// duration. Small steps are measured until probe_time_max is used up. The durations of larger steps
// are extrapolated.
absl::StatusOr<int32_t> ChooseStepTokens(
    const StepBudgetOptions& options,
    absl::FunctionRef<absl::StatusOr<Duration>(int32_t num_tokens)> measure);

struct StepBudget {
  int32_t step_tokens_max = 0;           // result of ChooseStepTokens
  std::vector<MeasuredStep> measured{};  // all measured steps, for SchedulerOptions
};

// Measures prefill steps of `model` on a temporary runner. Returns the measured steps, and the
// number of tokens that ChooseStepTokens chooses for these steps. `runner_options` are the options
// of the final runner, which the caller creates later.
absl::StatusOr<StepBudget> MeasureStepTokens(Backend& backend, const Model& model,
                                             const TransformerRunnerOptions& runner_options,
                                             const Clock& clock,
                                             const StepBudgetOptions& options = {});

}  // namespace incipit
