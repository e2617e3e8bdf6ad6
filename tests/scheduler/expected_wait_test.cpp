// Compares the predicted time to the first token of a request with the time that the scheduler then
// needs, on a device whose steps take 10 ms and 1 ms for each token.
#include "scheduler/expected_wait.h"

#include <gtest/gtest.h>

#include "tests/scheduler/scheduler_fixture.h"

namespace incipit {
namespace {

using std::chrono::milliseconds;

class WaitFixture : public SchedulerFixture {
 public:
  explicit WaitFixture(int32_t running_max = 64, int32_t num_blocks = 4096)
      : SchedulerFixture({.num_blocks = num_blocks, .block_size = 4},
                         {.step_tokens_max = 100, .running_max = running_max, .itl_ratio = 1.9}) {}

  // No two prompts share a block.
  void AddPrompt(int32_t num_prompt, int32_t num_output) {
    Request request = Ask(++last_id, num_prompt, num_output);
    request.prompt[0] = static_cast<TokenId>(last_id % 50);
    request.prompt[1] = static_cast<TokenId>(last_id / 50);
    request.arrival = now;
    Add(std::move(request));
  }
  void TimedStep() {
    Plan(now);
    duration = milliseconds(10 + plan.num_tokens);
    now += duration;
    if (!plan.items.empty()) Run();
  }
  void TimedSteps(int32_t count) {
    for (int32_t i = 0; i < count; ++i) TimedStep();
  }
  // Runs prompts with a mean length of 60 tokens until the model of step time is trained.
  void Train() {
    for (int32_t i = 0; i < 60; ++i) {
      AddPrompt(20 + 20 * (i % 5), 1 + i % 4);
      while (!scheduler.idle()) TimedStep();
    }
  }
  double Predicted() const {
    const auto wait = scheduler.ForecastWait().WaitFor(scheduler.num_waiting(),
                                                       scheduler.num_waiting_prompt_tokens());
    return wait ? ToSeconds(*wait) : -1;
  }
  // Adds a request with a prompt of 60 tokens. Returns the time until its first token.
  double Measured(int32_t num_output = 1) {
    AddPrompt(60, num_output);
    const uint64_t id = last_id;
    const Time begin = now;
    while (OutputOf(id).tokens.empty()) TimedStep();
    return ToSeconds(now - begin);
  }
  void ExpectPrediction(double error_max, int32_t num_output = 1) {
    const double predicted = Predicted();
    const double measured = Measured(num_output);
    EXPECT_NEAR(predicted, measured, error_max * measured);
  }

  Time now = At(1000);
  uint64_t last_id = 0;
};

TEST(ExpectedWaitTest, IsUnknownUntilTheModelIsTrained) {
  WaitFixture fixture;
  EXPECT_FALSE(fixture.scheduler.ForecastWait().WaitFor(0, 0).has_value());
  fixture.Train();
  EXPECT_TRUE(fixture.scheduler.ForecastWait().WaitFor(0, 0).has_value());
}

TEST(ExpectedWaitTest, AnIdleServerNeedsOnlyTheTimeOfThePrompt) {
  WaitFixture fixture;
  fixture.Train();
  fixture.ExpectPrediction(0.05);  // 70 ms
}

TEST(ExpectedWaitTest, WaitingPromptsAreComputedFirst) {
  WaitFixture fixture;
  fixture.Train();
  for (int32_t i = 0; i < 30; ++i) fixture.AddPrompt(60, 1);
  const double predicted = fixture.Predicted();
  EXPECT_GT(predicted, 1.8);  // 30 waiting prompts of 60 tokens take 1 ms for each token
  EXPECT_NEAR(predicted, fixture.Measured(), 0.1 * predicted);
}

TEST(ExpectedWaitTest, TheRestOfARunningPromptCounts) {
  WaitFixture fixture;
  fixture.Train();
  fixture.AddPrompt(3000, 1);
  fixture.TimedStep();
  // The predicted time is the sum of two times. The rest of the running prompt takes 29 steps of
  // 0.11 s, and a prompt of average length takes less than 0.2 s.
  EXPECT_NEAR(fixture.Predicted(), 29 * 0.11 + 0.2, 0.6);
  while (!fixture.scheduler.idle()) fixture.TimedStep();
  EXPECT_LT(fixture.Predicted(), 0.3);
}

TEST(ExpectedWaitTest, DecodingSequencesSlowPromptsDown) {
  WaitFixture fixture;
  fixture.Train();
  const double idle_wait = fixture.Predicted();
  for (int32_t i = 0; i < 16; ++i) fixture.AddPrompt(60, 400);
  fixture.TimedSteps(60);
  EXPECT_GT(fixture.Predicted(), 1.5 * idle_wait);
  EXPECT_NEAR(fixture.scheduler.ForecastWait().rest_s, 0.013, 0.001);
  fixture.ExpectPrediction(0.3);
  for (int32_t i = 0; i < 4; ++i) fixture.AddPrompt(60, 1);
  fixture.ExpectPrediction(0.3);
}

TEST(ExpectedWaitTest, APromptThatWouldMissTheTargetIsComputedInFullSteps) {
  WaitFixture fixture;
  fixture.Train();
  fixture.AddPrompt(8, 400);
  fixture.TimedStep();
  for (int32_t i = 0; i < 40; ++i) fixture.AddPrompt(60, 1);
  // The prediction must be about 3 s, the time of the 41 prompts in full steps. In the shorter
  // steps that keep the target for the time between tokens, the prompts would take about 5 s.
  const double predicted = fixture.Predicted();
  EXPECT_NEAR(predicted, 41 * 60 * (1 + 11.0 / 99) / 1000, 0.3);
  EXPECT_NEAR(predicted, fixture.Measured(), 0.1 * predicted);
}

TEST(ExpectedWaitTest, ACachedShareOfWaitingPromptsCostsNothing) {
  WaitFixture fixture;
  fixture.Train();
  const double uncached = ToSeconds(*fixture.scheduler.ForecastWait().WaitFor(10, 600));
  for (int32_t i = 0; i < 400; ++i) {
    fixture.Add(SchedulerFixture::Ask(++fixture.last_id, 61, 1, 3));
    fixture.TimedStep();
  }
  // In the latest prompts, all tokens except the last token of each prompt were cached.
  const double cached = ToSeconds(*fixture.scheduler.ForecastWait().WaitFor(10, 600));
  EXPECT_LT(cached, uncached / 10);
}

TEST(ExpectedWaitTest, AFullServerWaitsForTheEndOfSequences) {
  WaitFixture fixture(4);
  fixture.Train();
  for (int32_t i = 0; i < 200; ++i) fixture.AddPrompt(4, 30 + i * 7 % 41);
  while (fixture.scheduler.num_waiting() > 10) fixture.TimedStep();
  // Four sequences decode at the same time, each about 50 tokens in steps of 14 ms. A new request
  // starts when 11 sequences have ended, which takes about 2 s.
  EXPECT_NEAR(fixture.Predicted(), 2, 0.4);
  fixture.ExpectPrediction(0.3);
}

TEST(ExpectedWaitTest, FreeSlotsNeedNoEnd) {
  WaitFixture fixture(8);
  fixture.Train();
  for (int32_t i = 0; i < 4; ++i) fixture.AddPrompt(4, 1000);
  fixture.TimedSteps(30);
  const WaitForecast forecast = fixture.scheduler.ForecastWait();
  EXPECT_EQ(forecast.num_free_slots, 4);
  EXPECT_LT(ToSeconds(*forecast.WaitFor(3, 12)), ToSeconds(*forecast.WaitFor(4, 16)));
  EXPECT_GT(forecast.slot_s, 0);
}

TEST(ExpectedWaitTest, AHeadThatDoesNotFitMakesTheCacheTheLimit) {
  WaitFixture fixture(64, 64);  // 64 slots, 64 cache blocks of 4 tokens
  fixture.Train();
  fixture.AddPrompt(150, 60);
  fixture.TimedSteps(8);
  fixture.AddPrompt(150, 4);
  fixture.TimedStep();
  ASSERT_NE(fixture.scheduler.head(), nullptr);
  const WaitForecast forecast = fixture.scheduler.ForecastWait();
  EXPECT_EQ(forecast.num_free_slots, 0);
  EXPECT_NEAR(ToSeconds(*forecast.WaitFor(100, 0)) - forecast.own_s, 101 * forecast.slot_s, 1e-6);
  while (!fixture.scheduler.idle()) fixture.TimedStep();
  EXPECT_EQ(fixture.scheduler.ForecastWait().num_free_slots, 64);
}

TEST(ExpectedWaitTest, AnIdleServerForgetsTheDecodingSequences) {
  WaitFixture fixture;
  fixture.Train();
  const double before = fixture.Predicted();
  for (int32_t i = 0; i < 16; ++i) fixture.AddPrompt(60, 40);
  while (!fixture.scheduler.idle()) fixture.TimedStep();
  EXPECT_NEAR(fixture.Predicted(), before, 0.1 * before);
}

TEST(WaitForecastTest, IsTheLongestOfThreeTermsPlusTheRequestItself) {
  WaitForecast forecast{.is_known = true,
                        .running_s = 1,
                        .token_s = 0.5,
                        .own_s = 0.25,
                        .rest_s = 1.5,
                        .slot_s = 2,
                        .num_free_slots = 3};
  EXPECT_EQ(forecast.WaitFor(0, 0), FromSeconds(1.75));
  EXPECT_EQ(forecast.WaitFor(2, 8), FromSeconds(5.25));
  EXPECT_EQ(forecast.WaitFor(10, 8), FromSeconds(16.25));
  EXPECT_EQ(forecast.WaitFor(10, 100), FromSeconds(51.25));
  EXPECT_EQ(forecast.WaitFor(int64_t{1} << 60, 0), FromSeconds(1e9));
  forecast.is_known = false;
  EXPECT_EQ(forecast.WaitFor(0, 0), std::nullopt);
}

TEST(SlotTimesTest, ConvergesToTheMeanAndCountsRunningSequences) {
  SlotTimes times;
  EXPECT_EQ(times.mean_s(), 0);
  times.AddStep(3, milliseconds(100));
  EXPECT_DOUBLE_EQ(times.mean_s(), 0.3);  // 3 sequences ran for 0.1 s, and none has ended
  for (int32_t i = 0; i < 500; ++i) {
    times.AddStep(4, milliseconds(250));
    times.AddEnd();
  }
  EXPECT_NEAR(times.mean_s(), 1, 0.03);
  for (int32_t i = 0; i < 500; ++i) times.AddStep(4, milliseconds(250));
  EXPECT_GT(times.mean_s(), 5);  // no sequence ended in the last 500 steps
}

}  // namespace
}  // namespace incipit
