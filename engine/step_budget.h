// Chooses the maximum number of tokens in a step: as many tokens as the machine computes in half a
// second. With this limit, a step of a long prompt delays other requests by at most about half a
// second. A fast machine still computes large steps.
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
  // Bounds of the chosen number of tokens. Both bounds are powers of two.
  int32_t step_tokens_min = 64, step_tokens_max = 2048;
  Duration step_time_max = std::chrono::milliseconds(500);
  Duration probe_time_max = std::chrono::milliseconds(150);  // approximate time of all measurements
};

// Returns the largest power of two, within the bounds of `options`, for which a step takes less
// than step_time_max. `measure` runs a step of `num_tokens` tokens and returns its duration.
// ChooseStepTokens measures small steps of increasing size while time is left, and extrapolates the
// duration of larger steps.
absl::StatusOr<int32_t> ChooseStepTokens(
    const StepBudgetOptions& options,
    absl::FunctionRef<absl::StatusOr<Duration>(int32_t num_tokens)> measure);

// Returns the result of ChooseStepTokens, measured with prefill steps of `model`. The steps run on
// a small runner, which is destroyed before the function returns. `runner_options` are the options
// of the later runner; the small runner has other sizes.
absl::StatusOr<int32_t> MeasureStepTokens(Backend& backend, const Model& model,
                                          const TransformerRunnerOptions& runner_options,
                                          const Clock& clock,
                                          const StepBudgetOptions& options = {});

}  // namespace incipit
