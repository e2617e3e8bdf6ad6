#include "tests/load/paced_runner.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace incipit {
namespace {

constexpr Duration kStep = std::chrono::milliseconds(20);

// A step that samples the tokens at `positions` of one request.
class SampledStep {
 public:
  explicit SampledStep(const std::vector<int64_t>& positions) {
    for (const int64_t position : positions) {
      StepSample& sample = samples_.emplace_back();
      sample.params = &params_;
      sample.position = position;
    }
    step_.tokens = tokens_;
    step_.samples = samples_;
  }
  SamplingParams& params() { return params_; }
  const Step& step() const { return step_; }

 private:
  SamplingParams params_;
  std::vector<TokenId> tokens_ = {1, 2, 3};
  std::vector<StepSample> samples_;
  Step step_;
};

std::vector<TokenId> Sampled(PacedRunner& runner, const SampledStep& step) {
  StepResult result;
  EXPECT_TRUE(runner.Launch(step.step()).ok());
  EXPECT_TRUE(runner.Wait(result).ok());
  return result.tokens;
}

TEST(PacedRunnerTest, StepsInFlightEndOneAfterTheOther) {
  PacedRunner runner({.vocab_size = 10, .step_time = kStep});
  const SampledStep step({0});
  StepResult result;
  const Time begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(runner.Launch(step.step()).ok());
  ASSERT_TRUE(runner.Launch(step.step()).ok());
  ASSERT_TRUE(runner.Wait(result).ok());
  EXPECT_GE(std::chrono::steady_clock::now() - begin, kStep);
  ASSERT_TRUE(runner.Wait(result).ok());
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 2 * kStep);
}

TEST(PacedRunnerTest, TokensOfAStepCostTimeToo) {
  PacedRunner runner({.vocab_size = 10, .token_time = kStep});
  const Time begin = std::chrono::steady_clock::now();
  Sampled(runner, SampledStep({0}));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 3 * kStep);
}

TEST(PacedRunnerTest, SamplesAHashThatAvoidsTokensOrOneToken) {
  std::vector<int64_t> positions(1000);
  for (size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<int64_t>(i);
  SampledStep step(positions);
  step.params().seed = 7;
  PacedRunner hash({.vocab_size = 5, .avoided_tokens = {2}});
  const std::vector<TokenId> tokens = Sampled(hash, step);
  EXPECT_EQ(std::set<TokenId>(tokens.begin(), tokens.end()), (std::set<TokenId>{0, 1, 3, 4}));
  EXPECT_EQ(Sampled(hash, step), tokens);
  PacedRunner fixed({.vocab_size = 5, .sampled_token = 3});
  EXPECT_EQ(Sampled(fixed, step), std::vector<TokenId>(positions.size(), 3));
}

TEST(PacedRunnerTest, ReportsLogProbabilitiesOfWhatAsked) {
  SampledStep step({0, 1});
  step.params().num_logprobs = 2;
  PacedRunner runner({.vocab_size = 5});
  StepResult result;
  ASSERT_TRUE(runner.Launch(step.step()).ok());
  ASSERT_TRUE(runner.Wait(result).ok());
  EXPECT_EQ(result.logprobs.num_rows(), 2);
  EXPECT_EQ(result.logprobs.top.size(), 4u);
}

}  // namespace
}  // namespace incipit
