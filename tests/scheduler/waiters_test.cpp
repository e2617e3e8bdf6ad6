// Tests requests that wait while a running request (the producer) computes a shared prefix. The
// tests check when the waiting requests start. They also check that the producer gets the best rank
// of the waiting requests.
#include <gtest/gtest.h>

#include "tests/scheduler/scheduler_fixture.h"

namespace incipit {
namespace {

using testing::Contains;
using testing::Key;
using testing::Not;

// A scheduler whose steps compute at most 8 tokens. The first `num_shared` tokens of all prompts
// are equal.
class WaitersFixture : public SchedulerFixture {
 public:
  WaitersFixture()
      : SchedulerFixture({.num_blocks = 256, .block_size = 4},
                         {.step_tokens_max = 8, .running_max = 8}) {}

  static Request AskSharing(uint64_t id, int32_t num_shared, int32_t num_own) {
    Request request = SchedulerFixture::Ask(id, num_shared, 2);
    request.prompt.insert(request.prompt.end(), static_cast<size_t>(num_own),
                          static_cast<TokenId>(id + 1));
    return request;
  }
  void AddSharing(uint64_t id, int32_t num_shared, int32_t num_own, int32_t priority = 0) {
    Request request = AskSharing(id, num_shared, num_own);
    request.priority = priority;
    Add(request);
  }
  // Adds a request of `tenant` that needs the first 48 tokens of the producer.
  void AddWaiterOf(uint64_t tenant, uint64_t id) {
    Request request = AskSharing(id, 48, 1);
    request.tenant = tenant;
    Add(request);
  }
  // Adds a request that needs the first `num_shared` tokens of the producer before `deadline`.
  void AddUrgent(uint64_t id, int32_t num_shared, Time deadline, int32_t priority = 0) {
    Request request = AskSharing(id, num_shared, 1);
    request.first_token_deadline = deadline;
    request.priority = priority;
    Add(request);
  }
  const Sequence& producer() const { return *scheduler.running().front(); }
  // Id of the tenant by whose service the prompt of the producer is ordered.
  uint64_t tenant_of_rank() const { return scheduler.shares().id(producer().standing.tenant); }
};

TEST(WaitersTest, AProducerHasTheBestRankOfItsWaiters) {
  WaitersFixture fixture;
  fixture.AddSharing(1, 80, 1);
  fixture.Step();
  fixture.AddSharing(2, 48, 1, 2);
  fixture.AddSharing(3, 48, 1, 5);
  fixture.Step();
  EXPECT_NE(fixture.producer().first_waiter, nullptr);
  EXPECT_EQ(fixture.producer().standing.priority, 5);
  EXPECT_TRUE(fixture.scheduler.Cancel(RequestId{3}));
  EXPECT_EQ(fixture.producer().standing.priority, 2);
  EXPECT_TRUE(fixture.scheduler.Cancel(RequestId{2}));
  EXPECT_EQ(fixture.producer().standing.priority, 0);
}

TEST(WaitersTest, AProducerHasTheEarliestDeadlineOfTheWaitersThatAreLeft) {
  WaitersFixture fixture;
  fixture.AddSharing(1, 80, 1);
  fixture.Step();
  fixture.AddUrgent(2, 48, At(30'000), 1);
  fixture.AddUrgent(3, 48, At(20'000));
  fixture.AddUrgent(4, 24, At(10'000));
  fixture.Step();
  EXPECT_EQ(fixture.producer().standing.first_token_by, At(10'000));
  while (fixture.producer().num_computed < 24) fixture.Step();
  fixture.Step();
  ASSERT_TRUE(fixture.admissions.contains(4));
  EXPECT_EQ(fixture.producer().standing.first_token_by, At(20'000)) << "request 4 has started";
  EXPECT_TRUE(fixture.scheduler.Cancel(RequestId{3}));
  EXPECT_EQ(fixture.producer().standing.first_token_by, At(30'000));
  EXPECT_TRUE(fixture.scheduler.Cancel(RequestId{2}));
  EXPECT_EQ(fixture.producer().standing.first_token_by, kNoDeadline);
}

// Request 2 has no deadline, and goes before request 1.
TEST(WaitersTest, AProducerKeepsItsOwnDeadlineAndPriority) {
  WaitersFixture fixture;
  Request first = WaitersFixture::AskSharing(1, 80, 1);
  first.arrival = At(60'000);
  first.first_token_deadline = At(90'000);
  first.priority = 5;
  fixture.Add(first);
  fixture.Step(At(60'000));
  for (const uint64_t id : {2, 3}) fixture.AddSharing(id, 48, 1);
  fixture.Step(At(60'001));
  ASSERT_LT(fixture.producer().standing.key, fixture.producer().group->standing.key);
  EXPECT_EQ(fixture.producer().standing.priority, 5);
  EXPECT_EQ(fixture.producer().standing.first_token_by, At(90'000));
  EXPECT_TRUE(fixture.scheduler.Cancel(RequestId{3}));
  EXPECT_EQ(fixture.producer().standing.priority, 5);
  EXPECT_EQ(fixture.producer().standing.first_token_by, At(90'000));
}

// All tenants have the same service when they arrive. Then tenant 1 receives the tokens of request
// 10. Tenant 2 receives the tokens of request 20, which has a shorter prompt. Tenant 3 receives no
// token.
TEST(WaitersTest, AProducerHasTheShareOfTheTenantWithTheLeastService) {
  WaitersFixture fixture;
  Request first = WaitersFixture::AskSharing(1, 80, 1);
  first.tenant = 1;
  fixture.Add(first);
  fixture.Step();
  for (const uint64_t tenant : {1, 2}) {
    Request decoding =
        SchedulerFixture::Ask(10 * tenant, tenant == 1 ? 3 : 1, 50, static_cast<TokenId>(tenant));
    decoding.tenant = tenant;
    fixture.Add(decoding);
  }
  fixture.AddWaiterOf(2, 2);
  fixture.AddWaiterOf(3, 3);
  fixture.Step();
  fixture.Step();
  ASSERT_EQ(fixture.scheduler.num_running(), 3);
  ASSERT_EQ(fixture.scheduler.num_waiting(), 2);
  EXPECT_EQ(fixture.tenant_of_rank(), 3U);
  EXPECT_TRUE(fixture.scheduler.Cancel(RequestId{3}));
  EXPECT_EQ(fixture.tenant_of_rank(), 2U);
  EXPECT_TRUE(fixture.scheduler.Cancel(RequestId{2}));
  EXPECT_EQ(fixture.tenant_of_rank(), 1U);
}

// When request 2 begins to wait, tenant 2 has received more than tenant 1: the prompt of
// request 20. Then only request 10 of tenant 1 decodes.
TEST(WaitersTest, AProducerTakesTheShareOfAWaiterWhoseTenantFallsBehindLater) {
  WaitersFixture fixture;
  for (const bool decodes : {true, false}) {
    Request request =
        decodes ? SchedulerFixture::Ask(10, 1, 50, 9) : WaitersFixture::AskSharing(1, 80, 1);
    request.tenant = 1;
    fixture.Add(request);
    fixture.Step();
  }
  Request other = SchedulerFixture::Ask(20, 4, 1, 8);
  other.tenant = 2;
  fixture.Add(other);
  while (!fixture.OutputOf(20).finish) fixture.Step();
  Request waiter = WaitersFixture::AskSharing(2, 60, 1);
  waiter.tenant = 2;
  fixture.Add(waiter);
  fixture.Step();
  ASSERT_NE(fixture.scheduler.running()[1]->first_waiter, nullptr);
  const auto tenant_of_rank = [&] {
    return fixture.scheduler.shares().id(fixture.scheduler.running()[1]->standing.tenant);
  };
  EXPECT_EQ(tenant_of_rank(), 1U);
  for (int32_t step = 0; step < 4; ++step) fixture.Step();
  ASSERT_NE(fixture.scheduler.running()[1]->first_waiter, nullptr);
  EXPECT_EQ(tenant_of_rank(), 2U);
}

// The prompt of request 2 gets tokens before the prompt of request 1, until request 3 waits for a
// prefix that request 1 computes.
TEST(WaitersTest, AProducerGetsTheTokensOfItsWaiters) {
  WaitersFixture fixture;
  fixture.AddSharing(1, 80, 1);
  fixture.Step();
  fixture.AddSharing(2, 0, 60, 1);
  for (int32_t step = 0; step < 3; ++step) fixture.Step();
  EXPECT_EQ(fixture.plan.items.front().sequence->request().id, RequestId{2});
  fixture.AddSharing(3, 24, 1, 2);
  for (int32_t step = 0; step < 2; ++step) fixture.Step();
  EXPECT_EQ(fixture.plan.items.front().sequence->request().id, RequestId{1});
}

TEST(WaitersTest, AWaiterIsWokenWhenItsOwnPrefixIsPlanned) {
  WaitersFixture fixture;
  fixture.AddSharing(1, 80, 1);
  fixture.Step();
  fixture.AddSharing(2, 24, 3, 5);
  fixture.AddSharing(3, 40, 3, 5);
  fixture.Step();
  EXPECT_NE(fixture.producer().first_waiter, nullptr);
  fixture.Step();
  EXPECT_THAT(fixture.Step(), Contains(Key(2)));
  EXPECT_EQ(fixture.producer().standing.priority, 5) << "request 3 still waits";
  while (fixture.producer().num_computed < 40) EXPECT_THAT(fixture.Step(), Not(Contains(Key(3))));
  EXPECT_THAT(fixture.Step(), Contains(Key(3)));
  EXPECT_EQ(fixture.producer().standing.priority, 0);
  EXPECT_LT(fixture.producer().num_computed, 80);
  EXPECT_EQ(fixture.admissions[2].num_cached_tokens, 24);
  EXPECT_EQ(fixture.admissions[3].num_cached_tokens, 40);
}

// Runs a step in which the logits of request `id` are not finite.
void RunPoisoned(SchedulerFixture& fixture, RequestId id) {
  fixture.Plan();
  fixture.Compute();
  for (size_t i = 0; i < fixture.plan.samples.size(); ++i) {
    if (fixture.plan.samples[i]->request().id == id) {
      fixture.result.status[i] = RowStatus::kNonFinite;
    }
  }
  fixture.CommitStep();
}

// Request 1 has computed the first 24 tokens of the prefix that request 2 computes for request 3.
// The logits of request 1 become infinite, so all blocks that follow these 24 tokens leave the
// cache. Lookups then do not find the blocks of request 2 any more.
TEST(WaitersTest, WaitersContinueIfLookupsCannotFindTheBlocksOfTheirProducer) {
  WaitersFixture fixture;
  Request first = WaitersFixture::AskSharing(1, 24, 1);
  first.output_tokens_max = 100;
  fixture.Add(first);
  while (fixture.OutputOf(1).tokens.empty()) fixture.Step();
  Request producer = WaitersFixture::AskSharing(2, 24, 60);
  producer.output_tokens_max = 100;
  fixture.Add(producer);
  fixture.Step();
  Request waiter = producer;
  waiter.id = RequestId{3};
  waiter.prompt.push_back(9);
  waiter.output_tokens_max = 2;
  fixture.Add(waiter);
  fixture.Step();
  ASSERT_EQ(fixture.scheduler.num_waiting(), 1);
  RunPoisoned(fixture, RequestId{1});
  for (int32_t step = 0; step < 30; ++step) fixture.Step();
  EXPECT_EQ(fixture.OutputOf(3).tokens.size(), 2U);
  EXPECT_LT(fixture.OutputOf(2).tokens.size(), 100U);
}

TEST(WaitersTest, ACancelledWaiterLeavesTheOthersInTheList) {
  WaitersFixture fixture;
  fixture.AddSharing(1, 80, 1);
  fixture.Step();
  for (uint64_t id = 2; id <= 4; ++id) fixture.AddSharing(id, 48, 1);
  fixture.Step();
  EXPECT_NE(fixture.producer().first_waiter, nullptr);
  EXPECT_TRUE(fixture.scheduler.Cancel(RequestId{3}));
  fixture.StepToTheEnd();
  for (const uint64_t id : {2, 4}) EXPECT_EQ(fixture.OutputOf(id).tokens.size(), 2u);
}

}  // namespace
}  // namespace incipit
