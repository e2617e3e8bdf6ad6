#include "cli/serve_defaults.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace incipit {
namespace {

// Maximum number of cache blocks that --kv-blocks=auto chooses. Without this maximum, a small model
// would get so many blocks that the start of the server takes long.
constexpr int32_t kAutoBlocksMax = 1 << 18;
// Fraction of the free memory that the cache uses if the backend is the CPU.
constexpr double kCpuMemoryFraction = 0.5;

}  // namespace

bool IsCpu(const Backend& backend) { return backend.limits().name == "cpu"; }

std::string TuningFileOf(const Options& options) {
  if (options.gpu_tuning_file.kind != FileChoice::Kind::kAuto) return options.gpu_tuning_file.path;
  const auto in_folder = [](const char* variable, std::string_view within) -> std::string {
    const char* const folder = std::getenv(variable);
    if (folder == nullptr || *folder == '\0') return "";
    return fmt::format("{}{}/incipit/gpu_products", folder, within);
  };
  const std::string path = in_folder("XDG_CACHE_HOME", "");
  return path.empty() ? in_folder("HOME", "/.cache") : path;
}

absl::StatusOr<RunnerChoice> RunnerOptionsOf(const Options& options, Backend& backend,
                                             const Model& model) {
  RunnerChoice choice;
  TransformerRunnerOptions& out = choice.runner;
  out.num_blocks = options.kv_blocks.value_or(0);
  out.num_blocks_max = options.kv_memory > 0 ? 0 : kAutoBlocksMax;
  out.kv_bytes = static_cast<size_t>(options.kv_memory);
  out.memory_fraction = IsCpu(backend) ? kCpuMemoryFraction : options.gpu_memory_fraction;
  out.block_size = options.block_size;
  // Maximum number of tokens that a step (batch) samples: one token for each choice (output) of
  // each running request.
  out.samples_max = options.running_max * kChoicesMax;
  out.max_model_len = options.max_model_len.value_or(0);
  out.kv_dtype = options.kv_dtype;
  if (options.step_tokens) {
    out.step_tokens_max = *options.step_tokens;
  } else {
    const SteadyClock clock;
    INCIPIT_ASSIGN_OR_RETURN(StepBudget budget, MeasureStepTokens(backend, model, out, clock));
    out.step_tokens_max = budget.step_tokens_max;
    choice.measured_steps = std::move(budget.measured);
  }
  return choice;
}

// On the CPU, Launch() returns only after the step (batch) is computed, so two steps cannot
// overlap. The default on the CPU is therefore one step in flight.
int32_t StepsInFlightOf(const Options& options, const Backend& backend) {
  return options.steps_in_flight.value_or(IsCpu(backend) ? 1 : kStepsInFlightMax);
}

}  // namespace incipit
