// Tests the counters and figures of the scheduler: preemptions by reason, overtakes, services of
// tenants, and errors of the predicted step times.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scheduler/scheduler_fixture.h"

namespace incipit {
namespace {

using testing::ElementsAre;

const KvCacheOptions kLargeCache{.num_blocks = 1024, .block_size = 4};

Request AskAsTenant(uint64_t tenant, uint64_t id, int32_t num_prompt, int32_t num_output) {
  Request request = SchedulerFixture::Ask(id, num_prompt, num_output, static_cast<TokenId>(id));
  request.tenant = tenant;
  return request;
}

TEST(FiguresTest, APreemptionForDecodingSequencesIsCounted) {
  SchedulerFixture fixture({.num_blocks = 4, .block_size = 4});
  fixture.Add(SchedulerFixture::Ask(1, 7, 8, 1));
  fixture.Add(SchedulerFixture::Ask(2, 7, 8, 2));
  for (int32_t step = 0; step < 3; ++step) fixture.Step();
  EXPECT_THAT(fixture.scheduler.TakeCounts().preemptions, ElementsAre(0, 0, 1));
  EXPECT_EQ(fixture.scheduler.TakeCounts().num_preemptions(), 0) << "the counters are taken";
}

// Request 2 does not fit into the cache, and is then the head. Request 3 starts before request 2,
// and is preempted for request 2 when request 1 has ended.
TEST(FiguresTest, APreemptionForTheHeadIsCounted) {
  SchedulerFixture fixture({.num_blocks = 8, .block_size = 4});
  fixture.Add(SchedulerFixture::Ask(1, 12, 4, 1));
  fixture.Add(SchedulerFixture::Ask(2, 29, 2, 2));
  fixture.Add(SchedulerFixture::Ask(3, 2, 20, 3));
  while (!fixture.admissions.contains(2)) fixture.Step();
  EXPECT_THAT(fixture.scheduler.TakeCounts().preemptions, ElementsAre(1, 0, 0));
}

// Tenant 1 holds all four slots. Then two of its sequences are preempted for tenant 2.
TEST(FiguresTest, PreemptionsForTheShareOfATenantAreCounted) {
  SchedulerFixture fixture(kLargeCache, {.step_tokens_max = 64, .running_max = 4});
  for (uint64_t id = 1; id <= 6; ++id) fixture.Add(AskAsTenant(1, id, 4, 200));
  for (int32_t step = 0; step < 10; ++step) fixture.Step();
  for (uint64_t id = 11; id <= 16; ++id) fixture.Add(AskAsTenant(2, id, 4, 200));
  for (int32_t step = 0; step < 50; ++step) fixture.Step();
  EXPECT_THAT(fixture.scheduler.TakeCounts().preemptions, ElementsAre(0, 2, 0));
}

// The prompt of request 4 is cached, so request 4 starts before requests 2 and 3.
TEST(FiguresTest, EachOvertakenSequenceIsCounted) {
  SchedulerFixture fixture(kLargeCache, {.step_tokens_max = 8, .running_max = 1});
  fixture.Add(SchedulerFixture::Ask(1, 17, 1, 7));
  fixture.StepToTheEnd();
  fixture.Add(SchedulerFixture::Ask(2, 17, 1, 2));
  fixture.Add(SchedulerFixture::Ask(3, 17, 1, 3));
  fixture.Add(SchedulerFixture::Ask(4, 17, 1, 7));
  EXPECT_EQ(fixture.Step().front().first, 4u);
  EXPECT_EQ(fixture.scheduler.TakeCounts().overtakes, 2);
  fixture.StepToTheEnd();
  EXPECT_EQ(fixture.scheduler.TakeCounts().overtakes, 0);
}

TEST(FiguresTest, TheServiceOfReportedTenantsIsCountedSeparately) {
  SchedulerFixture fixture(
      kLargeCache, {.step_tokens_max = 64,
                    .running_max = 8,
                    .shares = {.output_price = 3, .weights = {{5, 2.0}}, .reported = {5, 6}}});
  fixture.Add(AskAsTenant(5, 1, 20, 4));
  fixture.Add(AskAsTenant(7, 2, 10, 2));
  fixture.Add(AskAsTenant(8, 3, 5, 1));
  fixture.StepToTheEnd();
  const ServiceTotals services = fixture.scheduler.TakeCounts().services;
  EXPECT_DOUBLE_EQ(services[0], (20 + 4 * 3) / 2.0);
  EXPECT_DOUBLE_EQ(services[1], 0);
  EXPECT_DOUBLE_EQ(services.back(), 10 + 2 * 3 + 5 + 3);
}

TEST(FiguresTest, TheServiceGapConcernsTenantsWithWaitingRequests) {
  SchedulerFixture fixture(kLargeCache, {.step_tokens_max = 16, .running_max = 1});
  EXPECT_EQ(fixture.scheduler.Figures().num_active_tenants, 0);
  for (uint64_t id = 1; id <= 2; ++id) fixture.Add(AskAsTenant(1, id, 16, 4));
  for (uint64_t id = 11; id <= 12; ++id) fixture.Add(AskAsTenant(2, id, 16, 4));
  EXPECT_EQ(fixture.scheduler.Figures().num_active_tenants, 2);
  EXPECT_EQ(fixture.scheduler.Figures().service_gap, 0);
  fixture.Step();
  const double gap = fixture.scheduler.shares().service(0) - fixture.scheduler.shares().service(1);
  EXPECT_GT(gap, 0);
  EXPECT_EQ(fixture.scheduler.Figures().service_gap, gap);
  for (const uint64_t id : {11, 12}) fixture.scheduler.Cancel(RequestId{id});
  EXPECT_EQ(fixture.scheduler.Figures().service_gap, 0) << "only one tenant waits";
  EXPECT_EQ(fixture.scheduler.Figures().num_active_tenants, 1);
}

TEST(FiguresTest, EachClassOfStepsHasAnErrorOfItsPredictions) {
  SchedulerFixture fixture(kLargeCache);
  fixture.duration = std::chrono::milliseconds(10);
  fixture.Add(SchedulerFixture::Ask(1, 16, 40));
  fixture.Step();
  EXPECT_THAT(fixture.scheduler.Figures().step_time_errors, ElementsAre(0, 0, 0));
  for (int32_t step = 0; step < 30; ++step) fixture.Step();
  const StepTimeModel& model = fixture.scheduler.step_times();
  EXPECT_EQ(fixture.scheduler.Figures().step_time_errors[0], model.ErrorOf(StepClass::kDecode));
  fixture.Add(SchedulerFixture::Ask(2, 16, 40, 2));
  fixture.Step();
  EXPECT_GT(model.ErrorOf(StepClass::kMixed), 0);
  EXPECT_EQ(fixture.scheduler.Figures().step_time_errors[1], model.ErrorOf(StepClass::kMixed));
  EXPECT_EQ(fixture.scheduler.Figures().step_time_errors[2], 0);
}

}  // namespace
}  // namespace incipit
