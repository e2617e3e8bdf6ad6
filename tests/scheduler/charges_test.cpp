// Tests the counters of the tenants: every prompt token is charged once, and a step that fails is
// not charged.
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/scheduler/scheduler_fixture.h"

namespace incipit {
namespace {

const KvCacheOptions kManyBlocks{.num_blocks = 2048, .block_size = 4};

class ChargesFixture : public SchedulerFixture {
 public:
  using SchedulerFixture::SchedulerFixture;

  // Returns the service (price of all tokens) of the tenant with the index 0, which sent the first
  // request.
  double service() const { return scheduler.shares().service(0); }
};

double PriceOf(int32_t num_computed, int32_t num_cached, int32_t num_output,
               const ShareOptions& prices = {}) {
  return prices.prompt_price * num_computed + prices.cached_price * num_cached +
         prices.output_price * num_output;
}

TEST(ChargesTest, ATenantPaysForComputedCachedAndOutputTokens) {
  ChargesFixture fixture(kManyBlocks);
  fixture.Add(SchedulerFixture::Ask(1, 12, 3));
  fixture.StepToTheEnd();
  EXPECT_DOUBLE_EQ(fixture.service(), PriceOf(12, 0, 3));
  fixture.Add(SchedulerFixture::Ask(2, 15, 1));
  fixture.StepToTheEnd();
  EXPECT_EQ(fixture.admissions[2].num_cached_tokens, 12);
  EXPECT_DOUBLE_EQ(fixture.service(), PriceOf(12 + 3, 12, 4));
}

TEST(ChargesTest, EachChoicePaysForItsOutputAndNotForThePrompt) {
  for (const int32_t running_max : {1, 8}) {
    ChargesFixture fixture(kManyBlocks, {.step_tokens_max = 64, .running_max = running_max});
    Request request = SchedulerFixture::Ask(1, 10, 4);
    request.num_choices = 3;
    fixture.Add(request);
    fixture.StepToTheEnd();
    EXPECT_DOUBLE_EQ(fixture.service(), PriceOf(10, 0, 12));
  }
}

TEST(ChargesTest, ACancelledPromptPaysForItsComputedTokens) {
  ChargesFixture fixture(kManyBlocks, {.step_tokens_max = 16, .running_max = 8});
  fixture.Add(SchedulerFixture::Ask(1, 100, 4));
  fixture.Step();
  EXPECT_DOUBLE_EQ(fixture.service(), PriceOf(100, 0, 0));
  EXPECT_TRUE(fixture.scheduler.Cancel(RequestId{1}));
  EXPECT_DOUBLE_EQ(fixture.service(), PriceOf(16, 0, 0));
}

// The device computes the steps in flight although the request is cancelled. A tenant that cancels
// each request during a step would otherwise get these tokens without a charge.
TEST(ChargesTest, APromptThatIsCancelledDuringAStepPaysForTheStepsInFlight) {
  for (const int32_t steps_in_flight : {1, 2}) {
    ChargesFixture fixture(
        kManyBlocks,
        {.step_tokens_max = 16, .running_max = 8, .steps_in_flight_max = steps_in_flight});
    fixture.Add(SchedulerFixture::Ask(1, 100, 4));
    std::vector<StepPlan> plans(static_cast<size_t>(steps_in_flight));
    for (StepPlan& plan : plans) fixture.scheduler.Plan({}, plan);
    EXPECT_TRUE(fixture.scheduler.Cancel(RequestId{1}));
    EXPECT_DOUBLE_EQ(fixture.service(), PriceOf(16 * steps_in_flight, 0, 0));
    for (const StepPlan& plan : plans) fixture.scheduler.Commit(plan, {});
    EXPECT_DOUBLE_EQ(fixture.service(), PriceOf(16 * steps_in_flight, 0, 0));
  }
}

TEST(ChargesTest, APreemptedSequencePaysNoTokenTwice) {
  ChargesFixture fixture({.num_blocks = 4, .block_size = 4});
  int32_t num_preemptions = 0;
  for (uint64_t id = 1; id <= 2; ++id) {
    fixture.Add(SchedulerFixture::Ask(id, 7, 8, static_cast<TokenId>(id)));
  }
  while (!fixture.scheduler.idle()) {
    fixture.Step();
    num_preemptions += fixture.plan.num_preemptions;
  }
  EXPECT_GT(num_preemptions, 0);
  EXPECT_DOUBLE_EQ(fixture.service(), PriceOf(14, 0, 16));
}

TEST(ChargesTest, AStepThatFailsCostsNothing) {
  ChargesFixture fixture(kManyBlocks);
  fixture.Add(SchedulerFixture::Ask(1, 12, 3));
  fixture.Plan();
  EXPECT_DOUBLE_EQ(fixture.service(), PriceOf(12, 0, 1));
  fixture.scheduler.Abort(fixture.plan);
  EXPECT_DOUBLE_EQ(fixture.service(), 0);
  fixture.StepToTheEnd();
  EXPECT_DOUBLE_EQ(fixture.service(), PriceOf(12, 0, 3));
}

TEST(ChargesTest, APromptThatFindsFewerTokensAfterAFailedStepPaysForTheOthers) {
  ChargesFixture fixture(kManyBlocks);
  fixture.Add(SchedulerFixture::Ask(1, 12, 1));
  fixture.StepToTheEnd();
  const double before = fixture.service();
  fixture.Add(SchedulerFixture::Ask(2, 15, 1));
  fixture.Plan();
  EXPECT_DOUBLE_EQ(fixture.service(), before + PriceOf(3, 12, 1));
  fixture.scheduler.Abort(fixture.plan);
  fixture.cache.EvictTo(0);
  fixture.StepToTheEnd();
  EXPECT_EQ(fixture.admissions[2].num_cached_tokens, 0);
  EXPECT_DOUBLE_EQ(fixture.service(), before + PriceOf(15, 0, 1));
}

// Request 2 is preempted in the middle of its prompt, so that request 3 of another tenant can
// start. Request 3 has the same prompt. Later, request 2 finds the blocks that request 3 has
// computed.
TEST(ChargesTest, APreemptedPromptPaysForTokensThatItFinds) {
  constexpr int32_t kPrompt = 40;
  const ShareOptions prices{.output_price = 100};
  ChargesFixture fixture(kManyBlocks, {.step_tokens_max = 5, .running_max = 2, .shares = prices});
  fixture.Add(SchedulerFixture::Ask(1, 1, 30, 1));
  fixture.Add(SchedulerFixture::Ask(2, kPrompt, 1, 2));
  fixture.Step();
  Request other = SchedulerFixture::Ask(3, kPrompt, 1, 2);
  other.tenant = 7;
  fixture.Add(other);
  int32_t num_computed = 0;
  while (fixture.plan.num_preemptions == 0) {
    num_computed = fixture.scheduler.running().back()->num_computed;
    fixture.Step();
  }
  ASSERT_EQ(fixture.scheduler.running().back()->request().id, RequestId{3});
  ASSERT_LT(num_computed, kPrompt / 2);
  std::optional<int32_t> num_found;
  while (!fixture.scheduler.idle()) {
    fixture.Plan();
    for (const Sequence* sequence : fixture.scheduler.running()) {
      if (sequence->request().id == RequestId{2}) num_found = sequence->num_hit_tokens;
    }
    fixture.Run();
  }
  ASSERT_GT(num_found, num_computed);
  EXPECT_DOUBLE_EQ(fixture.service(), PriceOf(1 + num_computed + kPrompt - *num_found,
                                              *num_found - num_computed, 31, prices));
}

// All counters of tenants are in use. The request of tenant 1 ends while its step is in flight, and
// a new tenant takes the counter of tenant 1. Then the step fails.
TEST(ChargesTest, AStepThatFailsChangesNoCounterOfAnotherTenant) {
  ChargesFixture fixture(kManyBlocks);
  for (uint64_t tenant = 1; tenant <= kTenantsMax; ++tenant) {
    Request request = SchedulerFixture::Ask(tenant, 4, 2);
    request.tenant = tenant;
    fixture.Add(request);
    if (tenant == 1) fixture.Plan();
  }
  EXPECT_TRUE(fixture.scheduler.Cancel(RequestId{1}));
  Request request = SchedulerFixture::Ask(5000, 4, 2);
  request.tenant = 5000;
  fixture.Add(request);
  ASSERT_EQ(fixture.scheduler.shares().id(0), 5000u);
  const double before = fixture.service();
  fixture.scheduler.Abort(fixture.plan);
  EXPECT_DOUBLE_EQ(fixture.service(), before);
}

}  // namespace
}  // namespace incipit
