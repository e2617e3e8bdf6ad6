// Tests the order of requests: fairness between tenants, aging, order by cached prefix, requests
// that start before a request that does not fit into the cache, and the choice of the sequence to
// preempt.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/scheduler/scheduler_fixture.h"

namespace incipit {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Key;
using testing::Not;
using testing::Pair;

const KvCacheOptions kRoomy{.num_blocks = 2048, .block_size = 4};

Request AskOf(uint64_t tenant, uint64_t id, int32_t num_prompt, int32_t num_output) {
  Request request = SchedulerFixture::Ask(id, num_prompt, num_output, static_cast<TokenId>(id));
  request.tenant = tenant;
  return request;
}

TEST(FairTest, ATenantWithManyRequestsDoesNotHoldUpAnother) {
  for (const SchedulingKind kind : {SchedulingKind::kFcfs, SchedulingKind::kFair}) {
    SchedulerFixture fixture(kRoomy,
                             {.step_tokens_max = 16, .running_max = 64, .scheduling = kind});
    for (uint64_t id = 1; id <= 20; ++id) fixture.Add(AskOf(1, id, 16, 1));
    fixture.Step();
    fixture.Add(AskOf(2, 100, 16, 1));
    int32_t num_steps = 0;
    while (!fixture.OutputOf(100).finish) {
      fixture.Step();
      ++num_steps;
    }
    EXPECT_EQ(num_steps, kind == SchedulingKind::kFair ? 2 : 20);
  }
}

TEST(FairTest, TwoTenantsGetServiceInProportionToTheirWeights) {
  SchedulerFixture fixture(
      kRoomy, {.step_tokens_max = 16, .running_max = 64, .shares = {.weights = {{2, 3.0}}}});
  for (uint64_t id = 1; id <= 80; ++id) fixture.Add(AskOf(1 + id % 2, id, 16, 1));
  for (int32_t step = 0; step < 40; ++step) fixture.Step();
  std::map<uint64_t, int32_t> num_ended;
  for (uint64_t id = 1; id <= 80; ++id) {
    if (fixture.OutputOf(id).finish) ++num_ended[1 + id % 2];
  }
  EXPECT_EQ(num_ended[1], 10);
  EXPECT_EQ(num_ended[2], 30);
}

TEST(FairTest, PriorityCountsWithinATenantOnly) {
  SchedulerFixture fixture(kRoomy, {.step_tokens_max = 16, .running_max = 64});
  for (uint64_t id = 1; id <= 3; ++id) {
    Request request = AskOf(1, id, 16, 1);
    request.priority = id == 3 ? 5 : 1;
    fixture.Add(request);
  }
  for (uint64_t id = 11; id <= 13; ++id) fixture.Add(AskOf(2, id, 16, 1));
  std::vector<uint64_t> order;
  for (int32_t step = 0; step < 6; ++step) order.push_back(fixture.Step().front().first);
  EXPECT_THAT(order, ElementsAre(3, 11, 1, 12, 2, 13));
}

// One tenant holds all four slots with long outputs. Then the other tenant gets two of the slots.
TEST(FairTest, ATenantGetsItsShareOfTheSlots) {
  SchedulerFixture fixture(kRoomy, {.step_tokens_max = 64, .running_max = 4});
  for (uint64_t id = 1; id <= 6; ++id) fixture.Add(AskOf(1, id, 4, 200));
  fixture.Step();
  for (int32_t step = 0; step < 10; ++step) fixture.Step();
  for (uint64_t id = 11; id <= 16; ++id) fixture.Add(AskOf(2, id, 4, 200));
  int32_t num_preemptions = 0;
  for (int32_t step = 0; step < 50; ++step) {
    fixture.Step();
    num_preemptions += fixture.plan.num_preemptions;
  }
  EXPECT_EQ(num_preemptions, 2);
  std::map<uint64_t, int32_t> num_running;
  for (const Sequence* sequence : fixture.scheduler.running()) {
    ++num_running[sequence->request().tenant];
  }
  EXPECT_THAT(num_running, ElementsAre(Pair(1, 2), Pair(2, 2)));
  EXPECT_EQ(fixture.scheduler.running().front()->request().id, RequestId{1})
      << "the sequence that started first must not be preempted";
}

// In each step, four tenants send short prompts, twice as many tokens as a step computes. The long
// prompt of tenant 1 does not fit into a step. Short prompts of other tenants must not start before
// the long prompt again and again.
TEST(FairTest, ShortPromptsOfOtherTenantsDoNotHoldUpALongOne) {
  for (const SchedulingKind kind : {SchedulingKind::kFcfs, SchedulingKind::kFair}) {
    SchedulerFixture fixture(
        kRoomy,
        {.step_tokens_max = 16, .running_max = 64, .scheduling = kind, .long_prefill_tokens = 8});
    uint64_t id = 2;
    int32_t num_steps = 0;
    for (; num_steps < 60 && !fixture.admissions.contains(1); ++num_steps) {
      if (num_steps == 2) fixture.Add(AskOf(1, 1, 100, 1));
      for (uint64_t tenant = 2; tenant <= 5; ++tenant) fixture.Add(AskOf(tenant, id++, 8, 1));
      fixture.Step();
    }
    // The 8 short prompts that arrived before the long prompt and have not started need 4 steps.
    EXPECT_LE(num_steps, 6) << "policy " << static_cast<int>(kind);
  }
}

// Tenant 1 has paid for the whole prompt of request 2. A preemption of request 2 would refund a
// part of the price, so that request 2 would start again before the request of the other tenant.
TEST(FairTest, APromptIsNotPreemptedIfItsRefundLetsItBeAdmittedAgain) {
  SchedulerFixture fixture(kRoomy, {.step_tokens_max = 5, .running_max = 2});
  fixture.Add(AskOf(1, 1, 1, 30));
  fixture.Add(AskOf(1, 2, 60, 10));
  fixture.Step();
  fixture.Add(AskOf(7, 3, 40, 1));
  int32_t num_preemptions = 0;
  while (!fixture.scheduler.idle()) {
    fixture.Step();
    if (fixture.plan.num_preemptions == 0) continue;
    ++num_preemptions;
    EXPECT_EQ(fixture.scheduler.running().back()->request().id, RequestId{3});
  }
  EXPECT_EQ(num_preemptions, 1);
}

TEST(AgingTest, AWaitingRequestOvertakesLaterRequestsOfHigherPriority) {
  SchedulerFixture fixture(
      kRoomy,
      {.step_tokens_max = 4, .running_max = 64, .priority_aging = std::chrono::milliseconds(100)});
  Request low = SchedulerFixture::Ask(1, 4, 1, 1);
  low.arrival = At(0);
  fixture.Add(low);
  std::vector<uint64_t> order;
  for (uint64_t id = 2; id <= 6; ++id) {
    Request high = SchedulerFixture::Ask(id, 4, 1, static_cast<TokenId>(id));
    high.priority = 1;
    high.arrival = At(static_cast<int64_t>(id) * 30);
    fixture.Add(high);
  }
  for (int32_t step = 0; step < 6; ++step) order.push_back(fixture.Step(At(200)).front().first);
  EXPECT_THAT(order, ElementsAre(2, 3, 1, 4, 5, 6))
      << "the requests that arrived at 60 ms and 90 ms must start first";
}

TEST(ReorderTest, ACachedPromptGoesBeforeAnEarlierOneThatIsNot) {
  SchedulerFixture fixture(kRoomy, {.step_tokens_max = 16, .running_max = 1});
  fixture.Add(SchedulerFixture::Ask(1, 16, 1, 1));
  fixture.StepToTheEnd();
  for (const uint64_t id : {2, 3}) fixture.Add(SchedulerFixture::Ask(id, 17, 1, id == 3 ? 1 : 9));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(3, 1)));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(2, 16)));
}

TEST(ReorderTest, AWindowOfOneKeepsTheOrder) {
  SchedulerFixture fixture(kRoomy, {.step_tokens_max = 16, .running_max = 1, .reorder_window = 1});
  fixture.Add(SchedulerFixture::Ask(1, 16, 1, 1));
  fixture.StepToTheEnd();
  for (const uint64_t id : {2, 3}) fixture.Add(SchedulerFixture::Ask(id, 16, 1, id == 3 ? 1 : 9));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(2, 16)));
}

TEST(ReorderTest, NoCachedPromptOvertakesAHigherPriority) {
  SchedulerFixture fixture(kRoomy, {.step_tokens_max = 16, .running_max = 1});
  fixture.Add(SchedulerFixture::Ask(1, 16, 1, 1));
  fixture.StepToTheEnd();
  for (const uint64_t id : {2, 3}) {
    Request request = SchedulerFixture::Ask(id, 16, 1, id == 3 ? 1 : 9);
    request.priority = id == 2 ? 1 : 0;
    fixture.Add(request);
  }
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(2, 16)));
}

TEST(ReorderTest, ARequestIsOvertakenABoundedNumberOfTimes) {
  SchedulerFixture fixture(kRoomy, {.step_tokens_max = 16, .running_max = 1});
  fixture.Add(SchedulerFixture::Ask(1, 16, 1, 1));
  fixture.StepToTheEnd();
  fixture.Add(SchedulerFixture::Ask(2, 16, 1, 9));
  for (uint64_t id = 100; id < 300; ++id) fixture.Add(SchedulerFixture::Ask(id, 17, 1, 1));
  int32_t num_before = 0;
  while (fixture.Step().front().first != 2) ++num_before;
  EXPECT_EQ(num_before, kOvertakenMax);
}

// Returns a request of tenant 1 whose prompt has `num_prompt` - 1 tokens of the prompt of
// request 1.
Request AskForPrefix(uint64_t id, int32_t num_prompt) {
  Request request = AskOf(1, id, num_prompt, 1);
  std::fill(request.prompt.begin(), request.prompt.end() - 1, TokenId{1});
  return request;
}

// Request 1 computes a prompt of 30,000 tokens in 120 steps or more. Request 2 waits for a prefix
// of this prompt. Meanwhile, short prompts of the same tenant arrive.
TEST(ReorderTest, ARequestThatWaitsForAPrefixHoldsUpNoOtherWhileThePrefixIsComputed) {
  SchedulerFixture fixture({.num_blocks = 20'000, .block_size = 4},
                           {.step_tokens_max = 256, .running_max = 64});
  fixture.Add(AskOf(1, 1, 30'000, 1));
  fixture.Step();
  fixture.Add(AskForPrefix(2, 29'000));
  uint64_t id = 10;
  for (int32_t step = 0; step < 30; ++step) {
    for (int32_t i = 0; i < 10; ++i) fixture.Add(AskOf(1, id++, 8, 1));
    fixture.Step();
    EXPECT_EQ(fixture.scheduler.num_waiting(), 1) << "step " << step;
  }
  fixture.StepToTheEnd();
  EXPECT_EQ(fixture.admissions[2].num_cached_tokens, 28'999);
}

// Number of requests that AddWaiterOfStalled adds before request 2.
constexpr uint64_t kBeforeWaiter = 15;

// Starts request 9, which decodes and is protected, then the prompt of request 1, and then the long
// prompt of request 3, which is ordered before request 1. Then 12 short prompts fill a step. Of the
// two long prompts, only request 3 gets tokens in this step, because request 3 is first in the
// order of the policy. So request 1 is stalled. Then adds request 2, which waits for a prefix that
// request 1 computes.
void AddWaiterOfStalled(SchedulerFixture& fixture, int32_t num_prompt) {
  fixture.Add(AskOf(1, 9, 1, 1000));
  fixture.Step();
  fixture.Add(AskOf(1, 1, 2000, 1));
  fixture.Step();
  Request older = AskOf(1, 3, 400, 1);
  older.priority = 2;
  fixture.Add(older);
  fixture.Step();
  ASSERT_EQ(fixture.scheduler.num_running(), 3);
  for (uint64_t id = 1000; id < 1012; ++id) fixture.Add(AskOf(1, id, 1, 1));
  fixture.Step();
  fixture.Add(AskForPrefix(2, num_prompt));
}

// `long_prefill_tokens` lets two long prompts run together.
const SchedulerOptions kTwoLong{
    .step_tokens_max = 16, .running_max = 128, .long_prefill_tokens = 2000};

TEST(ReorderTest, ARequestThatWaitsForAStalledPrefixIsOvertakenABoundedNumberOfTimes) {
  for (const int32_t num_prompt : {77, 1200}) {
    SchedulerFixture fixture(kRoomy, kTwoLong);
    AddWaiterOfStalled(fixture, num_prompt);
    uint64_t id = 2000;
    size_t num_before = 0;  // admissions in the steps before request 2 starts
    while (!fixture.admissions.contains(2)) {
      num_before = fixture.admissions.size();
      for (int32_t i = 0; i < 20; ++i) fixture.Add(AskOf(1, id++, 1, 1));
      fixture.Step();
    }
    EXPECT_EQ(fixture.admissions[2].num_cached_tokens, num_prompt - 1);
    EXPECT_EQ(num_before, kBeforeWaiter + kOvertakenMax);
    fixture.StepToTheEnd();
    EXPECT_EQ(fixture.admissions.size(), kBeforeWaiter + 1 + id - 2000);
  }
}

// Request 2 waits for a stalled prefix and was overtaken the maximum number of times. Request 4 is
// before request 2 in the queue, because request 4 has a higher priority. Request 5 stands after
// request 2, so request 5 must not start, although its prompt is cached and request 4 may start.
TEST(ReorderTest, ACachedPromptDoesNotOvertakeARequestThatWasOvertakenOften) {
  SchedulerFixture fixture(kRoomy, kTwoLong);
  fixture.Add(AskOf(1, 6, 16, 1));
  fixture.StepToTheEnd();
  AddWaiterOfStalled(fixture, 77);
  for (uint64_t id = 10; id < 110; ++id) fixture.Add(AskOf(1, id, 1, 1));
  while (fixture.admissions.size() < 1 + kBeforeWaiter + kOvertakenMax) fixture.Step();
  Request first = AskOf(1, 4, 1, 1);
  first.priority = 1;
  first.arrival = Time{} + std::chrono::seconds(5);
  Request cached = AskOf(1, 5, 17, 1);
  std::fill(cached.prompt.begin(), cached.prompt.end(), TokenId{6});
  cached.priority = 1;
  cached.arrival = Time{} + std::chrono::seconds(11);
  fixture.Add(first);
  fixture.Add(cached);
  fixture.Step();
  ASSERT_FALSE(fixture.admissions.contains(2));
  EXPECT_TRUE(fixture.admissions.contains(4));
  EXPECT_FALSE(fixture.admissions.contains(5));
}

// While request 2 waits, request 3 of another tenant computes the blocks of the same prompt. The
// cached prefix of request 2 then grows.
TEST(ReorderTest, AWaitingPromptIsLookedUpAgainWhenItsBlocksArePublished) {
  SchedulerFixture fixture(kRoomy, {.step_tokens_max = 17, .running_max = 1});
  fixture.Add(AskOf(2, 5, 17, 3));
  fixture.Step();
  fixture.Add(AskOf(1, 1, 17, 1));
  Request late = AskOf(1, 2, 17, 1);
  late.prompt = AskOf(2, 3, 17, 1).prompt;
  fixture.Add(late);
  fixture.Add(AskOf(2, 3, 17, 1));
  std::vector<uint64_t> order;
  while (!fixture.scheduler.idle()) {
    const auto shares = fixture.Step();
    if (!shares.empty() && (order.empty() || order.back() != shares.front().first)) {
      order.push_back(shares.front().first);
    }
  }
  EXPECT_THAT(order, ElementsAre(5, 1, 3, 2));
  EXPECT_EQ(fixture.admissions[2].num_cached_tokens, 16);
}

TEST(PassingTest, WithoutPassingNothingIsAdmittedBeforeTheHead) {
  SchedulerFixture fixture({.num_blocks = 8, .block_size = 4},
                           {.step_tokens_max = 64, .running_max = 8, .passing = false});
  fixture.Add(SchedulerFixture::Ask(1, 12, 4, 1));
  fixture.Add(SchedulerFixture::Ask(2, 24, 4, 2));
  fixture.Add(SchedulerFixture::Ask(3, 2, 2, 3));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(1, 12)));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(1, 1)));
}

TEST(PassingTest, ASmallRequestPassesAHeadThatDoesNotFit) {
  SchedulerFixture fixture({.num_blocks = 8, .block_size = 4});
  fixture.Add(SchedulerFixture::Ask(1, 12, 4, 1));
  fixture.Add(SchedulerFixture::Ask(2, 24, 4, 2));
  fixture.Add(SchedulerFixture::Ask(3, 2, 2, 3));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(1, 12), Pair(3, 2)));
  EXPECT_EQ(fixture.scheduler.head()->request().id, RequestId{2});
}

// The cache has eight blocks. Request 1 holds three blocks and ends after four steps. Request 2
// waits, because it needs all eight blocks. Request 3 starts before request 2, holds one block and
// would run for 20 steps.
TEST(PassingTest, APassingRequestIsPreemptedAsSoonAsItsBlocksSufficeForTheHead) {
  for (const bool passing : {false, true}) {
    SchedulerFixture fixture({.num_blocks = 8, .block_size = 4},
                             {.step_tokens_max = 64, .running_max = 8, .passing = passing});
    fixture.Add(SchedulerFixture::Ask(1, 12, 4, 1));
    fixture.Add(SchedulerFixture::Ask(2, 29, 2, 2));
    fixture.Add(SchedulerFixture::Ask(3, 2, 20, 3));
    int32_t num_steps = 0;
    while (!fixture.admissions.contains(2)) {
      fixture.Step();
      ++num_steps;
    }
    EXPECT_EQ(num_steps, 5);
    EXPECT_EQ(fixture.OutputOf(3).tokens.empty(), !passing);
    fixture.StepToTheEnd();
    EXPECT_EQ(fixture.OutputOf(3).tokens.size(), 20u);
  }
}

// Request 2 does not fit into the cache at first, so request 3 starts before request 2. Then
// request 2 runs and ends. Now request 4 does not fit, but request 3 is not preempted, because it
// arrived before request 4.
TEST(PassingTest, ARequestThatPassedAnEarlierHeadIsNotPreemptedForALaterRequest) {
  SchedulerFixture fixture({.num_blocks = 10, .block_size = 4});
  fixture.Add(SchedulerFixture::Ask(1, 12, 4, 1));
  fixture.Add(SchedulerFixture::Ask(2, 32, 1, 2));
  fixture.Add(SchedulerFixture::Ask(3, 2, 20, 3));
  while (!fixture.OutputOf(2).finish) fixture.Step();
  ASSERT_TRUE(fixture.scheduler.running().front()->is_passing);
  fixture.Add(SchedulerFixture::Ask(4, 36, 1, 4));
  while (!fixture.scheduler.idle()) {
    fixture.Step();
    EXPECT_EQ(fixture.plan.num_preemptions, 0);
  }
}

// The cache has six blocks. Tenant 1 has three sequences with one block each. The request of tenant
// 2 needs five blocks, so two sequences of tenant 1 are preempted.
TEST(PassingTest, NoSequenceIsPreemptedAgainAndAgainForAHeadThatNeedsMore) {
  SchedulerFixture fixture({.num_blocks = 6, .block_size = 64},
                           {.step_tokens_max = 512, .running_max = 8});
  for (uint64_t id = 1; id <= 3; ++id) fixture.Add(AskOf(1, id, 8, 50));
  fixture.Step();
  fixture.Step();
  fixture.Add(AskOf(2, 4, 300, 1));
  int32_t num_steps = 0, num_preemptions = 0;
  while (!fixture.admissions.contains(4)) {
    fixture.Step();
    ++num_steps;
    num_preemptions += fixture.plan.num_preemptions;
  }
  EXPECT_LE(num_steps, 4);
  EXPECT_LE(num_preemptions, 4) << "each preempted sequence may start once more before the head";
}

// Request 3 does not fit into the cache, but four blocks of its prompt are cached. Requests 4 and 5
// start before request 3 and must not evict these four blocks.
TEST(PassingTest, APassingRequestEvictsNothingThatTheHeadHasFound) {
  SchedulerFixture fixture({.num_blocks = 12, .block_size = 4, .policy = EvictionPolicyKind::kLru});
  fixture.Add(SchedulerFixture::Ask(1, 17, 1, 1));
  fixture.StepToTheEnd();
  fixture.Add(SchedulerFixture::Ask(2, 8, 12, 2));
  fixture.Step();
  fixture.Add(SchedulerFixture::Ask(3, 40, 1, 1));
  fixture.Add(SchedulerFixture::Ask(4, 16, 1, 4));
  fixture.Add(SchedulerFixture::Ask(5, 12, 1, 5));
  fixture.StepToTheEnd();
  EXPECT_EQ(fixture.admissions[3].num_cached_tokens, 16);
}

// Requests 2 and 3 are preempted alternately, because the request that was preempted more often is
// spared.
TEST(VictimTest, ASequenceThatWasPreemptedOftenIsSpared) {
  SchedulerFixture fixture({.num_blocks = 14, .block_size = 4},
                           {.step_tokens_max = 64, .running_max = 3, .preemptions_max = 1});
  for (uint64_t id = 1; id <= 3; ++id) {
    fixture.Add(SchedulerFixture::Ask(id, 16, 24, static_cast<TokenId>(id)));
  }
  std::map<uint64_t, int32_t> num_preemptions;
  while (!fixture.scheduler.idle()) {
    fixture.Step();
    for (const Sequence* sequence : fixture.scheduler.running()) {
      num_preemptions[static_cast<uint64_t>(sequence->request().id)] = sequence->num_preemptions;
    }
  }
  EXPECT_EQ(num_preemptions[1], 0);
  EXPECT_LE(std::abs(num_preemptions[2] - num_preemptions[3]), 1);
}

}  // namespace
}  // namespace incipit
