#include "engine/step_budget.h"

#include <filesystem>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_options.h"

namespace incipit {
namespace {

using testing::ElementsAre;

// A simulated machine. A step takes `per_step` seconds and, for each token, `per_token` seconds.
struct Machine {
  double per_step = 0, per_token = 0;  // seconds
  std::vector<int32_t> probes = {};
  double spent = 0;

  int32_t Choose() {
    const auto chosen = ChooseStepTokens({}, [this](int32_t num_tokens) {
      probes.push_back(num_tokens);
      spent += per_step + per_token * num_tokens;
      return absl::StatusOr<Duration>(FromSeconds(per_step + per_token * num_tokens));
    });
    EXPECT_TRUE(chosen.ok());
    return *chosen;
  }
};

TEST(StepBudgetTest, IsTheLargestPowerOfTwoThatStaysUnderTheTime) {
  EXPECT_EQ((Machine{.per_token = 0.499 / 512}).Choose(), 512);
  EXPECT_EQ((Machine{.per_token = 0.501 / 512}).Choose(), 256);
  EXPECT_EQ((Machine{.per_token = 0.499 / 128}).Choose(), 128);
}

TEST(StepBudgetTest, StaysWithinItsBounds) {
  EXPECT_EQ((Machine{.per_token = 1e-7}).Choose(), 2048);
  EXPECT_EQ((Machine{.per_token = 1}).Choose(), 64);
}

TEST(StepBudgetTest, ProbesNoLongerThanItMay) {
  Machine slow{.per_step = 2, .per_token = 0.1};
  EXPECT_EQ(slow.Choose(), 64);
  EXPECT_THAT(slow.probes, ElementsAre(8));  // the first measured step is enough
  for (const double per_token : {1e-6, 1e-5, 1e-4, 1e-3}) {
    Machine machine{.per_step = per_token, .per_token = per_token};
    machine.Choose();
    EXPECT_LT(machine.spent, 0.2) << per_token;
  }
}

TEST(StepBudgetTest, AFastMachineIsMeasuredWithLargeSteps) {
  Machine machine{.per_token = 1e-5};
  EXPECT_EQ(machine.Choose(), 2048);
  EXPECT_EQ(machine.probes.back(), 128);
}

TEST(StepBudgetTest, WhatAStepCostsBesideItsTokensIsNotMultiplied) {
  EXPECT_EQ((Machine{.per_step = 0.02, .per_token = 1e-4}).Choose(), 1024);
}

TEST(StepBudgetTest, AFirstLookThatANeighbourSlowedIsFollowedByAnother) {
  Machine busy{.per_step = 0.04, .per_token = 1e-4};
  EXPECT_EQ(busy.Choose(), 512);
  EXPECT_THAT(busy.probes, testing::Contains(32));
}

TEST(StepBudgetTest, AFailedStepIsReported) {
  const auto chosen = ChooseStepTokens(
      {}, [](int32_t) -> absl::StatusOr<Duration> { return absl::InternalError("device"); });
  EXPECT_EQ(chosen.status().code(), absl::StatusCode::kInternal);
}

// A clock that advances by 15 ms at each call of Now().
class TickingClock final : public Clock {
 public:
  Time Now() const override { return now_ += std::chrono::milliseconds(15); }

 private:
  mutable Time now_{};
};

TEST(StepBudgetTest, RunsPrefillStepsOfTheModel) {
  const std::filesystem::path folder =
      std::filesystem::path(INCIPIT_SOURCE_DIR) / "tests/golden/hf/llama-plain";
  const auto backend = *CreateCpuBackend({});
  const auto model = LoadModel(folder, *backend);
  ASSERT_TRUE(model.ok()) << model.status();
  TransformerRunnerOptions options;
  options.max_model_len = 20;
  const TickingClock clock;
  // The clock makes each measured step take 15 ms. The first step has 8 tokens. The second step
  // should have 32 tokens, but the context has only 20 tokens. Its 15 ms for 20 tokens count as 24
  // ms for 32 tokens.
  const auto chosen = MeasureStepTokens(*backend, *model, options, clock);
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ(chosen->step_tokens_max, 1024);
  // `measured` contains the steps as they were computed, with at most 20 tokens. The scheduler's
  // model of step time learns from these steps.
  ASSERT_GE(chosen->measured.size(), 4u);
  const MeasuredStep& first = chosen->measured.front();
  EXPECT_EQ(first.duration, std::chrono::milliseconds(15));
  EXPECT_EQ(first.shape.num_prompt_tokens, 8);
  EXPECT_EQ(first.shape.num_positions, 13 + 14 + 15 + 16 + 17 + 18 + 19 + 20);
  EXPECT_EQ(chosen->measured.back().shape.num_prompt_tokens, 20);
  EXPECT_EQ(chosen->measured.back().shape.num_decoding, 0);
}

}  // namespace
}  // namespace incipit
