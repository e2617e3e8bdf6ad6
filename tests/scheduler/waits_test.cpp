// Tests the waiting times of a request, which the scheduler reports separately for each reason to
// wait.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/scheduler/overlap_fixture.h"

namespace incipit {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::Key;
using testing::UnorderedElementsAre;

// Returns the times for which a request waits for its turn, for free blocks, and for a shared
// prefix.
WaitTimes Waits(int64_t share_ms, int64_t room_ms, int64_t prefix_ms) {
  return {milliseconds(share_ms), milliseconds(room_ms), milliseconds(prefix_ms)};
}

// Returns a request whose prompt consists of `num_prompt` times the same `token`.
Request AskAt(int64_t arrival_ms, uint64_t id, int32_t num_prompt, int32_t num_output,
              TokenId token) {
  Request request = SchedulerFixture::Ask(id, num_prompt, num_output, token);
  request.arrival = At(arrival_ms);
  return request;
}

// Runs a step at each multiple of 10 ms from `begin_ms` until request `id` is admitted. Returns the
// time of the step that admitted the request.
int64_t StepUntilAdmitted(SchedulerFixture& fixture, int64_t begin_ms, uint64_t id) {
  int64_t now_ms = begin_ms;
  for (; now_ms < begin_ms + 1000; now_ms += 10) {
    fixture.Step(At(now_ms));
    if (fixture.admissions.contains(id)) break;
  }
  return now_ms;
}

TEST(WaitClockTest, DividesTheTimeSinceTheArrival) {
  WaitClock clock(At(100));
  EXPECT_EQ(clock.times(), Waits(0, 0, 0));
  clock.Enter(WaitReason::kRoom, At(103));
  clock.Enter(WaitReason::kRoom, At(107));
  clock.Enter(WaitReason::kPrefix, At(115));
  clock.Enter(WaitReason::kShare, At(131));
  EXPECT_EQ(clock.times(), Waits(3, 12, 16));
  EXPECT_EQ(SumOf(clock.times()), milliseconds(31));
}

TEST(WaitsTest, ARequestThatStartsAtOnceWaitsForItsShare) {
  SchedulerFixture fixture;
  fixture.Add(AskAt(3, 1, 8, 1, 1));
  fixture.Step(At(10));
  EXPECT_EQ(fixture.admissions[1].waits, Waits(7, 0, 0));
  EXPECT_EQ(fixture.admissions[1].queue_time, milliseconds(7));
}

TEST(WaitsTest, ARequestWithoutASlotWaitsForItsShare) {
  SchedulerFixture fixture({.num_blocks = 64, .block_size = 4},
                           {.step_tokens_max = 64, .running_max = 1});
  fixture.Add(AskAt(0, 1, 8, 3, 1));
  fixture.Add(AskAt(5, 2, 8, 1, 2));
  EXPECT_EQ(StepUntilAdmitted(fixture, 10, 2), 40);
  EXPECT_EQ(fixture.admissions[2].waits, Waits(35, 0, 0));
}

// Request 2 needs all 8 blocks, and request 1 holds blocks until it ends.
TEST(WaitsTest, ARequestThatDoesNotFitWaitsForRoom) {
  SchedulerFixture fixture({.num_blocks = 8, .block_size = 4});
  fixture.Add(AskAt(0, 1, 12, 4, 1));
  fixture.Add(AskAt(3, 2, 29, 2, 2));
  EXPECT_EQ(StepUntilAdmitted(fixture, 10, 2), 50);
  EXPECT_EQ(fixture.admissions[2].waits, Waits(7, 40, 0));
}

// Requests 2 and 3 do not fit into the cache beside request 1. Request 4 fits and starts before
// them.
TEST(WaitsTest, ARequestThatDoesNotFitBehindTheHeadWaitsForRoomToo) {
  SchedulerFixture fixture({.num_blocks = 8, .block_size = 4});
  fixture.Add(AskAt(0, 1, 12, 4, 1));
  fixture.Add(AskAt(3, 2, 29, 1, 2));
  fixture.Add(AskAt(4, 3, 29, 1, 3));
  fixture.Add(AskAt(5, 4, 2, 1, 4));
  EXPECT_EQ(StepUntilAdmitted(fixture, 10, 3), 60);
  EXPECT_EQ(fixture.admissions[4].waits, Waits(5, 0, 0));
  EXPECT_EQ(fixture.admissions[2].waits, Waits(7, 40, 0));
  EXPECT_EQ(fixture.admissions[3].waits, Waits(6, 50, 0));
}

// Requests 2 and 3 share 24 tokens with request 1, which computes 8 tokens in each step. Each
// request has its own tokens after the shared tokens.
class SharedPrefixTest : public testing::Test {
 protected:
  SharedPrefixTest() {
    AddSharing(0, 1, 80);
    fixture_.Step(At(10));
    AddSharing(13, 2, 24);
    fixture_.Step(At(20));
    EXPECT_EQ(fixture_.scheduler.running().front()->first_waiter->request().id, RequestId{2});
  }

  void AddSharing(int64_t arrival_ms, uint64_t id, int32_t num_shared) {
    Request request = AskAt(arrival_ms, id, num_shared, 2, 1);
    request.prompt.insert(request.prompt.end(), 3, static_cast<TokenId>(id + 1));
    request.priority = static_cast<int32_t>(id);
    fixture_.Add(std::move(request));
  }

  SchedulerFixture fixture_{{.num_blocks = 256, .block_size = 4},
                            {.step_tokens_max = 8, .running_max = 8}};
};

// The step at 30 ms computes the last shared token. The step at 40 ms starts request 2.
TEST_F(SharedPrefixTest, ARequestWaitsForItsPrefixUntilTheLastSharedTokenIsPlanned) {
  EXPECT_EQ(StepUntilAdmitted(fixture_, 30, 2), 40);
  EXPECT_EQ(fixture_.admissions[2].waits, Waits(7 + 10, 0, 10));
}

// Request 1, which computes the prefix, is cancelled after a plan at 24 ms. The wait of request 2
// for the prefix then ends at 24 ms, the time of the plan.
TEST_F(SharedPrefixTest, AfterTheEndOfTheProducerTheRequestWaitsForItsShare) {
  fixture_.Plan(At(24));
  fixture_.scheduler.Cancel(RequestId{1});
  fixture_.Run();
  fixture_.Step(At(50));
  EXPECT_EQ(fixture_.admissions[2].waits, Waits(7 + 26, 0, 4));
}

TEST(WaitsTest, TheTimeOfAFailedAttemptCountsAsAWaitForTheShare) {
  SchedulerFixture fixture;
  fixture.Add(AskAt(3, 1, 8, 1, 1));
  fixture.Plan(At(10));
  fixture.scheduler.Abort(fixture.plan);
  fixture.Step(At(25));
  EXPECT_EQ(fixture.admissions[1].waits, Waits(22, 0, 0));
  EXPECT_EQ(fixture.admissions[1].queue_time, milliseconds(22));
}

// The reported waiting times of a request end at the plan of its first step. The plan of its second
// step does not change these times.
TEST(WaitsTest, WithTwoStepsInFlightTheWaitEndsWithTheFirstPlan) {
  OverlapFixture fixture;
  fixture.Add(AskAt(1, 1, 8, 4, 1));
  EXPECT_THAT(fixture.Begin(At(5)), ElementsAre(Key(1)));
  fixture.Add(AskAt(6, 2, 8, 4, 2));
  EXPECT_THAT(fixture.Begin(At(9)), UnorderedElementsAre(Key(1), Key(2)));
  fixture.End();
  fixture.Begin(At(20));
  fixture.End();
  EXPECT_EQ(fixture.admissions[1].waits, Waits(4, 0, 0));
  EXPECT_EQ(fixture.admissions[2].waits, Waits(3, 0, 0));
  fixture.RunToTheEnd();
}

// Returns the deferrals since the last call, as {room, slots, tokens, prefix, load, order}.
std::array<int64_t, kNumDeferralReasons> TakeDeferrals(SchedulerFixture& fixture) {
  return fixture.scheduler.TakeCounts().deferrals;
}

TEST(DeferralsTest, EachStepCountsTheRequestsThatWaitForASlot) {
  SchedulerFixture fixture({.num_blocks = 64, .block_size = 4},
                           {.step_tokens_max = 64, .running_max = 1});
  for (uint64_t id = 1; id <= 3; ++id) fixture.Add(AskAt(0, id, 8, 2, static_cast<TokenId>(id)));
  fixture.Step();
  EXPECT_THAT(TakeDeferrals(fixture), ElementsAre(0, 2, 0, 0, 0, 0));
  fixture.Step();
  fixture.Step();
  EXPECT_THAT(TakeDeferrals(fixture), ElementsAre(0, 2 + 1, 0, 0, 0, 0));
}

TEST(DeferralsTest, ARequestBehindAFullStepWaitsForTokens) {
  SchedulerFixture fixture({.num_blocks = 64, .block_size = 4},
                           {.step_tokens_max = 16, .running_max = 8});
  fixture.Add(AskAt(0, 1, 16, 2, 1));
  fixture.Add(AskAt(0, 2, 16, 2, 2));
  fixture.Step();
  EXPECT_THAT(TakeDeferrals(fixture), ElementsAre(0, 0, 1, 0, 0, 0));
}

// Request 1 holds 3 of the 8 blocks. Requests 2 and 3 need all blocks.
TEST(DeferralsTest, RequestsThatDoNotFitWaitForRoom) {
  SchedulerFixture fixture({.num_blocks = 8, .block_size = 4});
  fixture.Add(AskAt(0, 1, 10, 3, 1));
  fixture.Add(AskAt(0, 2, 29, 2, 2));
  fixture.Add(AskAt(0, 3, 29, 2, 3));
  fixture.Step();
  fixture.Step();
  EXPECT_THAT(TakeDeferrals(fixture), ElementsAre(4, 0, 0, 0, 0, 0));
}

// Request 2 waits for a prefix that request 1 computes, in the steps at 10 ms and 20 ms.
TEST_F(SharedPrefixTest, ARequestThatWaitsForAPrefixCountsInEachStep) {
  EXPECT_THAT(TakeDeferrals(fixture_), ElementsAre(0, 0, 0, 1, 0, 0));
}

TEST(DeferralsTest, APlanWithoutAStepCountsNothing) {
  SchedulerFixture fixture;
  fixture.Plan();
  EXPECT_THAT(TakeDeferrals(fixture), ElementsAre(0, 0, 0, 0, 0, 0));
}

}  // namespace
}  // namespace incipit
