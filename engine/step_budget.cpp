#include "engine/step_budget.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"

namespace incipit {
namespace {

constexpr int32_t kFirstProbeTokens = 8;
constexpr int32_t kLastProbeTokens = 128;
constexpr int32_t kProbeGrowth = 4;
// Maximum number of times that ChooseStepTokens measures a step with the same number of tokens.
constexpr int32_t kProbeRoundsMax = 4;

// Estimates the duration of a step as a fixed time plus a time per token. The two largest measured
// steps determine both times.
class StepCost {
 public:
  void Add(int32_t num_tokens, double seconds) {
    // Seconds per additional token. For the first measurement, the mean: `seconds` / `num_tokens`.
    // For later measurements, the growth of the duration divided by the growth of the number of
    // tokens, limited to [mean / 2, mean] because of noise.
    double per_token = seconds / num_tokens;
    if (num_tokens_ > 0) {
      const double growth = (seconds - seconds_) / (num_tokens - num_tokens_);
      per_token = std::clamp(growth, per_token / 2, per_token);
    }
    num_tokens_ = num_tokens;
    seconds_ = seconds;
    per_token_ = per_token;
  }
  double SecondsOf(int32_t num_tokens) const {
    return seconds_ + per_token_ * (num_tokens - num_tokens_);
  }

 private:
  int32_t num_tokens_ = 0;
  double seconds_ = 0, per_token_ = 0;
};

// Measures the duration of a prefill step, which computes the last tokens of one long sequence. All
// stored keys and values are zero, because their contents have no effect on the duration.
class PrefillProbe {
 public:
  PrefillProbe(TransformerRunner& runner, const Clock& clock)
      : runner_(runner), clock_(clock), num_positions_(runner.options().max_model_len) {
    for (int32_t i = 0; i < runner.options().num_blocks; ++i) blocks_.push_back(BlockId{i});
  }

  absl::StatusOr<Duration> Run(int32_t num_tokens) {
    const int32_t count = std::min(num_tokens, num_positions_);
    tokens_.assign(static_cast<size_t>(count), 0);
    positions_.clear();
    for (int32_t i = 0; i < count; ++i) positions_.push_back(num_positions_ - count + i);
    const int32_t token_begin[] = {0, count};
    const int32_t block_begin[] = {0, static_cast<int32_t>(blocks_.size())};
    const int32_t sample_begin[] = {0, 1}, score_begin[] = {0, 0};
    const StepSample sample = {.row = count - 1, .params = &greedy_, .position = num_positions_};
    const Time begin = clock_.Now();
    INCIPIT_RETURN_IF_ERROR(runner_.Launch({.tokens = tokens_,
                                            .positions = positions_,
                                            .token_begin = token_begin,
                                            .block_begin = block_begin,
                                            .blocks = blocks_,
                                            .sample_begin = sample_begin,
                                            .samples = {&sample, 1},
                                            .score_begin = score_begin}));
    INCIPIT_RETURN_IF_ERROR(runner_.Wait(result_));
    const Duration took = clock_.Now() - begin;
    StepShape shape;
    shape.AddPromptChunk(num_positions_ - count, count);
    measured_.push_back({.shape = shape, .duration = took});
    return took * num_tokens / count;
  }

  std::vector<MeasuredStep> TakeMeasured() { return std::move(measured_); }

 private:
  static SamplingParams Greedy() {
    SamplingParams params;
    params.temperature = 0;
    return params;
  }

  TransformerRunner& runner_;
  const Clock& clock_;
  const int32_t num_positions_;
  const SamplingParams greedy_ = Greedy();
  std::vector<BlockId> blocks_;
  std::vector<TokenId> tokens_;
  std::vector<int32_t> positions_;
  StepResult result_;
  std::vector<MeasuredStep> measured_;
};

}  // namespace

absl::StatusOr<int32_t> ChooseStepTokens(
    const StepBudgetOptions& options,
    absl::FunctionRef<absl::StatusOr<Duration>(int32_t num_tokens)> measure) {
  StepCost cost;
  Duration spent{};
  for (int32_t num_tokens = kFirstProbeTokens; num_tokens <= kLastProbeTokens;
       num_tokens *= kProbeGrowth) {
    Duration best = Duration::max(), spent_here{};
    for (int32_t round = 0; round < kProbeRoundsMax; ++round) {
      INCIPIT_ASSIGN_OR_RETURN(const Duration took, measure(num_tokens));
      best = std::min(best, took);
      spent_here += took;
      const bool is_settled = round > 0 && spent_here > options.probe_time_max / 10;
      if (is_settled || spent + spent_here > options.probe_time_max) break;
    }
    spent += spent_here;
    cost.Add(num_tokens, ToSeconds(best));
    // Stop if the next measurement, with kProbeGrowth times as many tokens, would exceed the time
    // limit. The next step is expected to take `growth` times as long as this step. After the first
    // measurement `growth` is 1, because two small steps may take equally long.
    const int32_t growth = num_tokens == kFirstProbeTokens ? 1 : kProbeGrowth;
    if (spent + growth * best > options.probe_time_max) break;
  }
  int32_t chosen = options.step_tokens_min;
  while (chosen < options.step_tokens_max &&
         cost.SecondsOf(2 * chosen) < ToSeconds(options.step_time_max)) {
    chosen *= 2;
  }
  return chosen;
}

absl::StatusOr<StepBudget> MeasureStepTokens(Backend& backend, const Model& model,
                                             const TransformerRunnerOptions& runner_options,
                                             const Clock& clock, const StepBudgetOptions& options) {
  TransformerRunnerOptions probe_options = runner_options;
  const int32_t num_positions = std::min(
      runner_options.max_model_len == 0 ? model.config.max_positions : runner_options.max_model_len,
      options.step_tokens_max);
  probe_options.max_model_len = num_positions;
  probe_options.num_blocks =
      (num_positions + runner_options.block_size - 1) / std::max(runner_options.block_size, 1);
  probe_options.step_tokens_max = kLastProbeTokens;
  probe_options.samples_max = 1;
  INCIPIT_ASSIGN_OR_RETURN(const std::unique_ptr<TransformerRunner> runner,
                           TransformerRunner::Create(backend, model, probe_options));
  PrefillProbe probe(*runner, clock);
  StepBudget out;
  INCIPIT_ASSIGN_OR_RETURN(out.step_tokens_max, ChooseStepTokens(options, [&](int32_t num_tokens) {
                             return probe.Run(num_tokens);
                           }));
  out.measured = probe.TakeMeasured();
  return out;
}

}  // namespace incipit
