// Declares StepTimeModel, which predicts how long a step takes. The model learns from the measured
// durations of earlier steps. The model reads no clock: the caller passes every duration.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace incipit {

// Returns the number of pairs (token, position) in which a token attends to the position. The
// tokens are `num_tokens` consecutive tokens, the first at `first_position`. A token at position p
// attends to p + 1 positions.
constexpr int64_t PositionsOf(int64_t first_position, int64_t num_tokens) {
  return num_tokens * first_position + num_tokens * (num_tokens + 1) / 2;
}

// The quantities of a step that determine the duration of the step.
struct StepShape {
  int64_t num_prompt_tokens = 0;  // prompt tokens that the step computes
  int64_t num_decoding = 0;       // sequences that decode
  // Number of positions that a token attends to, summed over all tokens of the step.
  int64_t num_positions = 0;

  void AddPromptChunk(int64_t first_position, int64_t num_tokens) {
    num_prompt_tokens += num_tokens;
    num_positions += PositionsOf(first_position, num_tokens);
  }
  // Adds a sequence that decodes the token at `position`.
  void AddDecode(int64_t position) {
    ++num_decoding;
    num_positions += position + 1;
  }
};

// A step and its measured duration.
struct MeasuredStep {
  StepShape shape;
  Duration duration{};
};

// kDecode: no prompt tokens. kPrefill: only prompt tokens. kMixed: both.
enum class StepClass { kDecode, kMixed, kPrefill };
inline constexpr size_t kNumStepClasses = 3;

constexpr StepClass ClassOf(const StepShape& shape) {
  if (shape.num_prompt_tokens == 0) return StepClass::kDecode;
  return shape.num_decoding == 0 ? StepClass::kPrefill : StepClass::kMixed;
}

// Predicts the duration of a step as
//
//   slowdown * (a + b * prompt tokens + c * decoding sequences + d * positions)
//
// a, b, c and d are costs in seconds and are not negative. A position counts once for each token
// that attends to it. Each class of steps (decode, mixed, prefill) has its own costs and slowdown.
// - The costs minimise the sum of squared relative errors of earlier steps. Each later step of the
//   class reduces the weight of an earlier step by 1 % (recursive least squares with exponential
//   forgetting: Ljung, Soederstroem, "Theory and Practice of Recursive Identification", 1983).
// - A step with a large prediction error has less weight. So one slow step changes the costs little
//   (Huber, "Robust estimation of a location parameter", 1964).
// - A small penalty keeps the costs of a class close to the costs of all classes together (ridge
//   regression). So the model also predicts a class without observed steps.
// - `slowdown` is the median of measured / predicted duration over the last kSlowdownSteps steps of
//   the class. If the machine becomes slower, `slowdown` corrects the class within 8 steps.
//
// Not thread-safe. Observe takes constant time. No function allocates memory.
class StepTimeModel {
 public:
  // Number of latest prediction errors of each StepClass from which ErrorOf computes the median.
  static constexpr size_t kErrorWindow = 128;
  static constexpr size_t kSlowdownSteps = 15;
  // Number of steps that must be observed before the model relies on its predictions. trained()
  // counts the steps with prompt tokens. WeightOf() counts the steps of one class (decode, mixed or
  // prefill).
  static constexpr int32_t kTrainedSteps = 8;
  // PromptTokensWithin() never returns more prompt tokens than a limit for the whole step. The
  // limit is kGrowthMax times the largest number of prompt tokens in an observed step, but at least
  // kFirstPromptTokens.
  static constexpr int64_t kFirstPromptTokens = 64, kGrowthMax = 4;

  StepTimeModel();

  // Learns from a step that took `duration`. A step without tokens or a duration that is not
  // positive has no effect.
  void Observe(const StepShape& shape, Duration duration);
  // Like Observe, for a step that was measured before the first request. Has no effect on
  // trained().
  void Seed(const MeasuredStep& step);

  // Returns the predicted duration of a step. Returns 0 for a step without tokens, and 0 before the
  // first observation.
  Duration Predict(const StepShape& shape) const;

  // Returns the largest number of prompt tokens, at most `tokens_max`, for which a step takes at
  // most `limit`. The step computes `base` and one more chunk of a prompt, whose first token is at
  // `first_position`. `base` may contain other chunks of prompts. The result is 0 if no prompt
  // token fits. kFirstPromptTokens and kGrowthMax also limit the prompt tokens of the step.
  int32_t PromptTokensWithin(Duration limit, const StepShape& base, int64_t first_position,
                             int32_t tokens_max) const;

  // Returns the time to compute `prompt_tokens` tokens in steps of `tokens_per_step` prompt tokens.
  // `positions`: number of positions that a token attends to, summed over the prompt tokens. Each
  // step also computes `decode_part`. Returns 0 before the first observation. REQUIRES:
  // tokens_per_step > 0.
  Duration TimeFor(int64_t prompt_tokens, int64_t positions, int64_t tokens_per_step,
                   const StepShape& decode_part = {}) const;

  // Returns the speed of prefill in tokens per second, for a prompt of `tokens_per_step` tokens
  // that one step computes together with `decode_part`. Returns 0 before the first observation.
  double PrefillTokensPerSecond(int64_t tokens_per_step, const StepShape& decode_part = {}) const;

  // True after kTrainedSteps observed steps with prompt tokens. Before, predictions for prompt
  // tokens may be wrong by a factor of 10.
  bool trained() const;
  // True if trained(), or if Seed was called with two different numbers of prompt tokens. Then the
  // predictions are good enough for a report. Do not refuse requests before trained(): without
  // steps, the model would not learn that its predictions are wrong.
  bool knows_prompts() const { return trained() || seed_tokens_min_ < seed_tokens_max_; }

  // Returns the median of |predicted - measured| / measured over the last kErrorWindow steps of the
  // class. Each prediction was made before its step was observed. Returns 0 without observations.
  double ErrorOf(StepClass step_class) const;

 private:
  // Number of terms in the predicted duration. Each term is a cost times a value. The values are 1,
  // num_prompt_tokens, num_decoding and num_positions of the StepShape.
  static constexpr size_t kNumTerms = 4;
  using Terms = std::array<double, kNumTerms>;

  // Weighted sums over the observed steps of a class (decode, mixed or prefill). Each measured
  // duration is divided by ClassState::slowdown.
  struct Sums {
    // Element [i][j], for j <= i: sum of (value i) * (value j) over the steps. TermsOf() returns
    // the values of a step.
    std::array<Terms, kNumTerms> products{};
    // Element [i]: sum of (value i) * (duration in seconds) over the steps. TermsOf() returns the
    // values of a step.
    Terms with_seconds{};
  };
  struct ClassState {
    Sums sums;
    Terms costs{};  // seconds per step, prompt token, decoding sequence and attended position
    int64_t num_observed = 0;
    double slowdown = 1;
    // Ring buffer of the latest ratios of measured to predicted duration. `slowdown` is their
    // median.
    std::array<double, kSlowdownSteps> ratios{};
    size_t next_ratio = 0;
    std::array<float, kErrorWindow> errors{};
    size_t num_errors = 0;  // number of errors so far; `errors` contains the latest of them
  };

  static Terms TermsOf(const StepShape& shape);
  static void Scale(Sums& sums, double factor);
  static void Add(const Sums& from, double slowdown, Sums& to);
  static double LevelOf(const Sums& sums, const Terms& costs);
  static Terms Fit(const Sums& sums, const Terms& prior, const Terms& floor);
  const ClassState& StateOf(StepClass step_class) const;
  Terms CostsOf(StepClass step_class) const;
  double SecondsOf(const StepShape& shape) const;
  static double WeightOf(ClassState& state, const Terms& terms, double seconds);
  static void UpdateSlowdown(ClassState& state, double ratio);
  void UpdateCosts(ClassState& state);

  std::array<ClassState, kNumStepClasses> classes_;
  // Costs that fit the steps of all classes (decode, mixed and prefill) best. Seconds per step, per
  // prompt token, per decoding sequence and per position that a token attends to.
  Terms common_costs_{};
  int64_t num_observed_ = 0;
  int64_t num_seeds_ = 0;  // number of steps with prompt tokens that were passed to Seed
  // Smallest and largest number of prompt tokens in a step, among all steps that Seed() received.
  // Steps without prompt tokens do not count.
  int64_t seed_tokens_min_ = 0, seed_tokens_max_ = 0;
  int64_t prompt_tokens_max_ = 0;  // largest number of prompt tokens in an observed step
};

}  // namespace incipit
