// Tests requests whose first token has a deadline: refusal of requests that would be late, and the
// order of requests at risk.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "scheduler/deadline_heap.h"
#include "tests/scheduler/scheduler_fixture.h"

namespace incipit {
namespace {

using testing::ElementsAre;
using testing::Pair;

constexpr uint64_t kReportedTenant = 5;

// A scheduler that has learned the step times: 10 ms for each step, and 1 ms more for each token of
// the step. `now` is the simulated time.
class DeadlineFixture : public SchedulerFixture {
 public:
  explicit DeadlineFixture(int32_t running_max = 64)
      : SchedulerFixture({.num_blocks = 4096, .block_size = 4},
                         {.step_tokens_max = 100,
                          .running_max = running_max,
                          .shares = {.reported = {kReportedTenant}}}) {
    for (uint64_t id = 1000; id < 1020; ++id) {
      Add(SchedulerFixture::Ask(id, 20 + 4 * static_cast<int32_t>(id % 20), 1, NextToken()));
      TimedStep();
    }
  }

  Request AskBy(uint64_t id, int32_t num_prompt, int64_t deadline_ms) {
    Request request = SchedulerFixture::Ask(id, num_prompt, 1, NextToken());
    request.arrival = now;
    request.first_token_deadline = now + std::chrono::milliseconds(deadline_ms);
    return request;
  }
  // Returns a request like AskBy, whose prompt has no token in common with other requests.
  Request AskUncached(uint64_t id, int32_t num_prompt, int64_t deadline_ms) {
    Request request = AskBy(id, num_prompt, deadline_ms);
    std::ranges::fill(request.prompt, static_cast<TokenId>(100 + id));
    return request;
  }
  Shares TimedStep() {
    Shares shares = Plan(now);
    Collect();
    duration = std::chrono::milliseconds(10 + plan.num_tokens);
    now += duration;
    if (!plan.items.empty()) Run();
    return shares;
  }
  void TimedStepsToTheEnd() {
    while (!scheduler.idle()) TimedStep();
  }
  TokenId NextToken() { return next_token_++ % 50; }

  Time now = At(1000);

 private:
  TokenId next_token_ = 0;
};

TEST(DeadlineTest, ARequestThatCannotBeInTimeIsRefusedWithoutAStep) {
  DeadlineFixture fixture;
  fixture.Add(fixture.AskBy(1, 2000, 500));  // the prompt takes about 2,200 ms
  const auto shares = fixture.TimedStep();
  EXPECT_TRUE(shares.empty());
  EXPECT_EQ(fixture.OutputOf(1).finish, FinishReason::kTooLate);
  EXPECT_FALSE(fixture.admissions.contains(1));
  EXPECT_TRUE(fixture.scheduler.idle());
}

TEST(DeadlineTest, RefusalsAreCountedForEachReportedTenant) {
  DeadlineFixture fixture;
  for (uint64_t id = 1; id <= 3; ++id) {
    Request request = fixture.AskBy(id, 2000, 500);  // the prompt takes about 2,200 ms
    request.tenant = id < 3 ? kReportedTenant : 0;
    fixture.Add(request);
  }
  fixture.TimedStep();
  const PerTenant<int64_t> too_late = fixture.scheduler.TakeCounts().too_late;
  EXPECT_EQ(too_late.front(), 2);
  EXPECT_EQ(too_late.back(), 1);
}

TEST(DeadlineTest, ARequestWithEnoughTimeIsServed) {
  DeadlineFixture fixture;
  fixture.Add(fixture.AskBy(1, 200, 1000));
  fixture.TimedStepsToTheEnd();
  EXPECT_EQ(fixture.OutputOf(1).finish, FinishReason::kLength);
}

TEST(DeadlineTest, ACachedPromptNeedsLessTime) {
  DeadlineFixture fixture;
  Request first = fixture.AskBy(1, 2000, 100'000);
  Request again = first;
  again.id = RequestId{2};
  fixture.Add(first);
  fixture.TimedStepsToTheEnd();
  again.arrival = fixture.now;
  again.first_token_deadline = fixture.now + std::chrono::milliseconds(100);
  fixture.Add(again);
  fixture.TimedStepsToTheEnd();
  EXPECT_EQ(fixture.OutputOf(2).finish, FinishReason::kLength);
}

TEST(DeadlineTest, ARequestThatWaitsTooLongForASlotIsRefused) {
  DeadlineFixture fixture(1);
  fixture.Add(SchedulerFixture::Ask(1, 4, 100, 7));
  fixture.TimedStep();
  fixture.Add(fixture.AskBy(2, 80, 600));
  Time refused_at{};
  while (!fixture.OutputOf(2).finish) {
    fixture.TimedStep();
    refused_at = fixture.now;
  }
  EXPECT_EQ(fixture.OutputOf(2).finish, FinishReason::kTooLate);
  EXPECT_FALSE(fixture.OutputOf(1).finish.has_value());
  EXPECT_LT(refused_at, fixture.now + std::chrono::milliseconds(600));
}

// Returns the number of requests, from `first` to `last`, that were refused.
int32_t NumRefused(DeadlineFixture& fixture, uint64_t first, uint64_t last) {
  int32_t num_refused = 0;
  for (uint64_t id = first; id <= last; ++id) {
    num_refused += fixture.OutputOf(id).finish == FinishReason::kTooLate;
  }
  return num_refused;
}

// Each prompt takes a step of 100 ms. So 10 of the 30 requests can be in time. The first plan
// refuses the others, except a few that the error of the predictions may save.
TEST(DeadlineTest, RequestsBehindTooManyPromptsAreRefusedByTheFirstPlan) {
  DeadlineFixture fixture;
  for (uint64_t id = 1; id <= 30; ++id) {
    Request request = fixture.AskUncached(id, 90, 1000);
    fixture.Add(std::move(request));
  }
  fixture.TimedStep();
  EXPECT_GE(NumRefused(fixture, 1, 30), 18);
  EXPECT_EQ(NumRefused(fixture, 1, 8), 0);
  fixture.TimedStepsToTheEnd();
  EXPECT_GE(NumRefused(fixture, 1, 30), 20);
  EXPECT_LE(NumRefused(fixture, 1, 30), 22);
}

// The scheduler checks request 1 first. 40 requests of higher priority arrive later, and are before
// request 1 in the queue. Only about 5 of them can be in time.
TEST(DeadlineTest, RequestsThatCannotBeInTimeDoNotDelayOthers) {
  DeadlineFixture fixture;
  Request last = fixture.AskBy(1, 90, 1500);
  last.arrival -= std::chrono::milliseconds(1);
  last.prompt.assign(90, 100);
  fixture.Add(std::move(last));
  for (uint64_t id = 2; id <= 41; ++id) {
    Request request = fixture.AskUncached(id, 90, 600);
    request.priority = 1;
    fixture.Add(std::move(request));
  }
  fixture.TimedStepsToTheEnd();
  EXPECT_EQ(fixture.OutputOf(1).finish, FinishReason::kLength);
  EXPECT_GE(NumRefused(fixture, 2, 41), 34);
}

// The prompts of requests 1 to 40 take 70 ms each. These requests are at risk after 750 ms, and
// request 41 after 760 ms. Request 41 then has the earliest deadline and goes first.
TEST(DeadlineTest, EarlierRequestsWithLaterDeadlinesDoNotCountAsEarlier) {
  DeadlineFixture fixture;
  for (uint64_t id = 1; id <= 41; ++id) {
    Request request =
        id <= 40 ? fixture.AskUncached(id, 60, 1030) : fixture.AskUncached(id, 50, 1000);
    fixture.Add(std::move(request));
  }
  fixture.TimedStepsToTheEnd();
  EXPECT_EQ(fixture.OutputOf(41).finish, FinishReason::kLength);
}

TEST(DeadlineTest, RequestsWithoutADeadlineDoNotCountAsEarlier) {
  DeadlineFixture fixture;
  for (uint64_t id = 1; id <= 40; ++id) {
    fixture.Add(SchedulerFixture::Ask(id, 90, 1, fixture.NextToken()));
  }
  fixture.Add(fixture.AskBy(41, 90, 1000));
  fixture.TimedStepsToTheEnd();
  EXPECT_EQ(fixture.OutputOf(41).finish, FinishReason::kLength);
}

// Together, the prompts have 4,000 tokens and take more than 4 s. The shared prefix is computed
// once, so the prompts take less than 1 s.
TEST(DeadlineTest, APrefixThatWaitingRequestsShareCountsOnce) {
  DeadlineFixture fixture;
  for (uint64_t id = 1; id <= 40; ++id) {
    Request request = fixture.AskBy(id, 96, 1500);
    request.prompt.assign(96, 60);
    request.prompt.insert(request.prompt.end(), 4, static_cast<TokenId>(100 + id));
    fixture.Add(std::move(request));
  }
  fixture.TimedStepsToTheEnd();
  EXPECT_EQ(NumRefused(fixture, 1, 40), 0);
}

// Request 29 has the longest cached prefix, and no request is at risk. So request 29 starts first.
TEST(DeadlineTest, EarlierRequestsWithShorterCachedPrefixesDoNotCountAsEarlier) {
  DeadlineFixture fixture;
  const std::vector<TokenId> cached(90, 200);
  Request first = fixture.AskBy(101, 90, 100'000);
  first.prompt = cached;
  fixture.Add(first);
  fixture.TimedStepsToTheEnd();
  for (uint64_t id = 1; id <= 28; ++id) {
    Request request = fixture.AskUncached(id, 60, 1680);
    fixture.Add(std::move(request));
  }
  Request last = fixture.AskBy(29, 0, 1700);
  last.prompt = cached;
  last.prompt.insert(last.prompt.end(), 58, 201);
  fixture.Add(std::move(last));
  fixture.TimedStepsToTheEnd();
  EXPECT_EQ(fixture.OutputOf(29).finish, FinishReason::kLength);
}

// 200 requests need more time than they have. One plan refuses all of them, although it counts the
// requests ahead of only a few.
TEST(DeadlineTest, OnePlanRefusesAllRequestsThatCannotBeInTimeAlone) {
  DeadlineFixture fixture;
  for (uint64_t id = 1; id <= 200; ++id) {
    Request request = fixture.AskUncached(id, 2000, 500);  // the prompt takes about 2,200 ms
    fixture.Add(std::move(request));
  }
  fixture.TimedStep();
  EXPECT_EQ(NumRefused(fixture, 1, 200), 200);
}

// One sequence runs at a time, and each takes about 240 ms. Request 1 has 2 s. 30 requests of
// higher priority arrive later, and have 500 ms. Only about 2 of them can be in time.
TEST(DeadlineTest, RequestsThatGetNoSlotInTimeDoNotDelayOthers) {
  DeadlineFixture fixture(1);
  for (uint64_t id = 101; id <= 120; ++id) fixture.Add(SchedulerFixture::Ask(id, 20, 20, 1));
  fixture.TimedStepsToTheEnd();
  for (uint64_t id = 1; id <= 31; ++id) {
    Request request = fixture.AskUncached(id, 8, id == 1 ? 2000 : 500);
    request.arrival += std::chrono::milliseconds(id == 1 ? -1 : 0);
    request.priority = id == 1 ? 0 : 1;
    request.output_tokens_max = 20;
    fixture.Add(std::move(request));
  }
  fixture.TimedStepsToTheEnd();
  EXPECT_EQ(fixture.OutputOf(1).finish, FinishReason::kLength);
}

// One sequence runs at a time, and each takes about 240 ms. So at most 5 of the 30 requests can be
// in time.
TEST(DeadlineTest, RequestsBehindTooManyOutputsAreRefusedByTheFirstPlan) {
  DeadlineFixture fixture(1);
  for (uint64_t id = 1; id <= 20; ++id) fixture.Add(SchedulerFixture::Ask(id, 20, 20, 1));
  fixture.TimedStepsToTheEnd();
  for (uint64_t id = 21; id <= 50; ++id) {
    Request request = fixture.AskUncached(id, 20, 1000);
    request.output_tokens_max = 20;
    fixture.Add(std::move(request));
  }
  fixture.TimedStep();
  EXPECT_GE(NumRefused(fixture, 21, 50), 14);
  EXPECT_EQ(NumRefused(fixture, 21, 24), 0);
  fixture.TimedStepsToTheEnd();
  EXPECT_GE(NumRefused(fixture, 21, 50), 24);
  EXPECT_LE(NumRefused(fixture, 21, 50), 26);
}

TEST(DeadlineTest, TheEarliestDeadlineAtRiskGoesFirst) {
  DeadlineFixture fixture;
  fixture.Add(fixture.AskBy(1, 90, 100'000));
  fixture.Add(fixture.AskBy(2, 90, 380));
  fixture.Add(fixture.AskBy(3, 90, 280));
  std::vector<uint64_t> order;
  while (!fixture.scheduler.idle()) {
    for (const auto& [id, num_tokens] : fixture.TimedStep()) {
      if (std::ranges::count(order, id) == 0) order.push_back(id);
    }
  }
  EXPECT_THAT(order, ElementsAre(3, 2, 1));
  for (const uint64_t id : {1, 2, 3}) EXPECT_EQ(fixture.OutputOf(id).finish, FinishReason::kLength);
}

// Adds request 1, whose prompt takes 10 steps if no other request runs. Then adds 60 requests that
// decode in the same steps. These steps are longer, so the prompt exceeds its deadline of 2 s.
void StartPromptThatBecomesLate(DeadlineFixture& fixture, int32_t prompt_logprobs) {
  Request request = fixture.AskBy(1, 1000, 2000);
  request.prompt_logprobs = prompt_logprobs;
  fixture.Add(request);
  fixture.TimedStep();
  ASSERT_FALSE(fixture.OutputOf(1).finish.has_value());
  for (uint64_t id = 2; id <= 61; ++id) {
    fixture.Add(SchedulerFixture::Ask(id, 4, 200, static_cast<TokenId>(id)));
  }
}

TEST(DeadlineTest, ARunningPromptThatCanNoLongerBeInTimeEnds) {
  DeadlineFixture fixture;
  const Time due = fixture.now + std::chrono::milliseconds(2000);
  StartPromptThatBecomesLate(fixture, -1);
  while (!fixture.OutputOf(1).finish) fixture.TimedStep();
  EXPECT_EQ(fixture.OutputOf(1).finish, FinishReason::kTooLate);
  EXPECT_TRUE(fixture.OutputOf(1).tokens.empty());
  EXPECT_LT(fixture.now, due);
}

// Log probabilities of the prompt may have been sent already, so the request is not refused.
TEST(DeadlineTest, ARunningPromptThatReportsLogProbabilitiesContinues) {
  DeadlineFixture fixture;
  StartPromptThatBecomesLate(fixture, 1);
  fixture.TimedStepsToTheEnd();
  EXPECT_EQ(fixture.OutputOf(1).finish, FinishReason::kLength);
}

// Request 2 must get its first token within 75 ms. A step takes 10 ms, and 1 ms for each token. The
// step of request 2 therefore has room for only about 40 of the 1,000 prompt tokens of request 1.
TEST(DeadlineTest, AStepIsShortIfAFirstTokenIsDue) {
  DeadlineFixture fixture;
  fixture.Add(SchedulerFixture::Ask(1, 1000, 1, 60));
  fixture.TimedStep();
  fixture.Add(fixture.AskBy(2, 20, 75));
  const Time due = fixture.now + std::chrono::milliseconds(75);
  const auto shares = fixture.TimedStep();
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_THAT(shares[0], Pair(2, 20));
  EXPECT_GT(shares[1].second, 20);
  EXPECT_LT(shares[1].second, 45);
  EXPECT_EQ(fixture.OutputOf(2).finish, FinishReason::kLength);
  EXPECT_LE(fixture.now, due);
}

// Request 3 has the earliest deadline and starts first. If requests 2 and 4 joined its step, the
// step would end after their deadlines. So both are refused.
TEST(DeadlineTest, ARequestThatWouldBeLateAtTheEndOfTheStepIsRefused) {
  DeadlineFixture fixture;
  fixture.Add(fixture.AskBy(2, 40, 97));
  fixture.Add(fixture.AskBy(3, 50, 95));
  fixture.Add(fixture.AskBy(4, 60, 110));
  fixture.TimedStepsToTheEnd();
  for (const uint64_t id : {2, 4}) {
    EXPECT_EQ(fixture.OutputOf(id).finish, FinishReason::kTooLate);
    EXPECT_FALSE(fixture.admissions.contains(id));
  }
  EXPECT_EQ(fixture.OutputOf(3).finish, FinishReason::kLength);
}

TEST(DeadlineTest, WithoutMeasuredStepsNothingIsRefused) {
  SchedulerFixture fixture;
  Request request = SchedulerFixture::Ask(1, 40, 1);
  request.first_token_deadline = At(1);
  fixture.Add(request);
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(1, 40)));
}

// Steps that are measured before the first request may be too slow, because another process used
// the machine. If these measurements led to refusals, no step would run, and the predictions would
// never be corrected.
TEST(DeadlineTest, StepsMeasuredBeforehandRefuseNothing) {
  SchedulerOptions options{.step_tokens_max = 64, .running_max = 8};
  for (int32_t i = 0; i < 16; ++i) {
    MeasuredStep& step = options.measured_steps.emplace_back();
    step.shape.AddPromptChunk(0, 8 << i % 3);
    step.duration = std::chrono::seconds(step.shape.num_prompt_tokens);
  }
  SchedulerFixture fixture({.num_blocks = 64, .block_size = 4}, options);
  Request request = SchedulerFixture::Ask(1, 40, 1);
  request.first_token_deadline = At(1);
  fixture.Add(request);
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(1, 40)));
}

TEST(DeadlineHeapTest, EqualsASortedListAfterAnySequenceOfCalls) {
  constexpr size_t kNumGroups = 50;
  std::vector<SequenceGroup> groups(kNumGroups);
  std::vector<SequenceGroup*> expected;
  uint64_t state = 3;
  const auto random = [&state](uint64_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % bound;
  };
  DeadlineHeap heap;
  for (int32_t step = 0; step < 20'000; ++step) {
    SequenceGroup& group = groups[random(kNumGroups)];
    if (std::erase(expected, &group) > 0) {
      heap.Remove(group);
    } else {
      group.look_at = At(static_cast<int64_t>(random(100)));
      heap.Push(group);
      expected.push_back(&group);
    }
    Time earliest = kNoDeadline;
    for (const SequenceGroup* waiting : expected) earliest = std::min(earliest, waiting->look_at);
    ASSERT_EQ(heap.next(), earliest);
    if (!expected.empty()) {
      ASSERT_EQ(heap.front().look_at, earliest);
    }
  }
  SequenceGroup without;
  heap.Push(without);
  EXPECT_EQ(without.deadline_index, -1);
}

}  // namespace
}  // namespace incipit
