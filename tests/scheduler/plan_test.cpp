// Tests the plan of a step: the sequences that the step computes, their numbers of tokens, and
// preemption.
#include <gtest/gtest.h>

#include "tests/scheduler/scheduler_fixture.h"

namespace incipit {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(PlanTest, ALongPromptIsComputedInChunksBesideDecodes) {
  SchedulerFixture fixture({.num_blocks = 64, .block_size = 4},
                           {.step_tokens_max = 10, .running_max = 8});
  fixture.Add(SchedulerFixture::Ask(1, 4, 5));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(1, 4)));
  fixture.Add(SchedulerFixture::Ask(2, 25, 2, 2));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(1, 1), Pair(2, 9)));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(1, 1), Pair(2, 9)));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(1, 1), Pair(2, 7)));
  EXPECT_EQ(fixture.OutputOf(2).tokens.size(), 1u);
}

TEST(PlanTest, APromptOfHighPriorityLeavesOneTokenToEachDecode) {
  SchedulerFixture fixture({.num_blocks = 64, .block_size = 4},
                           {.step_tokens_max = 10, .running_max = 8});
  fixture.Add(SchedulerFixture::Ask(1, 2, 30, 1));
  fixture.Add(SchedulerFixture::Ask(2, 2, 30, 2));
  fixture.Step();
  Request urgent = SchedulerFixture::Ask(3, 40, 2, 3);
  urgent.priority = 1;
  fixture.Add(urgent);
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(1, 1), Pair(2, 1), Pair(3, 8)));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(1, 1), Pair(2, 1), Pair(3, 8)));
}

TEST(PlanTest, AtLeastTheFirstAdvancesWhenTheBudgetIsOneToken) {
  SchedulerFixture fixture({.num_blocks = 64, .block_size = 4},
                           {.step_tokens_max = 1, .running_max = 8});
  fixture.Add(SchedulerFixture::Ask(1, 2, 2));
  fixture.Add(SchedulerFixture::Ask(2, 2, 2));
  for (const uint64_t id : {1, 1, 1, 2, 2, 2}) {
    EXPECT_THAT(fixture.Step(), ElementsAre(Pair(id, 1)));
  }
  EXPECT_TRUE(fixture.scheduler.idle());
}

TEST(PlanTest, TheQueueIsServedByPriorityThenArrival) {
  SchedulerFixture fixture({.num_blocks = 64, .block_size = 4},
                           {.step_tokens_max = 64, .running_max = 1});
  Request late = SchedulerFixture::Ask(1, 4, 1, 1);
  late.arrival = At(5);
  Request early = SchedulerFixture::Ask(2, 4, 1, 2);
  early.arrival = At(1);
  Request urgent = SchedulerFixture::Ask(3, 4, 1, 3);
  urgent.arrival = At(9);
  urgent.priority = 7;
  for (const Request& request : {late, early, urgent}) fixture.Add(request);
  EXPECT_THAT(fixture.Step(At(10)), ElementsAre(Pair(3, 4)));
  EXPECT_THAT(fixture.Step(At(11)), ElementsAre(Pair(2, 4)));
  EXPECT_THAT(fixture.Step(At(12)), ElementsAre(Pair(1, 4)));
  EXPECT_EQ(fixture.admissions[1].queue_time, std::chrono::milliseconds(7));
}

// The cache has 8 blocks. Request 1 needs 5 blocks, of which its first step takes 2. The other 3
// blocks are reserved for request 1, so request 2, which needs 4 blocks, does not fit.
TEST(PlanTest, APromptIsAdmittedOnlyBesideWhatRunningOnesStillNeed) {
  SchedulerFixture fixture({.num_blocks = 8, .block_size = 4},
                           {.step_tokens_max = 8, .running_max = 8});
  fixture.Add(SchedulerFixture::Ask(1, 18, 2, 1));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(1, 8)));
  fixture.Add(SchedulerFixture::Ask(2, 16, 2, 2));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(1, 8)));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(1, 2)));
  EXPECT_EQ(fixture.scheduler.num_waiting(), 1);
}

TEST(PlanTest, LackOfBlocksPreemptsTheLastAndAdmitsNone) {
  SchedulerFixture fixture({.num_blocks = 4, .block_size = 4});
  fixture.Add(SchedulerFixture::Ask(1, 7, 8, 1));
  fixture.Add(SchedulerFixture::Ask(2, 7, 8, 2));
  fixture.Step();
  fixture.Step();  // both requests now fill two blocks of 4 tokens
  fixture.Add(SchedulerFixture::Ask(3, 1, 1, 3));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(1, 1)));
  EXPECT_EQ(fixture.plan.num_preemptions, 1);
  EXPECT_EQ(fixture.scheduler.num_waiting(), 2);
  fixture.StepToTheEnd();
  for (const uint64_t id : {1, 2}) EXPECT_EQ(fixture.OutputOf(id).tokens.size(), 8u);
}

// After the preemption of request 2, a free block would suffice for request 3. Request 3 must not
// take this block.
TEST(PlanTest, NoRequestTakesTheBlocksOfAPreemptedSequence) {
  SchedulerFixture fixture({.num_blocks = 4, .block_size = 4, .prefix_cache = false});
  fixture.Add(SchedulerFixture::Ask(1, 7, 8, 1));
  fixture.Add(SchedulerFixture::Ask(2, 7, 8, 2));
  fixture.Step();
  fixture.Step();
  fixture.Add(SchedulerFixture::Ask(3, 1, 1, 3));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(1, 1)));
  EXPECT_EQ(fixture.plan.num_preemptions, 1);
}

// Three sequences fill two of the six blocks each, and then need a third block. Request 1 must not
// be preempted, because it started first. Of the others, the request with the lower priority is
// preempted.
TEST(PlanTest, TheLowestPriorityIsPreemptedFirst) {
  for (const int32_t low : {2, 3}) {
    SchedulerFixture fixture({.num_blocks = 6, .block_size = 4});
    fixture.Add(SchedulerFixture::Ask(1, 7, 8, 1));
    for (const uint64_t id : {2, 3}) {
      Request request = SchedulerFixture::Ask(id, 7, 8, static_cast<TokenId>(id));
      request.priority = static_cast<int32_t>(id) == low ? -1 : 0;
      fixture.Add(request);
    }
    fixture.Step();
    fixture.Step();
    const uint64_t other = low == 2 ? 3 : 2;
    EXPECT_THAT(fixture.Step(), ElementsAre(Pair(1, 1), Pair(other, 1)));
    EXPECT_EQ(fixture.plan.num_preemptions, 1);
  }
}

TEST(PlanTest, APreemptedSequenceFindsItsPromptAndItsOutputAgain) {
  SchedulerFixture fixture({.num_blocks = 9, .block_size = 4});
  fixture.Add(SchedulerFixture::Ask(1, 15, 6, 1));
  fixture.Add(SchedulerFixture::Ask(2, 12, 12, 2));
  int32_t num_preemptions = 0;
  while (fixture.OutputOf(2).tokens.size() < 12) {
    fixture.Step();
    num_preemptions += fixture.plan.num_preemptions;
  }
  ASSERT_GE(num_preemptions, 1);
  const KvCacheStats stats = fixture.cache.TakeStats();
  EXPECT_EQ(stats.queries, 2);  // the lookup after a preemption is not counted
  EXPECT_GT(stats.self_hit_tokens, 0);
  EXPECT_EQ(stats.hit_tokens, 0);
}

TEST(PlanTest, ARequestNotToReadDoesNotReadButWrites) {
  SchedulerFixture fixture;
  fixture.Add(SchedulerFixture::Ask(1, 9, 1));
  fixture.StepToTheEnd();
  Request blind = SchedulerFixture::Ask(2, 17, 1);
  blind.read_cache = false;
  fixture.Add(blind);
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(2, 17)));
  EXPECT_EQ(fixture.admissions[2].num_cached_tokens, 0);
  fixture.Add(SchedulerFixture::Ask(3, 17, 1));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(3, 1)));
  EXPECT_EQ(fixture.admissions[3].num_cached_tokens, 16);
  EXPECT_EQ(fixture.cache.TakeStats().queries, 2);
}

TEST(PlanTest, ADeadlineThatPassesInTheQueueIsNeverStarted) {
  SchedulerFixture fixture({.num_blocks = 64, .block_size = 4},
                           {.step_tokens_max = 64, .running_max = 1});
  fixture.Add(SchedulerFixture::Ask(1, 4, 50));
  Request hurried = SchedulerFixture::Ask(2, 4, 5);
  hurried.deadline = At(10);
  fixture.Add(hurried);
  fixture.Step(At(9));
  EXPECT_FALSE(fixture.OutputOf(2).finish.has_value());
  fixture.Step(At(10));
  EXPECT_EQ(fixture.OutputOf(2).finish, FinishReason::kDeadline);
  EXPECT_FALSE(fixture.admissions.contains(2));
  EXPECT_EQ(fixture.scheduler.num_waiting_prompt_tokens(), 0);
}

TEST(PlanTest, ADeadlineEndsWhatRunsAtTheNextStep) {
  SchedulerFixture fixture;
  Request request = SchedulerFixture::Ask(1, 4, 50);
  request.deadline = At(10);
  fixture.Add(request);
  fixture.Step(At(1));
  fixture.Step(At(2));
  EXPECT_THAT(fixture.Step(At(12)), IsEmpty());
  EXPECT_EQ(fixture.OutputOf(1).tokens.size(), 2u);
  EXPECT_EQ(fixture.OutputOf(1).finish, FinishReason::kDeadline);
  EXPECT_EQ(fixture.cache.num_used(), 0);
}

}  // namespace
}  // namespace incipit
