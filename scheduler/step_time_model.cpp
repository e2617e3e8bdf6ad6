#include "scheduler/step_time_model.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "base/check.h"

namespace incipit {
namespace {

// Factor by which a new step reduces the weight of all earlier steps of its class (decode, mixed or
// prefill).
constexpr double kMemory = 0.99;
// If the relative prediction error of a step is above this limit, the step has less effect on the
// costs.
constexpr double kLargeError = 0.5;
// Strength of the penalty for a difference between a cost and its expected value. The strength is
// (0.1 / 0.7)^2: 0.1 is the relative variation of the duration of equal steps, and 0.7 the relative
// difference of a cost from its expected value.
constexpr double kPriorStrength = 0.02;
// Expected ratios of the costs per step, prompt token, decoding sequence and position. Measured
// ratios: 1 : 0.087 : 0.1 : 2.3e-5 on 2 CPU cores with a model of 0.5B parameters, and 1 : 0.005 :
// 0.0007 : 7e-6 on an H100 with 8B parameters.
constexpr std::array<double, 4> kPriorCosts = {1, 0.1, 0.1, 2e-5};
constexpr double kPriorFloor = 0.1;
// Larger ratios of measured to predicted duration count as this ratio.
constexpr double kRatioMax = 1000;
// If the `slowdown` of a class of steps leaves the range [1 / kSlowdownMax, kSlowdownMax], the
// costs of the class are multiplied by `slowdown`. `slowdown` then becomes 1.
constexpr double kSlowdownMax = 2;
// Maximum number of seconds, so that the conversion to Duration does not overflow.
constexpr double kSecondsMax = 1e9;

// Returns the element at index (size - 1) / 2 of the sorted values. Reorders `values`.
template <class Value>
Value LowerMedian(std::span<Value> values) {
  const auto middle = values.begin() + (std::ssize(values) - 1) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

template <class Vector>
double Dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

using Vector = std::array<double, 4>;
using Matrix = std::array<Vector, 4>;

// Solves matrix * x = target by Gaussian elimination, with x[i] = 0 for each i that is not
// `active`. REQUIRES: `matrix` is symmetric and positive definite.
Vector Solve(Matrix matrix, Vector target, const std::array<bool, 4>& active) {
  for (size_t i = 0; i < 4; ++i) {
    if (!active[i]) continue;
    for (size_t row = i + 1; row < 4; ++row) {
      if (!active[row]) continue;
      const double factor = matrix[row][i] / matrix[i][i];
      for (size_t col = i; col < 4; ++col) matrix[row][col] -= factor * matrix[i][col];
      target[row] -= factor * target[i];
    }
  }
  Vector x{};
  for (size_t i = 4; i-- > 0;) {
    if (!active[i]) continue;
    double sum = target[i];
    for (size_t col = i + 1; col < 4; ++col) sum -= matrix[i][col] * x[col];
    x[i] = sum / matrix[i][i];
  }
  return x;
}

// Like Solve, with no negative element in the result: sets the most negative element to 0 and
// solves again, until no element is negative.
Vector SolveNonNegative(const Matrix& matrix, const Vector& target) {
  std::array<bool, 4> active = {true, true, true, true};
  while (true) {
    const Vector x = Solve(matrix, target, active);
    const auto smallest = std::ranges::min_element(x);
    if (*smallest >= 0) return x;
    active[static_cast<size_t>(smallest - x.begin())] = false;
  }
}

}  // namespace

StepTimeModel::StepTimeModel() {
  for (ClassState& state : classes_) state.ratios.fill(1);
}

StepTimeModel::Terms StepTimeModel::TermsOf(const StepShape& shape) {
  return {1, static_cast<double>(shape.num_prompt_tokens), static_cast<double>(shape.num_decoding),
          static_cast<double>(shape.num_positions)};
}

const StepTimeModel::ClassState& StepTimeModel::StateOf(StepClass step_class) const {
  return classes_[static_cast<size_t>(step_class)];
}

// Returns the costs of a class of steps (decode, mixed or prefill), in seconds: per step, prompt
// token, decoding sequence and position that a token attends to. The costs are already multiplied
// by ClassState::slowdown. If no step of the class was observed, returns the costs of all classes
// together.
StepTimeModel::Terms StepTimeModel::CostsOf(StepClass step_class) const {
  const ClassState& state = StateOf(step_class);
  if (state.num_observed == 0) return common_costs_;
  Terms costs = state.costs;
  for (double& cost : costs) cost *= state.slowdown;
  return costs;
}

double StepTimeModel::SecondsOf(const StepShape& shape) const {
  return std::min(Dot(CostsOf(ClassOf(shape)), TermsOf(shape)), kSecondsMax);
}

void StepTimeModel::Observe(const StepShape& shape, Duration duration) {
  if (duration <= Duration::zero() || shape.num_prompt_tokens + shape.num_decoding <= 0) return;
  ClassState& state = classes_[static_cast<size_t>(ClassOf(shape))];
  const Terms terms = TermsOf(shape);
  const double seconds = ToSeconds(duration);
  if (num_observed_ > 0) {
    state.errors[state.num_errors++ % kErrorWindow] =
        static_cast<float>(std::abs(SecondsOf(shape) - seconds) / seconds);
  }
  const double weight = WeightOf(state, terms, seconds);
  Scale(state.sums, kMemory);
  for (size_t i = 0; i < kNumTerms; ++i) {
    for (size_t j = 0; j <= i; ++j) state.sums.products[i][j] += weight * terms[i] * terms[j];
    state.sums.with_seconds[i] += weight * terms[i] * seconds / state.slowdown;
  }
  ++state.num_observed;
  ++num_observed_;
  prompt_tokens_max_ = std::max(prompt_tokens_max_, shape.num_prompt_tokens);
  UpdateCosts(state);
}

void StepTimeModel::Seed(const MeasuredStep& step) {
  const int64_t num_before = num_observed_;
  Observe(step.shape, step.duration);
  const int64_t num_tokens = step.shape.num_prompt_tokens;
  if (num_observed_ == num_before || num_tokens == 0) return;
  seed_tokens_min_ = num_seeds_ == 0 ? num_tokens : std::min(seed_tokens_min_, num_tokens);
  seed_tokens_max_ = std::max(seed_tokens_max_, num_tokens);
  ++num_seeds_;
}

// Updates state.slowdown (the median of measured / predicted duration) with a step that took
// `seconds`. Returns the weight of this step in the least-squares fit of the costs (seconds per
// step, prompt token, decoding sequence and position).
double StepTimeModel::WeightOf(ClassState& state, const Terms& terms, double seconds) {
  // Until kTrainedSteps steps of the class are observed, predictions may be far off. So the
  // returned weight depends only on the measured duration.
  if (state.num_observed < kTrainedSteps) return 1 / (seconds * seconds);
  // If no similar step was observed, the prediction may be 0 and the ratio infinite. The next line
  // limits the ratio.
  const double ratio = seconds / Dot(state.costs, terms);
  UpdateSlowdown(state, std::min(ratio, kRatioMax * state.slowdown));
  const double normal = seconds / state.slowdown;
  const double predicted = std::max(Dot(state.costs, terms), normal / kRatioMax);
  const double error = std::abs(normal - predicted) / predicted;
  return std::min(1.0, kLargeError / error) / (predicted * predicted);
}

// Updates `slowdown` in the state of a class of steps. `ratio` is the measured duration of a step,
// divided by a predicted duration that does not include `slowdown`.
void StepTimeModel::UpdateSlowdown(ClassState& state, double ratio) {
  state.ratios[state.next_ratio] = ratio;
  state.next_ratio = (state.next_ratio + 1) % kSlowdownSteps;
  std::array<double, kSlowdownSteps> sorted = state.ratios;
  const double slowdown = LowerMedian(std::span<double>(sorted));
  state.slowdown = slowdown;
  if (slowdown <= kSlowdownMax && slowdown >= 1 / kSlowdownMax) return;
  // Predictions are the costs multiplied by `slowdown`. Multiply the costs by `slowdown` and set
  // `slowdown` to 1, so that the predictions do not change.
  for (double& cost : state.costs) cost *= slowdown;
  for (double& kept : state.ratios) kept /= slowdown;
  const Sums before = std::exchange(state.sums, {});
  Add(before, slowdown, state.sums);
  state.slowdown = 1;
}

void StepTimeModel::Scale(Sums& sums, double factor) {
  for (Terms& row : sums.products) {
    for (double& product : row) product *= factor;
  }
  for (double& product : sums.with_seconds) product *= factor;
}

// Adds the sums `from` to `to`, as if each measured duration in `from` were `slowdown` times as
// long.
void StepTimeModel::Add(const Sums& from, double slowdown, Sums& to) {
  const double inverse = 1 / slowdown;
  for (size_t i = 0; i < kNumTerms; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      to.products[i][j] += inverse * inverse * from.products[i][j];
    }
    to.with_seconds[i] += inverse * from.with_seconds[i];
  }
}

// Returns the factor x for which the costs x * `costs` have the smallest sum of squared errors over
// the steps in `sums`.
double StepTimeModel::LevelOf(const Sums& sums, const Terms& costs) {
  double squares = 0;
  for (size_t i = 0; i < kNumTerms; ++i) {
    for (size_t j = 0; j < i; ++j) squares += 2 * costs[i] * costs[j] * sums.products[i][j];
    squares += costs[i] * costs[i] * sums.products[i][i];
  }
  return squares > 0 ? Dot(costs, sums.with_seconds) / squares : 1;
}

// Returns the costs (seconds per step, prompt token, decoding sequence and position) that fit the
// measured steps in `sums` best. A penalty keeps the costs nearly proportional to `prior`. The
// penalty measures differences relative to max(`prior`, `floor`).
StepTimeModel::Terms StepTimeModel::Fit(const Sums& sums, const Terms& prior, const Terms& floor) {
  const double level = LevelOf(sums, prior);
  // Solve for cost / `unit`, so that all unknowns are of similar size.
  Terms unit, target;
  for (size_t i = 0; i < kNumTerms; ++i) unit[i] = level * std::max(prior[i], floor[i]);
  Matrix matrix;
  for (size_t i = 0; i < kNumTerms; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      matrix[i][j] = matrix[j][i] = sums.products[i][j] * unit[i] * unit[j];
    }
    matrix[i][i] += kPriorStrength;
    target[i] = sums.with_seconds[i] * unit[i] + kPriorStrength * level * prior[i] / unit[i];
  }
  Terms costs = SolveNonNegative(matrix, target);
  for (size_t i = 0; i < kNumTerms; ++i) costs[i] *= unit[i];
  return costs;
}

// Fits common_costs_ to the steps of all classes (decode, mixed and prefill). Then fits the costs
// of one class, state.costs, to the steps of this class.
void StepTimeModel::UpdateCosts(ClassState& state) {
  Sums all;
  for (const ClassState& each : classes_) Add(each.sums, each.slowdown, all);
  common_costs_ = Fit(all, kPriorCosts, {});
  Terms floor;
  const double level = LevelOf(all, kPriorCosts);
  for (size_t i = 0; i < kNumTerms; ++i) floor[i] = kPriorFloor * level * kPriorCosts[i];
  state.costs = Fit(state.sums, common_costs_, floor);
}

Duration StepTimeModel::Predict(const StepShape& shape) const {
  if (shape.num_prompt_tokens + shape.num_decoding <= 0) return Duration::zero();
  return FromSeconds(SecondsOf(shape));
}

int32_t StepTimeModel::PromptTokensWithin(Duration limit, const StepShape& base,
                                          int64_t first_position, int32_t tokens_max) const {
  const int64_t step_max = std::max(kFirstPromptTokens, kGrowthMax * prompt_tokens_max_);
  const int64_t room = std::max<int64_t>(step_max - base.num_prompt_tokens, 0);
  // The duration never decreases with the number of prompt tokens, because no cost is negative.
  auto low = int32_t{0};
  auto high = static_cast<int32_t>(std::min<int64_t>(tokens_max, room));
  while (low < high) {
    const int32_t middle = low + (high - low + 1) / 2;
    StepShape shape = base;
    shape.AddPromptChunk(first_position, middle);
    if (Predict(shape) <= limit) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

Duration StepTimeModel::TimeFor(int64_t prompt_tokens, int64_t positions, int64_t tokens_per_step,
                                const StepShape& decode_part) const {
  INCIPIT_CHECK(tokens_per_step > 0);
  if (prompt_tokens <= 0) return Duration::zero();
  const auto step_class = decode_part.num_decoding > 0 ? StepClass::kMixed : StepClass::kPrefill;
  const Terms costs = CostsOf(step_class);
  const int64_t num_steps = (prompt_tokens + tokens_per_step - 1) / tokens_per_step;
  const Terms work = {0, static_cast<double>(prompt_tokens), 0, static_cast<double>(positions)};
  const double seconds =
      static_cast<double>(num_steps) * Dot(costs, TermsOf(decode_part)) + Dot(costs, work);
  return FromSeconds(std::min(seconds, kSecondsMax));
}

double StepTimeModel::PrefillTokensPerSecond(int64_t tokens_per_step,
                                             const StepShape& decode_part) const {
  const double seconds = ToSeconds(
      TimeFor(tokens_per_step, PositionsOf(0, tokens_per_step), tokens_per_step, decode_part));
  return seconds > 0 ? static_cast<double>(tokens_per_step) / seconds : 0;
}

bool StepTimeModel::trained() const {
  const int64_t num_steps =
      StateOf(StepClass::kMixed).num_observed + StateOf(StepClass::kPrefill).num_observed;
  return num_steps - num_seeds_ >= kTrainedSteps;
}

double StepTimeModel::ErrorOf(StepClass step_class) const {
  const ClassState& state = StateOf(step_class);
  const size_t count = std::min(state.num_errors, kErrorWindow);
  if (count == 0) return 0;
  std::array<float, kErrorWindow> errors = state.errors;
  return LowerMedian(std::span<float>(errors).first(count));
}

}  // namespace incipit
