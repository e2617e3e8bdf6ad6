// Tests loads of prefixes that are larger than staging, and therefore arrive in parts.
#include <gtest/gtest.h>

#include <chrono>
#include <utility>

#include "tests/scheduler/loads_fixture.h"

namespace incipit {
namespace {

using std::chrono::milliseconds;

// Staging holds 3 of the 4 chunks of request 1, so the chunks arrive in two parts.
class PartsTest : public LoadsTest {
 protected:
  explicit PartsTest(int32_t num_blocks = 64, Duration load_wait_max = {})
      : LoadsTest({.shape = kLoadsShape, .staging_slots = 3, .polls_max = 0},
                  {.step_tokens_max = 8,
                   .running_max = 8,
                   .load_wait_max = load_wait_max,
                   // Staging has room for one store at a time.
                   .chunk_events_max = 1},
                  num_blocks) {}

  // Runs steps until the blocks of the first part of request 2 are written. `num_waiting` other
  // requests wait.
  void WriteFirstPart(int32_t num_waiting = 0) {
    do Step();
    while (fixture_.plan.writes.empty());
    EXPECT_EQ(fixture_.cache.num_used(), 6);
    EXPECT_EQ(fixture_.scheduler.num_running(), 1);
    EXPECT_EQ(fixture_.scheduler.num_loading(), 1);
    EXPECT_EQ(fixture_.scheduler.num_waiting(), num_waiting);
  }
};

TEST_F(PartsTest, AHitLargerThanStagingArrivesInParts) {
  fixture_.Add(Ask(2, 33));
  EXPECT_TRUE(Step().empty());
  EXPECT_EQ(tier_.num_tickets(), 3);
  EXPECT_EQ(Step(), (SchedulerFixture::Shares{{2, 0}}));
  EXPECT_EQ(fixture_.plan.writes.size(), 6u);
  EXPECT_EQ(fixture_.cache.num_used(), 6);
  EXPECT_EQ(tier_.num_tickets(), 0);
  EXPECT_FALSE(fixture_.admissions.contains(2));
  EXPECT_TRUE(Step().empty());
  EXPECT_EQ(tier_.num_tickets(), 1);
  EXPECT_EQ(Step(), (SchedulerFixture::Shares{{2, 1}}));
  EXPECT_EQ(fixture_.plan.writes.size(), 2u);
  Finish();
  EXPECT_EQ(AdmissionOf(2).num_cached_tokens, 32);
  EXPECT_EQ(AdmissionOf(2).num_loaded_tokens, 32);
  EXPECT_EQ(AdmissionOf(2).miss.reason, MissReason::kNone);
  EXPECT_EQ(AdmissionOf(2).waits[static_cast<size_t>(WaitReason::kLoad)], milliseconds(3));
  EXPECT_EQ(fixture_.OutputOf(2).tokens, expected_);
  EXPECT_EQ(tier_.num_tickets(), 0);
}

// The eviction policy and the statistics must know which blocks were loaded.
TEST_F(PartsTest, TheBlocksOfAllPartsCountAsLoaded) {
  fixture_.cache.TakeStats();
  fixture_.Add(Ask(2, 33));
  Finish();
  const KvCacheStats stats = fixture_.cache.TakeStats();
  EXPECT_EQ(stats.loaded_blocks, 8);
  EXPECT_EQ(stats.stored_blocks, 1);  // the last prompt token and three output tokens
}

// Request 2 computes the second part, because the part is lost after the step that wrote the part
// has failed.
TEST_F(PartsTest, ComputedBlocksDoNotCountAsLoadedAfterAFailedStep) {
  fixture_.cache.TakeStats();
  fixture_.Add(Ask(2, 33));
  WriteFirstPart();
  Step();
  fixture_.Plan(now_ += milliseconds(1));
  EXPECT_EQ(fixture_.plan.writes.size(), 2u);
  fixture_.scheduler.Abort(fixture_.plan);
  tier_.Clear();
  Finish();
  const KvCacheStats stats = fixture_.cache.TakeStats();
  EXPECT_EQ(stats.loaded_blocks, 6);
  EXPECT_EQ(stats.stored_blocks, 3);
}

TEST_F(PartsTest, APartFollowsACachedPrefix) {
  fixture_.Add(Ask(2, 14));  // the cache then has 3 blocks, and one and a half chunks
  Finish();
  fixture_.Add(Ask(3, 40));
  Finish();
  EXPECT_EQ(AdmissionOf(3).num_cached_tokens, 32);
  EXPECT_EQ(AdmissionOf(3).num_loaded_tokens, 20);
  EXPECT_EQ(AdmissionOf(3).miss.block, 8);
}

TEST_F(PartsTest, OthersComputeInTheStepsOfTheParts) {
  fixture_.Add(SchedulerFixture::Ask(3, 5, 30));
  Step();
  fixture_.Add(Ask(2, 33));
  Step();
  EXPECT_EQ(Step(), (SchedulerFixture::Shares{{3, 1}, {2, 0}}));
  EXPECT_EQ(Step(), (SchedulerFixture::Shares{{3, 1}}));
  EXPECT_EQ(Step(), (SchedulerFixture::Shares{{3, 1}, {2, 1}}));
  Finish();
  EXPECT_EQ(AdmissionOf(2).num_loaded_tokens, 32);
  EXPECT_EQ(fixture_.OutputOf(2).tokens, expected_);
}

TEST_F(PartsTest, RequestsWithTheSamePrefixWaitForAllParts) {
  fixture_.Add(Ask(2, 33));
  WriteFirstPart();
  const int64_t before = tier_.num_loads();
  fixture_.Add(Ask(3, 33));
  Finish();
  EXPECT_EQ(tier_.num_loads(), before + 1);
  EXPECT_EQ(AdmissionOf(3).num_cached_tokens, 32);
  EXPECT_EQ(AdmissionOf(3).num_loaded_tokens, 0);
  EXPECT_EQ(fixture_.OutputOf(3).tokens, expected_);
}

// Request 3 finds the blocks of the first part of request 2, and waits for request 2. After the
// cancellation, request 3 must load the other chunks.
TEST_F(PartsTest, ACancelBetweenPartsLetsAnotherRequestLoadTheRest) {
  fixture_.Add(Ask(2, 33));
  fixture_.Add(Ask(3, 33));
  Step();
  EXPECT_EQ(fixture_.scheduler.num_loading(), 2);
  WriteFirstPart(1);
  EXPECT_TRUE(fixture_.scheduler.Cancel(RequestId{2}));
  Finish();
  EXPECT_EQ(AdmissionOf(3).num_cached_tokens, 32);
  EXPECT_EQ(AdmissionOf(3).num_loaded_tokens, 8);
  EXPECT_EQ(fixture_.OutputOf(3).tokens, expected_);
  EXPECT_EQ(tier_.num_tickets(), 0);
}

TEST_F(PartsTest, AllChoicesShareAPromptOfTwoParts) {
  Request request = Ask(2, 33);
  request.num_choices = 3;
  fixture_.Add(std::move(request));
  Finish();
  EXPECT_EQ(AdmissionOf(2).num_loaded_tokens, 32);
  EXPECT_EQ(fixture_.OutputOf(2, 0).tokens, expected_);
  EXPECT_EQ(fixture_.OutputOf(2, 2).tokens.size(), 4u);
}

TEST_F(PartsTest, ACancelBetweenPartsReleasesLoadsAndBlocks) {
  fixture_.Add(Ask(2, 33));
  WriteFirstPart();
  Step();
  EXPECT_EQ(tier_.num_tickets(), 1);
  EXPECT_TRUE(fixture_.scheduler.Cancel(RequestId{2}));
  EXPECT_EQ(tier_.num_tickets(), 0);
  EXPECT_EQ(fixture_.cache.num_used(), 0);
  EXPECT_TRUE(fixture_.scheduler.idle());
  EXPECT_EQ(fixture_.scheduler.num_waiting(), 0);
}

TEST_F(PartsTest, ACancelInTheStepOfAPartReleasesLoadsAndBlocksAtCommit) {
  fixture_.Add(Ask(2, 33));
  Step();
  fixture_.Plan(now_ += milliseconds(1));
  EXPECT_TRUE(fixture_.scheduler.Cancel(RequestId{2}));
  EXPECT_EQ(tier_.num_tickets(), 3);
  fixture_.Run();
  EXPECT_EQ(tier_.num_tickets(), 0);
  EXPECT_EQ(fixture_.cache.num_used(), 0);
  EXPECT_EQ(fixture_.scheduler.num_loading(), 0);
}

TEST_F(PartsTest, ADeadlineEndsTheWaitBetweenParts) {
  Request request = Ask(2, 33);
  request.deadline = now_ + milliseconds(50);
  fixture_.Add(std::move(request));
  WriteFirstPart();
  tier_.HangLoads();
  Step();
  fixture_.Step(now_ + milliseconds(60));
  EXPECT_EQ(fixture_.OutputOf(2).finish, FinishReason::kDeadline);
  EXPECT_EQ(tier_.num_tickets(), 0);
  EXPECT_EQ(fixture_.cache.num_used(), 0);
}

// A failed step keeps the blocks of the earlier part. The next step writes the same bytes again.
TEST_F(PartsTest, AFailedStepRepeatsOnlyItsPart) {
  fixture_.Add(Ask(2, 33));
  Step();
  fixture_.Plan(now_ += milliseconds(1));
  fixture_.scheduler.Abort(fixture_.plan);
  EXPECT_EQ(fixture_.cache.num_used(), 0);
  EXPECT_EQ(tier_.num_tickets(), 3);
  WriteFirstPart();
  Step();
  fixture_.Plan(now_ += milliseconds(1));
  EXPECT_EQ(fixture_.plan.writes.size(), 2u);
  fixture_.scheduler.Abort(fixture_.plan);
  EXPECT_EQ(fixture_.cache.num_used(), 6);
  EXPECT_EQ(tier_.num_tickets(), 1);
  EXPECT_EQ(Step(), (SchedulerFixture::Shares{{2, 1}}));
  EXPECT_EQ(fixture_.plan.writes.size(), 2u);
  Finish();
  EXPECT_EQ(AdmissionOf(2).num_loaded_tokens, 32);
  EXPECT_EQ(fixture_.OutputOf(2).tokens, expected_);
}

TEST_F(PartsTest, AFailedPartIsComputed) {
  fixture_.Add(Ask(2, 33));
  WriteFirstPart();
  Step();
  tier_.Clear();
  Finish();
  EXPECT_EQ(AdmissionOf(2).num_loaded_tokens, 24);
  EXPECT_EQ(AdmissionOf(2).miss.reason, MissReason::kLoadFailed);
  EXPECT_EQ(AdmissionOf(2).miss.block, 6);
  EXPECT_EQ(fixture_.OutputOf(2).tokens, expected_);
}

// The tier loses the second part before its load starts.
TEST_F(PartsTest, AMissingPartIsComputed) {
  fixture_.Add(Ask(2, 33));
  WriteFirstPart();
  tier_.Clear();
  EXPECT_EQ(Step(), (SchedulerFixture::Shares{{2, 8}}));
  Finish();
  EXPECT_EQ(AdmissionOf(2).num_loaded_tokens, 24);
  EXPECT_EQ(AdmissionOf(2).miss.reason, MissReason::kLoadFailed);
  EXPECT_EQ(fixture_.OutputOf(2).tokens, expected_);
}

// A tenant pays the same for tokens that are loaded in parts and for tokens that are cached.
TEST_F(PartsTest, TheTenantIsChargedForLoadedTokensOfAllParts) {
  const double before = fixture_.scheduler.shares().service(0);
  fixture_.Add(Ask(2, 33, 1));
  Finish();
  const double in_parts = fixture_.scheduler.shares().service(0) - before;
  EXPECT_EQ(AdmissionOf(2).num_loaded_tokens, 32);
  fixture_.Add(Ask(3, 33, 1));
  Finish();
  EXPECT_EQ(AdmissionOf(3).num_cached_tokens, 32);
  EXPECT_NEAR(fixture_.scheduler.shares().service(0) - before - in_parts, in_parts, 1e-9);
}

// The step of the first part fails, and the next step writes the part again.
TEST_F(PartsTest, AFailedStepDoesNotChangeTheChargeForLoadedTokens) {
  const double before = fixture_.scheduler.shares().service(0);
  fixture_.Add(Ask(2, 33, 1));
  Step();
  fixture_.Plan(now_ += milliseconds(1));
  ASSERT_EQ(fixture_.plan.writes.size(), 6u);
  fixture_.scheduler.Abort(fixture_.plan);
  Finish();
  const double after_failure = fixture_.scheduler.shares().service(0) - before;
  EXPECT_EQ(AdmissionOf(2).num_loaded_tokens, 32);
  fixture_.Add(Ask(3, 33, 1));
  Finish();
  EXPECT_EQ(AdmissionOf(3).num_cached_tokens, 32);
  EXPECT_NEAR(fixture_.scheduler.shares().service(0) - before - after_failure, after_failure, 1e-9);
}

class BoundedPartsTest : public PartsTest {
 protected:
  BoundedPartsTest() : PartsTest(64, milliseconds(10)) {}
};

// The limit is for both parts together. The first part takes 1 ms.
TEST_F(BoundedPartsTest, TheWaitForAllPartsIsBounded) {
  fixture_.Add(Ask(2, 33));
  WriteFirstPart();
  tier_.HangLoads();
  Step();
  EXPECT_EQ(fixture_.scheduler.next_look(), now_ + milliseconds(9));
  Finish();
  EXPECT_EQ(AdmissionOf(2).num_loaded_tokens, 24);
  EXPECT_EQ(AdmissionOf(2).miss.reason, MissReason::kLoadFailed);
  EXPECT_EQ(fixture_.OutputOf(2).tokens, expected_);
  EXPECT_EQ(tier_.num_tickets(), 0);
}

class FewBlocksTest : public PartsTest {
 protected:
  FewBlocksTest() : PartsTest(12) {}
};

// Request 3 decodes until no block is free. Request 2 is then preempted, and is admitted again
// later.
TEST_F(FewBlocksTest, ASequenceBetweenPartsIsPreempted) {
  fixture_.Add(SchedulerFixture::Ask(3, 5, 40));
  Step();
  fixture_.Add(Ask(2, 33));
  while (fixture_.scheduler.num_running() < 2) Step();
  tier_.HangLoads();
  while (fixture_.scheduler.num_running() == 2) Step();
  EXPECT_EQ(fixture_.scheduler.num_loading(), 0);
  EXPECT_EQ(tier_.num_tickets(), 0);
  EXPECT_EQ(fixture_.scheduler.num_waiting(), 1);
  Finish();
  EXPECT_EQ(
      fixture_.scheduler.TakeCounts().preemptions[static_cast<size_t>(PreemptionReason::kDecode)],
      1);
  EXPECT_EQ(fixture_.OutputOf(3).tokens.size(), 40u);
  EXPECT_EQ(fixture_.OutputOf(2).tokens, expected_);
  EXPECT_GT(AdmissionOf(2).num_cached_tokens, 0);
  EXPECT_EQ(tier_.num_tickets(), 0);
}

// Request 2 starts first and waits for its second part. Requests 3 and 4 decode until no block is
// free. Request 4 is preempted, although request 2 started earlier and computes nothing.
TEST_F(FewBlocksTest, ALaterSequenceIsPreemptedBeforeTheEarliestSequenceBetweenParts) {
  fixture_.Add(Ask(2, 33));
  WriteFirstPart();
  tier_.HangLoads();
  for (const uint64_t id : {3, 4}) {
    fixture_.Add(SchedulerFixture::Ask(id, 3, 12, static_cast<TokenId>(id)));
  }
  do Step();
  while (fixture_.plan.num_preemptions == 0);
  ASSERT_EQ(fixture_.scheduler.num_running(), 2);
  EXPECT_EQ(fixture_.scheduler.running()[0]->request().id, RequestId{2});
  EXPECT_EQ(fixture_.scheduler.running()[1]->request().id, RequestId{3});
  EXPECT_EQ(fixture_.scheduler.num_loading(), 1);
  Finish();
  EXPECT_EQ(AdmissionOf(2).num_loaded_tokens, 32);
  EXPECT_EQ(fixture_.OutputOf(2).tokens, expected_);
}

// Request 3 decodes until no block is free, and no other sequence can be preempted. So request 2
// ends its wait, computes the tokens of the second part, and advances in this step.
TEST_F(FewBlocksTest, TheEarliestSequenceComputesInsteadOfItsPreemption) {
  fixture_.Add(Ask(2, 33));
  WriteFirstPart();
  tier_.HangLoads();
  fixture_.Add(SchedulerFixture::Ask(3, 5, 40));
  SchedulerFixture::Shares shares;
  do shares = Step();
  while (fixture_.plan.num_preemptions == 0);
  EXPECT_EQ(shares, (SchedulerFixture::Shares{{2, 8}}));
  EXPECT_EQ(fixture_.scheduler.num_loading(), 0);
  EXPECT_EQ(tier_.num_tickets(), 0);
  Finish();
  EXPECT_EQ(AdmissionOf(2).num_loaded_tokens, 24);
  EXPECT_EQ(AdmissionOf(2).miss.reason, MissReason::kLoadFailed);
  EXPECT_EQ(fixture_.OutputOf(2).tokens, expected_);
  EXPECT_EQ(fixture_.OutputOf(3).tokens.size(), 40u);
}

// The prompt of request 2 is among the running prompts while the request waits between two parts.
TEST_F(FewBlocksTest, APromptBetweenPartsDoesNotCountAsWaiting) {
  const Scheduler& scheduler = fixture_.scheduler;
  fixture_.Add(SchedulerFixture::Ask(3, 5, 40));
  Step();
  EXPECT_EQ(scheduler.num_waiting_prompt_tokens(), 0);
  fixture_.Add(Ask(2, 33));
  Step();
  EXPECT_EQ(scheduler.num_waiting_prompt_tokens(), 33);
  // The first plan with a write of request 2 fails. The request then waits again.
  fixture_.Plan(now_ += milliseconds(1));
  ASSERT_FALSE(fixture_.plan.writes.empty());
  EXPECT_EQ(scheduler.num_waiting_prompt_tokens(), 0);
  fixture_.scheduler.Abort(fixture_.plan);
  EXPECT_EQ(scheduler.num_waiting_prompt_tokens(), 33);
  while (scheduler.num_running() < 2) Step();
  EXPECT_EQ(scheduler.num_waiting_prompt_tokens(), 0);
  tier_.HangLoads();
  while (scheduler.num_running() == 2) Step();
  EXPECT_EQ(scheduler.num_waiting_prompt_tokens(), 33);
  EXPECT_TRUE(fixture_.scheduler.Cancel(RequestId{2}));
  EXPECT_EQ(scheduler.num_waiting_prompt_tokens(), 0);
}

// Staging holds one chunk, so the chunks of request 1 arrive in four parts.
class OneSlotTest : public LoadsTest {
 protected:
  OneSlotTest()
      : LoadsTest({.shape = kLoadsShape, .staging_slots = 1, .polls_max = 0},
                  {.step_tokens_max = 2, .running_max = 8, .chunk_events_max = 1}) {}
};

// Requests 3 and 4 decode. Request 2 started first, but needs no token of the step that writes its
// second part.
TEST_F(OneSlotTest, AStepThatOnlyWritesAPartKeepsNoTokenForItsSequence) {
  fixture_.Add(Ask(2, 33));
  do Step();
  while (fixture_.plan.writes.empty());
  for (const uint64_t id : {3, 4}) {
    fixture_.Add(SchedulerFixture::Ask(id, 1, 30, static_cast<TokenId>(id)));
  }
  EXPECT_EQ(Step(), (SchedulerFixture::Shares{{3, 1}, {4, 1}}));
  EXPECT_EQ(Step(), (SchedulerFixture::Shares{{3, 1}, {4, 1}, {2, 0}}));
  EXPECT_EQ(fixture_.plan.writes.size(), 2u);
  Finish();
  EXPECT_EQ(AdmissionOf(2).num_loaded_tokens, 32);
  EXPECT_EQ(fixture_.OutputOf(2).tokens, expected_);
}

}  // namespace
}  // namespace incipit
