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

  void AddSharing(uint64_t id, int32_t num_shared, int32_t num_own, int32_t priority = 0) {
    Request request = SchedulerFixture::Ask(id, num_shared, 2);
    request.prompt.insert(request.prompt.end(), static_cast<size_t>(num_own),
                          static_cast<TokenId>(id + 1));
    request.priority = priority;
    Add(request);
  }
  const Sequence& producer() const { return *scheduler.running().front(); }
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
