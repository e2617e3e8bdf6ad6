// Tests which sequences are preempted and how many. Also tests requests that start before an
// earlier request that does not fit into the cache (the head).
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/scheduler/scheduler_fixture.h"

namespace incipit {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Key;
using testing::Not;
using testing::Pair;

Request AskAs(uint64_t tenant, uint64_t id, int32_t num_prompt, int32_t num_output) {
  Request request = SchedulerFixture::Ask(id, num_prompt, num_output, static_cast<TokenId>(id));
  request.tenant = tenant;
  return request;
}

// Three sequences hold two blocks each, which are all six blocks of the cache. In the third step,
// each sequence needs a third block. The sequence that started first must not be preempted.
TEST(VictimOrderTest, TheTenantWithTheMostServiceIsPreemptedFirst) {
  for (const uint64_t rich : {2, 3}) {
    SchedulerFixture fixture(
        {.num_blocks = 6, .block_size = 4},
        {.step_tokens_max = 64, .running_max = 8, .shares = {.weights = {{rich, 0.1}}}});
    for (uint64_t id = 1; id <= 3; ++id) fixture.Add(AskAs(id, id, 7, 8));
    fixture.Step();
    fixture.Step();
    EXPECT_THAT(fixture.Step(), Not(Contains(Key(rich))));
    EXPECT_EQ(fixture.plan.num_preemptions, 1);
  }
}

TEST(VictimOrderTest, TheSequenceThatLosesTheFewestTokensIsPreemptedFirst) {
  for (const uint64_t aligned : {2, 3}) {
    SchedulerFixture fixture({.num_blocks = 6, .block_size = 4});
    for (uint64_t id = 1; id <= 3; ++id) {
      const int32_t num_prompt = id == 1 || id == aligned ? 7 : 6;
      fixture.Add(SchedulerFixture::Ask(id, num_prompt, 8, static_cast<TokenId>(id)));
    }
    fixture.Step();
    fixture.Step();
    EXPECT_THAT(fixture.Step(), Not(Contains(Key(aligned))));
    EXPECT_EQ(fixture.plan.num_preemptions, 1);
  }
}

TEST(VictimOrderTest, ASequenceThatWasPreemptedOftenIsSparedDespiteItsLowPriority) {
  for (const size_t low : {1, 2}) {
    SchedulerFixture fixture({.num_blocks = 6, .block_size = 4},
                             {.step_tokens_max = 64, .running_max = 8, .preemptions_max = 3});
    for (uint64_t id = 0; id < 3; ++id) {
      Request request = SchedulerFixture::Ask(id, 7, 8, static_cast<TokenId>(id));
      request.priority = id == low ? -1 : 0;
      fixture.Add(request);
    }
    fixture.Step();
    fixture.Step();
    for (Sequence* sequence : fixture.scheduler.running()) {
      if (sequence->request().id == RequestId{low}) sequence->num_preemptions = 3;
    }
    const uint64_t other = 3 - low;
    EXPECT_THAT(fixture.Step(), Not(Contains(Key(other))));
    EXPECT_EQ(fixture.plan.num_preemptions, 1);
    while (fixture.scheduler.running().empty() ||
           fixture.scheduler.running().back()->request().id != RequestId{other}) {
      fixture.Step();
    }
    EXPECT_GT(fixture.scheduler.running().back()->num_preemptions, 0);
  }
}

// Two tenants with equal weights share three slots, so the share of each tenant is 1.5 slots.
TEST(DisplacementTest, TwoTenantsDoNotPreemptEachOtherInEveryStep) {
  SchedulerFixture fixture({.num_blocks = 2048, .block_size = 4},
                           {.step_tokens_max = 64, .running_max = 3});
  for (uint64_t id = 1; id <= 8; ++id) fixture.Add(AskAs(1 + id % 2, id, 4, 300));
  int32_t num_preemptions = 0;
  for (int32_t step = 0; step < 200; ++step) {
    fixture.Step();
    num_preemptions += fixture.plan.num_preemptions;
  }
  EXPECT_LE(num_preemptions, 2);
}

// Three tenants with equal weights share six slots, two each. Tenant 3 holds all slots when the
// other tenants arrive. The long prompt of request 20 increases the service of tenant 2, so that
// tenant 1 is first in the order of the policy, but tenant 1 soon has its share of the slots.
TEST(DisplacementTest, ATenantThatIsNotFirstGetsItsShareOfTheSlots) {
  SchedulerFixture fixture({.num_blocks = 4096, .block_size = 4},
                           {.step_tokens_max = 64, .running_max = 6});
  for (uint64_t id = 30; id < 36; ++id) fixture.Add(AskAs(3, id, 4, 1000));
  fixture.Step();
  for (uint64_t id = 20; id < 26; ++id) {
    fixture.Add(AskAs(1, id - 10, 4, 1000));
    fixture.Add(AskAs(2, id, id == 20 ? 400 : 4, 1000));
  }
  const TenantShares& shares = fixture.scheduler.shares();
  const int32_t first = 1, second = 2, third = 0;  // indices in the order of arrival
  while (shares.service(second) <= shares.service(first) + 300) fixture.Step();
  while (shares.service(third) <= shares.service(second)) fixture.Step();
  ASSERT_LT(shares.service(first), shares.service(second));
  fixture.Step();
  for (const int32_t tenant : {first, second, third}) EXPECT_EQ(shares.num_running(tenant), 2);
}

// Tenant 1 runs the requests 1, 2 and 3 in four slots, and tenant 3 runs request 4. Then tenant 2
// needs a slot. Request 1 started first, and is never preempted. Tenant 3 has its share only.
TEST(DisplacementTest, ASequenceThatWasPreemptedOftenLosesItsSlotOnlyIfAllWere) {
  const auto preempted = [](const std::set<uint64_t>& often) -> uint64_t {
    SchedulerFixture fixture({.num_blocks = 2048, .block_size = 4},
                             {.step_tokens_max = 64, .running_max = 4, .preemptions_max = 3});
    for (uint64_t id = 1; id <= 4; ++id) fixture.Add(AskAs(id == 4 ? 3 : 1, id, 4, 200));
    for (int32_t step = 0; step < 3; ++step) fixture.Step();
    for (Sequence* sequence : fixture.scheduler.running()) {
      if (often.contains(static_cast<uint64_t>(sequence->request().id))) {
        sequence->num_preemptions = 3;
      }
    }
    fixture.Add(AskAs(2, 5, 4, 200));
    fixture.Step();  // now tenant 1 has received more than tenant 2
    std::set<uint64_t> stopped = {1, 2, 3, 4};
    for (const auto& [id, num_tokens] : fixture.Step()) stopped.erase(id);
    EXPECT_EQ(stopped.size(), static_cast<size_t>(fixture.plan.num_preemptions));
    return stopped.empty() ? 0 : *stopped.begin();
  };
  EXPECT_EQ(preempted({}), 3U) << "of equal sequences, the one that started last is preempted";
  EXPECT_EQ(preempted({3}), 2U);
  EXPECT_EQ(preempted({2, 3}), 0U) << "request 4 was never preempted";
  EXPECT_EQ(preempted({2, 3, 4}), 3U);
}

TEST(DisplacementTest, AnEndedSequenceLeavesNoSlotInTheCountOfItsTenant) {
  SchedulerFixture fixture({.num_blocks = 8, .block_size = 4});
  fixture.Add(SchedulerFixture::Ask(1, 7, 8, 1));
  fixture.Add(SchedulerFixture::Ask(2, 7, 8, 2));
  fixture.Step();
  EXPECT_EQ(fixture.scheduler.shares().num_running(0), 2);
  fixture.StepToTheEnd();
  EXPECT_EQ(fixture.scheduler.shares().num_running(0), 0);
}

// The head (the request that does not fit) needs all eight blocks of the cache. Both choices of
// request 3 start before the head.
TEST(PassingBoundTest, AllChoicesOfAPassingRequestArePreemptedForTheHead) {
  SchedulerFixture fixture({.num_blocks = 8, .block_size = 4});
  fixture.Add(SchedulerFixture::Ask(1, 12, 4, 1));
  fixture.Add(SchedulerFixture::Ask(2, 29, 2, 2));
  Request passing = SchedulerFixture::Ask(3, 2, 20, 3);
  passing.num_choices = 2;
  fixture.Add(passing);
  int32_t num_steps = 0;
  while (!fixture.admissions.contains(2)) {
    fixture.Step();
    ++num_steps;
  }
  EXPECT_EQ(num_steps, 5);
  EXPECT_FALSE(fixture.OutputOf(3, 1).tokens.empty());
}

// The head (the request that does not fit) needs all eight blocks of the cache. The blocks of
// request 3, which started before the head, do not suffice.
TEST(PassingBoundTest, NoPassingRequestIsPreemptedIfItsBlocksDoNotSuffice) {
  SchedulerFixture fixture({.num_blocks = 8, .block_size = 4});
  fixture.Add(SchedulerFixture::Ask(1, 12, 10, 1));
  fixture.Add(SchedulerFixture::Ask(2, 29, 2, 2));
  fixture.Add(SchedulerFixture::Ask(3, 2, 20, 3));
  for (int32_t step = 0; step < 4; ++step) {
    fixture.Step();
    EXPECT_EQ(fixture.plan.num_preemptions, 0);
  }
  EXPECT_EQ(fixture.scheduler.num_running(), 2);
}

// The cache has twelve blocks. Request 1 holds four blocks. Requests 3 and 4 hold four blocks
// together, of which two are shared. The head (the request that does not fit) needs ten blocks.
TEST(PassingBoundTest, ASharedBlockCountsOnceForTheHead) {
  SchedulerFixture fixture({.num_blocks = 12, .block_size = 4});
  fixture.Add(SchedulerFixture::Ask(1, 13, 20, 1));
  fixture.Add(SchedulerFixture::Ask(2, 40, 1, 2));
  fixture.Add(SchedulerFixture::Ask(3, 9, 20, 3));
  fixture.Add(SchedulerFixture::Ask(4, 9, 20, 3));
  for (int32_t step = 0; step < 3; ++step) {
    fixture.Step();
    EXPECT_EQ(fixture.plan.num_preemptions, 0);
  }
  EXPECT_EQ(fixture.scheduler.num_running(), 3);
}

TEST(PassingBoundTest, ABoundedNumberOfRequestsPassesTheHead) {
  SchedulerFixture fixture({.num_blocks = 4, .block_size = 256},
                           {.step_tokens_max = 1024, .running_max = 8});
  fixture.Add(SchedulerFixture::Ask(1, 8, 200, 1));
  fixture.Add(SchedulerFixture::Ask(2, 3 * 256 + 10, 1, 2));
  for (uint64_t id = 100; id < 300; ++id) fixture.Add(SchedulerFixture::Ask(id, 1, 1, 3));
  for (int32_t step = 0; step < 150; ++step) fixture.Step();
  EXPECT_FALSE(fixture.OutputOf(1).finish);
  EXPECT_FALSE(fixture.admissions.contains(2));
  EXPECT_EQ(fixture.admissions.size(), 1u + kOvertakenMax);
  fixture.StepToTheEnd();
}

// While a sequence runs, the admission of another request must leave two of the 200 cache blocks
// free.
TEST(AdmissionTest, AnAdmissionLeavesFreeBlocksForDecoding) {
  SchedulerFixture fixture({.num_blocks = 200, .block_size = 4},
                           {.step_tokens_max = 2048, .running_max = 8});
  fixture.Add(SchedulerFixture::Ask(1, 4, 4, 1));
  fixture.Add(SchedulerFixture::Ask(2, 198 * 4, 4, 2));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(1, 4)));
}

// Request 2 holds most blocks. In each step, a request arrives that does not fit. In the second
// case, the prompts begin with the cached prompt of request 1.
TEST(AdmissionTest, AWaitingPromptThatDoesNotFitIsLookedUpOnce) {
  for (const int32_t num_cached : {0, 40}) {
    SchedulerFixture fixture({.num_blocks = 128, .block_size = 4},
                             {.step_tokens_max = 512, .running_max = 8});
    fixture.Add(SchedulerFixture::Ask(1, 41, 1, 1));
    fixture.StepToTheEnd();
    fixture.Add(SchedulerFixture::Ask(2, 300, 150, 2));
    fixture.Step();
    const int64_t num_before = fixture.cache.num_lookups();
    for (uint64_t id = 10; id < 110; ++id) {
      Request request = SchedulerFixture::Ask(id, 400, 1, static_cast<TokenId>(id));
      std::fill_n(request.prompt.begin(), num_cached, TokenId{1});
      fixture.Add(request);
      fixture.Step();
    }
    ASSERT_EQ(fixture.admissions.size(), 2U);
    // The scheduler looks up the 64 requests of the window. A lookup more begins to hold the cached
    // prefix of the first request.
    EXPECT_LE(fixture.cache.num_lookups() - num_before, num_cached == 0 ? 64 : 65);
  }
}

// The scheduler looks up request 3 before request 1 computes the blocks of its prompt.
TEST(AdmissionTest, AWaitingPromptIsLookedUpAgainWhenItsBlocksAreComputed) {
  SchedulerFixture fixture({.num_blocks = 2048, .block_size = 4},
                           {.step_tokens_max = 17, .running_max = 1});
  fixture.Add(SchedulerFixture::Ask(1, 17, 1, 1));
  fixture.Add(SchedulerFixture::Ask(2, 17, 1, 9));
  fixture.Add(SchedulerFixture::Ask(3, 17, 1, 1));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(1, 17)));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(3, 1)));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(2, 17)));
}

// The scheduler has looked up request 4 before the blocks of its prompt are evicted.
TEST(AdmissionTest, AWaitingPromptIsLookedUpAgainWhenItsBlocksAreEvicted) {
  SchedulerFixture fixture({.num_blocks = 2048, .block_size = 4},
                           {.step_tokens_max = 16, .running_max = 1});
  fixture.Add(SchedulerFixture::Ask(1, 16, 1, 1));
  fixture.StepToTheEnd();
  fixture.Add(SchedulerFixture::Ask(2, 17, 1, 9));
  for (const uint64_t id : {3, 4}) fixture.Add(SchedulerFixture::Ask(id, 17, 1, 1));
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(3, 1)));
  fixture.cache.EvictTo(0);
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(2, 16)));
}

}  // namespace
}  // namespace incipit
