// Tests which prompt tokens a step computes: the order of running prompts, the share of the oldest
// prompt, and the limits for the duration of a step.
#include <gtest/gtest.h>

#include <set>

#include "tests/scheduler/overlap_fixture.h"
#include "tests/scheduler/scheduler_fixture.h"

namespace incipit {
namespace {

using testing::ElementsAre;
using testing::Pair;

const KvCacheOptions kPromptCache{.num_blocks = 2048, .block_size = 4};

TEST(PromptsTest, AShortPromptBehindALongOneStartsAtOnce) {
  SchedulerFixture fixture({.num_blocks = 16'384, .block_size = 4},
                           {.step_tokens_max = 2048, .running_max = 64});
  fixture.Add(SchedulerFixture::Ask(1, 30'000, 1, 1));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(1, 2048)));
  fixture.Add(SchedulerFixture::Ask(2, 64, 1, 2));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(2, 64), Pair(1, 2048 - 64)));
}

// Plans and commits steps. A step takes 2 ms, and 50 us more for each prompt token and each
// decoding sequence.
class TimedOverlapFixture : public OverlapFixture {
 public:
  using OverlapFixture::OverlapFixture;

  // Plans steps until the maximum number of steps is in flight, and commits the oldest step.
  // Returns the ids of the requests that the planned steps compute.
  std::set<uint64_t> TimedStep() {
    std::set<uint64_t> planned;
    BeginAndEnd([&] {
      if (scheduler.num_in_flight() == 0) return;
      for (const StepPlan::Item& item : newest().plan.items) {
        planned.insert(static_cast<uint64_t>(item.sequence->request().id));
      }
      const StepShape& shape = steps[static_cast<size_t>(oldest)].plan.shape;
      duration =
          std::chrono::microseconds(2000 + 50 * (shape.num_decoding + shape.num_prompt_tokens));
    });
    return planned;
  }
  // Adds a request of `tenant` and returns its id.
  uint64_t AddPrompt(int32_t num_prompt, int32_t num_output, uint64_t tenant) {
    const uint64_t id = ++num_added_;
    Request request = Ask(id, num_prompt, num_output, static_cast<TokenId>(id));
    request.tenant = tenant;
    Add(std::move(request));
    return id;
  }
  // Runs prompts of different lengths, from which the scheduler learns the durations of steps. Then
  // lets 8 sequences of two tenants decode.
  void TrainAndDecode() {
    for (int32_t i = 0; i < 60; ++i) {
      AddPrompt(20 + 7 * i, 5, static_cast<uint64_t>(i % 2));
      TimedStep();
    }
    while (!scheduler.idle()) TimedStep();
    ASSERT_TRUE(scheduler.step_times().trained());
    for (uint64_t i = 0; i < 8; ++i) AddPrompt(50, 2000, i % 2);
    for (int32_t step = 0; step < 20; ++step) TimedStep();
  }
  // Runs steps until all requests `ids` have started, but at most `num_steps` steps. Returns true
  // if all requests have started.
  bool StartWithin(int32_t num_steps, std::set<uint64_t> ids) {
    for (; num_steps > 0 && !ids.empty(); --num_steps) {
      for (const uint64_t id : TimedStep()) ids.erase(id);
    }
    return ids.empty();
  }

 private:
  uint64_t num_added_ = 0;
};

TEST(PromptsTest, ShortPromptsBehindALongOneStartWithinFourStepsWhileSequencesDecode) {
  for (const SchedulingKind scheduling : {SchedulingKind::kFcfs, SchedulingKind::kFair}) {
    for (const int32_t steps_in_flight : {1, 2}) {
      SCOPED_TRACE(testing::Message() << "policy " << static_cast<int>(scheduling) << ", "
                                      << steps_in_flight << " steps in flight");
      TimedOverlapFixture fixture(
          {.num_blocks = 16'384, .block_size = 4},
          {.step_tokens_max = 2048, .running_max = 64, .scheduling = scheduling}, steps_in_flight);
      fixture.TrainAndDecode();
      const uint64_t long_id = fixture.AddPrompt(30'000, 1, 0);
      for (uint64_t round = 0; round < 20; ++round) {
        const uint64_t first = fixture.AddPrompt(64, 4, round % 2);
        const uint64_t second = fixture.AddPrompt(64, 4, round / 2 % 2);
        EXPECT_TRUE(fixture.StartWithin(4, {first, second})) << "round " << round;
      }
      EXPECT_TRUE(fixture.OutputOf(long_id).tokens.empty());
    }
  }
}

TEST(PromptsTest, TheOldestPromptGetsAQuarterWhileShorterOnesGoFirst) {
  SchedulerFixture fixture(kPromptCache,
                           {.step_tokens_max = 100, .running_max = 64, .long_prefill_tokens = 1});
  fixture.Add(SchedulerFixture::Ask(1, 1000, 1, 1));
  fixture.Step();
  for (uint64_t id = 2; id <= 6; ++id) {
    fixture.Add(SchedulerFixture::Ask(id, 60, 1, static_cast<TokenId>(id)));
  }
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(2, 60), Pair(3, 15), Pair(1, 25)));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(3, 45), Pair(1, 55)))
      << "a new prompt of 60 tokens does not fit into the 30 tokens that are left";
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(4, 60), Pair(5, 15), Pair(1, 25)));
  fixture.Add(SchedulerFixture::Ask(7, 15, 1, 7));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(5, 45), Pair(7, 15), Pair(1, 40)));
}

TEST(PromptsTest, TheOldestPromptGetsMoreThanAQuarterIfItIsTheFirst) {
  SchedulerFixture fixture(kPromptCache, {.step_tokens_max = 16, .running_max = 64});
  fixture.Add(SchedulerFixture::Ask(1, 200, 1, 1));
  fixture.Step();
  Request urgent = SchedulerFixture::Ask(2, 60, 1, 2);
  urgent.priority = 1;  // with this priority, request 2 counts as older than request 1
  fixture.Add(urgent);
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(2, 12), Pair(1, 4)));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(2, 15), Pair(1, 1)))
      << "request 1 started first, so each step computes at least one of its tokens";
}

TEST(PromptsTest, WithoutShorterPromptsTheLongOneIsNotThrottled) {
  SchedulerFixture fixture(kPromptCache, {.step_tokens_max = 100, .running_max = 64});
  fixture.Add(SchedulerFixture::Ask(1, 1000, 1, 1));
  fixture.Step();
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(1, 100)));
}

// Request 1 runs and has 900 prompt tokens left to compute. A step has room for 100 tokens.
class LongPromptFixture : public SchedulerFixture {
 public:
  LongPromptFixture()
      : SchedulerFixture(kPromptCache, {.step_tokens_max = 100, .running_max = 64}) {
    Add(Ask(1, 1000, 1, 1));
    Step();
  }
};

TEST(PromptsTest, ARequestOfAQuarterOfTheRunningPromptStartsFirst) {
  LongPromptFixture fixture;
  fixture.Add(SchedulerFixture::Ask(2, 226, 1, 2));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(1, 100)));
  fixture.Add(SchedulerFixture::Ask(3, 200, 1, 3));  // a quarter of 800
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(3, 75), Pair(1, 25)));
}

TEST(PromptsTest, OnlyOneRequestOfAQuarterStartsAtATime) {
  LongPromptFixture fixture;
  fixture.Add(SchedulerFixture::Ask(2, 160, 1, 2));
  fixture.Add(SchedulerFixture::Ask(3, 160, 1, 3));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(2, 75), Pair(1, 25)));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(2, 75), Pair(1, 25)));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(2, 10), Pair(1, 90)));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(3, 75), Pair(1, 25)));
}

TEST(PromptsTest, ARequestOfAQuarterDoesNotStartBeforeAPromptOfAnotherTenant) {
  for (const uint64_t tenant : {1, 2}) {
    SchedulerFixture fixture(kPromptCache, {.step_tokens_max = 100, .running_max = 64});
    for (const uint64_t id : {1, 2}) {
      Request request =
          SchedulerFixture::Ask(id, id == 1 ? 1000 : 200, 1, static_cast<TokenId>(id));
      request.tenant = id == 1 ? 1 : tenant;
      fixture.Add(std::move(request));
      const auto shares = fixture.Step();
      EXPECT_EQ(shares.front().first, id == 1 ? 1 : tenant == 1 ? 2 : 1);
    }
  }
}

// Request 2 of another tenant has received less service than request 3, and is longer than a
// quarter of the running prompt.
TEST(PromptsTest, ARequestOfAQuarterDoesNotStartIfAnotherTenantGoesFirst) {
  LongPromptFixture fixture;
  Request other = SchedulerFixture::Ask(2, 300, 1, 2);
  other.tenant = 2;
  fixture.Add(std::move(other));
  fixture.Add(SchedulerFixture::Ask(3, 200, 1, 3));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(1, 100)));
}

TEST(PromptsTest, ARequestOfAQuarterDoesNotStartBeforeAPromptOfHigherPriority) {
  for (const int32_t priority : {0, -1}) {
    LongPromptFixture fixture;
    Request request = SchedulerFixture::Ask(2, 200, 1, 2);
    request.priority = priority;
    fixture.Add(std::move(request));
    EXPECT_EQ(fixture.Step().front().first, priority == 0 ? 2 : 1);
  }
}

class TimedFixture : public SchedulerFixture {
 public:
  using SchedulerFixture::SchedulerFixture;

  // Plans and commits a step. The step takes 10 ms, and 1 ms more for each decoding sequence and
  // each prompt token. Returns the duration in ms.
  int64_t TimedStep(Time now = {}) {
    Plan(now);
    duration =
        std::chrono::milliseconds(10 + plan.shape.num_decoding + plan.shape.num_prompt_tokens);
    if (!plan.items.empty()) Run();
    return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
  }
  // Runs steps with different numbers of tokens, from which the scheduler learns their durations.
  // Sequences may still decode afterwards.
  void Train() {
    for (uint64_t id = 1; id <= 40; ++id) {
      Add(Ask(id, 10 + 7 * static_cast<int32_t>(id), 20, id % 50));
      TimedStep();
    }
  }
};

TEST(PromptsTest, AStepWithPromptsTakesAtMostTheTargetWhileSequencesDecode) {
  TimedFixture fixture(kPromptCache, {.step_tokens_max = 512,
                                      .running_max = 64,
                                      .itl_target = std::chrono::milliseconds(50),
                                      .ttft_target = std::chrono::hours(1)});
  fixture.Train();
  int64_t longest = 0;
  for (uint64_t id = 101; id <= 110; ++id) {
    fixture.Add(SchedulerFixture::Ask(id, 200, 400, static_cast<TokenId>(id)));
    for (int32_t step = 0; step < 8; ++step) longest = std::max(longest, fixture.TimedStep());
  }
  EXPECT_LE(longest, 55);
  EXPECT_GE(longest, 45);
}

TEST(PromptsTest, PromptsThatWouldMissTheirTargetGetTheWholeBudget) {
  TimedFixture fixture(kPromptCache, {.step_tokens_max = 512,
                                      .running_max = 64,
                                      .itl_target = std::chrono::milliseconds(50),
                                      .ttft_target = std::chrono::seconds(1)});
  fixture.Train();
  fixture.Add(SchedulerFixture::Ask(100, 100, 400, 100));
  while (fixture.OutputOf(100).tokens.empty()) fixture.TimedStep();
  fixture.TimedStep();
  fixture.Add(SchedulerFixture::Ask(101, 400, 1, 101));
  EXPECT_LE(fixture.TimedStep(), 55) << "400 tokens take less than 1 s";
  fixture.Add(SchedulerFixture::Ask(102, 3000, 1, 102));
  EXPECT_GE(fixture.TimedStep(), 500);
}

// The scheduler of this fixture has learnt the duration of steps, and no sequence runs.
class TrainedFixture : public TimedFixture {
 public:
  explicit TrainedFixture(Duration ttft_target = std::chrono::hours(1))
      : TimedFixture(kPromptCache, {.step_tokens_max = 512,
                                    .running_max = 64,
                                    .itl_target = std::chrono::milliseconds(50),
                                    .ttft_target = ttft_target}) {
    Train();
    while (!scheduler.idle()) TimedStep();
  }

  // Adds `count` requests with different prompts of `num_prompt` tokens.
  void AddRequests(int32_t count, int32_t num_prompt, int32_t num_outputs) {
    for (int32_t i = 0; i < count; ++i) {
      Add(Ask(static_cast<uint64_t>(100 + i), num_prompt, num_outputs, 100 + i));
    }
  }
};

// A step with n decoding sequences and no prompt takes 10 + n ms.
TEST(PromptsTest, WithoutATargetAStepWithPromptsTakesAMultipleOfADecodingStep) {
  for (const double ratio : {1.9, 3.8}) {
    TimedFixture fixture(kPromptCache, {.step_tokens_max = 512,
                                        .running_max = 64,
                                        .itl_ratio = ratio,
                                        .ttft_target = std::chrono::hours(1)});
    fixture.Train();
    while (!fixture.scheduler.idle()) fixture.TimedStep();
    fixture.Add(SchedulerFixture::Ask(100, 10, 400, 101));
    fixture.TimedStep();
    fixture.Add(SchedulerFixture::Ask(101, 300, 1, 102));
    EXPECT_NEAR(static_cast<double>(fixture.TimedStep()), 11 * ratio, 2);
  }
}

// Request 200 decodes. The predicted duration of a step with 30 prompt tokens is 41 ms, 3.7 times
// the duration of a step that only decodes.
class DecodingFixture : public TimedFixture {
 public:
  DecodingFixture() : TimedFixture(kPromptCache, {.step_tokens_max = 512, .running_max = 64}) {
    Train();
    while (!scheduler.idle()) TimedStep();
    Add(Ask(200, 10, 400, 101));
    TimedStep();
  }
};

TEST(PromptsTest, APromptThatEndsSharesOnlyAShortStepWithOthers) {
  DecodingFixture fixture;
  fixture.Add(SchedulerFixture::Ask(201, 15, 20, 102));
  fixture.Add(SchedulerFixture::Ask(202, 15, 20, 103));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(200, 1), Pair(201, 15)))
      << "with both prompts, the step would take 41 ms, more than 1.9 * 12 ms";
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(200, 1), Pair(201, 1), Pair(202, 15)));
}

TEST(PromptsTest, ShortPromptsThatEndDoNotStopTheOldestPrompt) {
  DecodingFixture fixture;
  fixture.Add(SchedulerFixture::Ask(201, 1000, 1, 102));
  fixture.Step();
  const int32_t num_before = fixture.scheduler.running().back()->num_planned;
  fixture.Add(SchedulerFixture::Ask(202, 20, 20, 103));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(200, 1), Pair(202, 20), Pair(201, testing::Ge(7))));
  EXPECT_GT(num_before, 0);
}

// The prompts so far have at most 290 tokens, so 5 times the time of an average prompt is about 1
// s. In steps of 42 ms, a prompt of 3,000 tokens takes 4 s. The step should not be longer, because
// 4 s is less than 5 times the time of this prompt.
TEST(PromptsTest, AWaitingLongPromptExtendsTheTargetForFirstTokens) {
  DecodingFixture fixture;
  fixture.Add(SchedulerFixture::Ask(201, 3000, 1, 102));
  for (int32_t step = 0; step < 5; ++step) EXPECT_LE(fixture.TimedStep(), 45);
}

// 8 prompts begin with the same 480 tokens, and have 20 tokens of their own. Before the 480 tokens
// are cached, the prompts seem to need 4 s. Afterwards, they need less than ttft_target.
TEST(PromptsTest, CachedTokensOfWaitingPromptsCountAsComputed) {
  TrainedFixture fixture(std::chrono::seconds(1));
  for (int32_t i = 0; i < 8; ++i) {
    Request request = SchedulerFixture::Ask(static_cast<uint64_t>(100 + i), 480, 20, 100);
    request.prompt.resize(500, 200 + i);
    fixture.Add(request);
  }
  EXPECT_GE(fixture.TimedStep(), 500) << "this step computes the shared prefix";
  EXPECT_LE(fixture.TimedStep(), 55) << "8 prompts with 20 tokens each are not urgent";
  EXPECT_LE(fixture.plan.samples.size(), 3U);
}

TEST(PromptsTest, FirstOutputTokensDoNotWaitForManyOtherPrompts) {
  TrainedFixture fixture;
  fixture.AddRequests(8, 15, 20);
  EXPECT_LE(fixture.TimedStep(), 55);
  EXPECT_GE(fixture.plan.samples.size(), 2U);
  EXPECT_LE(fixture.plan.samples.size(), 3U);
}

TEST(PromptsTest, ALongPromptAloneGetsTheWholeBudget) {
  TrainedFixture fixture;
  fixture.AddRequests(2, 300, 20);
  EXPECT_GE(fixture.TimedStep(), 310) << "the first prompt is computed in one step";
  EXPECT_EQ(fixture.plan.samples.size(), 1U);
}

TEST(PromptsTest, PromptsWithoutDecodingShareAStep) {
  TrainedFixture fixture;
  fixture.AddRequests(8, 15, 1);
  fixture.TimedStep();
  EXPECT_EQ(fixture.plan.samples.size(), 8U);
}

TEST(PromptsTest, PromptsThatWouldMissTheirTargetShareAStep) {
  TrainedFixture fixture(std::chrono::milliseconds(100));
  fixture.AddRequests(8, 15, 20);
  fixture.TimedStep();
  EXPECT_EQ(fixture.plan.samples.size(), 8U);
}

// Request 200 of tenant 2 decodes. Tenant 1 sends 20 prompts of 400 tokens, which take 8 s. The
// queue of tenant 1 is long, because 8 s is more than 32 times ttft_target.
class LongQueueFixture : public TimedFixture {
 public:
  // `idle`: time without requests before the prompts of tenant 1.
  explicit LongQueueFixture(Duration idle, SchedulingKind scheduling = SchedulingKind::kFair,
                            uint64_t decoding_tenant = 2)
      : TimedFixture(kPromptCache, {.step_tokens_max = 512,
                                    .running_max = 64,
                                    .scheduling = scheduling,
                                    .itl_target = std::chrono::milliseconds(50),
                                    .ttft_target = std::chrono::milliseconds(100)}) {
    Train();
    while (!scheduler.idle()) TimedStep();
    AddPrompt(200, 10, 400, decoding_tenant);
    StepAfter(idle);
    for (uint64_t id = 201; id <= 220; ++id) AddPrompt(id, 400, 5, 1);
  }

  void AddPrompt(uint64_t id, int32_t num_prompt, int32_t num_outputs, uint64_t tenant) {
    Request request = Ask(id, num_prompt, num_outputs, static_cast<TokenId>(id));
    request.tenant = tenant;
    Add(std::move(request));
  }
  // Runs a step whose plan is `elapsed` later than the plan of the previous step. Returns the
  // duration of the step in ms.
  int64_t StepAfter(Duration elapsed) { return TimedStep(now_ += elapsed); }

 private:
  Time now_{};
};

TEST(PromptsTest, ALongQueueDoesNotMakeTheStepsOfOtherTenantsLong) {
  LongQueueFixture fixture(std::chrono::seconds(10));
  int32_t num_steps = 0;
  for (; fixture.OutputOf(200).tokens.size() < 100; ++num_steps) {
    EXPECT_LE(fixture.StepAfter(std::chrono::milliseconds(50)), 55);
  }
  EXPECT_GE(fixture.OutputOf(201).tokens.size(), 1U) << "short steps also compute the long queue";
  EXPECT_LE(num_steps, 100);
}

TEST(PromptsTest, ALongQueueMakesTheStepsOfItsOwnTenantLong) {
  LongQueueFixture fixture(std::chrono::seconds(10), SchedulingKind::kFair, 1);
  EXPECT_GE(fixture.StepAfter(std::chrono::milliseconds(50)), 500);
}

TEST(PromptsTest, UrgentPromptsOfOtherTenantsMakeStepsLongBesideALongQueue) {
  LongQueueFixture fixture(std::chrono::seconds(10));
  EXPECT_LE(fixture.StepAfter(std::chrono::milliseconds(50)), 55);
  fixture.AddPrompt(300, 600, 5, 3);
  EXPECT_GE(fixture.StepAfter(std::chrono::milliseconds(50)), 500);
  while (fixture.OutputOf(300).tokens.empty()) fixture.StepAfter(std::chrono::milliseconds(500));
  EXPECT_LE(fixture.StepAfter(std::chrono::milliseconds(500)), 60);
}

TEST(PromptsTest, WithFcfsALongQueueMakesStepsLong) {
  LongQueueFixture fixture(std::chrono::seconds(10), SchedulingKind::kFcfs);
  EXPECT_GE(fixture.StepAfter(std::chrono::milliseconds(50)), 500);
}

// Refusals before a deadline assume that steps are full.
TEST(PromptsTest, ALongQueueMakesStepsLongIfADeadlineIsNear) {
  LongQueueFixture fixture(std::chrono::seconds(10));
  Request urgent = SchedulerFixture::Ask(300, 10, 5, 300);
  urgent.tenant = 2;
  urgent.deadline = Time{} + std::chrono::milliseconds(10'100);
  fixture.Add(std::move(urgent));
  EXPECT_GE(fixture.StepAfter(std::chrono::milliseconds(50)), 500);
}

// Before the first step beside the long queue, no step was long for 1,050 ms.
TEST(PromptsTest, StepsBesideALongQueueAreShortOnlyForTheSpareTime) {
  LongQueueFixture fixture(std::chrono::seconds(1));
  for (int32_t step = 0; step < 21; ++step) {
    EXPECT_LE(fixture.StepAfter(std::chrono::milliseconds(50)), 55) << step;
  }
  for (int32_t step = 0; step < 3; ++step) {
    EXPECT_GE(fixture.StepAfter(std::chrono::milliseconds(50)), 300) << step;
  }
}

TEST(PromptsTest, SpareTimeIsLimited) {
  LongQueueFixture fixture(std::chrono::hours(10));
  EXPECT_LE(fixture.StepAfter(std::chrono::milliseconds(50)), 55);
  EXPECT_LE(fixture.StepAfter(kSpareTimeMax / 2), 55);
  EXPECT_GE(fixture.StepAfter(kSpareTimeMax / 2), 300);
}

// The last 2,288 tokens of request 200 take about 2.3 s. Request 200 is at risk if less than 4
// times this time is left.
TEST(PromptsTest, ARequestOfAQuarterDoesNotStartBeforeAPromptAtRisk) {
  for (const auto left : {std::chrono::seconds(6), std::chrono::seconds(60)}) {
    TrainedFixture fixture;
    Request request = SchedulerFixture::Ask(200, 2800, 1, 200);
    request.deadline = Time{} + left;
    fixture.Add(std::move(request));
    fixture.TimedStep();
    fixture.Add(SchedulerFixture::Ask(201, 450, 1, 201));
    EXPECT_EQ(fixture.Plan().front().first, left == std::chrono::seconds(6) ? 200 : 201);
  }
}

// A step has room for about 38 prompt tokens. So request 201 has about 362 tokens left when the
// shorter request arrives.
TEST(PromptsTest, ARequestOfAQuarterDoesNotStartFromALongQueue) {
  LongQueueFixture fixture(std::chrono::seconds(10));
  fixture.StepAfter(std::chrono::milliseconds(50));
  fixture.AddPrompt(300, 80, 5, 1);
  fixture.StepAfter(std::chrono::milliseconds(50));
  for (const StepPlan::Item& item : fixture.plan.items) {
    EXPECT_NE(item.sequence->request().id, RequestId{300});
  }
}

// Refusals before a deadline assume that steps are full.
TEST(PromptsTest, PromptsShareAStepIfADeadlineIsNear) {
  for (const auto left : {std::chrono::seconds(10), std::chrono::seconds(10'000)}) {
    TrainedFixture fixture;
    Request urgent = SchedulerFixture::Ask(200, 15, 20, 200);
    urgent.deadline = Time{} + left;
    fixture.Add(std::move(urgent));
    fixture.AddRequests(7, 15, 20);
    fixture.TimedStep();
    EXPECT_EQ(fixture.plan.samples.size() == 8, left == std::chrono::seconds(10));
  }
}

}  // namespace
}  // namespace incipit
