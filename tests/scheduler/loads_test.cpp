// Tests loads of prefixes from a tier, and reports of chunks that a tier must store.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "tests/scheduler/loads_fixture.h"

namespace incipit {
namespace {

using std::chrono::milliseconds;

TEST_F(LoadsTest, APrefixInTheTierIsNotComputed) {
  fixture_.Add(Ask(2, 33));
  EXPECT_TRUE(Step().empty());
  EXPECT_EQ(fixture_.scheduler.num_loading(), 1);
  EXPECT_EQ(fixture_.scheduler.num_waiting(), 1);
  EXPECT_EQ(fixture_.cache.num_used(), 0);  // a waiting sequence holds no blocks
  EXPECT_EQ(Step(), (SchedulerFixture::Shares{{2, 1}}));
  Finish();
  EXPECT_EQ(fixture_.OutputOf(2).tokens, expected_);
  EXPECT_EQ(AdmissionOf(2).num_cached_tokens, 32);
  EXPECT_EQ(AdmissionOf(2).num_loaded_tokens, 32);
  EXPECT_EQ(AdmissionOf(2).miss.reason, MissReason::kNone);
  EXPECT_EQ(AdmissionOf(2).waits[static_cast<size_t>(WaitReason::kLoad)], milliseconds(1));
  EXPECT_EQ(tier_.num_tickets(), 0);
}

TEST_F(LoadsTest, LoadedTokensCostAsMuchAsCachedTokens) {
  fixture_.cache.TakeStats();
  const double before = fixture_.scheduler.shares().service(0);
  fixture_.Add(Ask(2, 33, 1));
  Finish();
  const ShareOptions prices;
  EXPECT_EQ(AdmissionOf(2).num_loaded_tokens, 32);
  EXPECT_DOUBLE_EQ(fixture_.scheduler.shares().service(0) - before,
                   prices.prompt_price + 32 * prices.cached_price + prices.output_price);
}

// The cache evicts the prompt, which has 8 blocks. The request loads these blocks, and computes one
// more block with its output.
TEST_F(LoadsTest, LoadedBlocksAreNotCountedAsComputedAndNotStoredAgain) {
  fixture_.Add(Ask(2, 33, 1));
  Finish();
  fixture_.cache.EvictTo(0);
  fixture_.cache.TakeStats();
  fixture_.scheduler.TakeCounts();
  fixture_.Add(Ask(3, 33, 5));
  Finish();
  EXPECT_EQ(AdmissionOf(3).num_loaded_tokens, 32);
  const KvCacheStats stats = fixture_.cache.TakeStats();
  EXPECT_EQ(stats.stored_blocks, 1);
  EXPECT_EQ(stats.loaded_blocks, 8);
  EXPECT_EQ(stats.regret_blocks, 0);
  EXPECT_EQ(tier_.num_stores(), 4);
  EXPECT_EQ(fixture_.scheduler.TakeCounts().loads, 1);
}

TEST_F(LoadsTest, LoadedBlocksAreFoundInTheCacheLater) {
  fixture_.Add(Ask(2, 33));
  Finish();
  const int64_t num_loads = tier_.num_loads();
  fixture_.Add(Ask(3, 33));
  Finish();
  EXPECT_EQ(tier_.num_loads(), num_loads);
  EXPECT_EQ(AdmissionOf(3).num_cached_tokens, 32);
  EXPECT_EQ(AdmissionOf(3).num_loaded_tokens, 0);
}

// The last token is computed, because its logits are needed. So the last chunk of a prompt of 32
// tokens is not loaded.
TEST_F(LoadsTest, TheLastTokenIsNeverLoaded) {
  fixture_.Add(Ask(2, 32));
  Finish();
  EXPECT_EQ(AdmissionOf(2).num_loaded_tokens, 24);
}

TEST_F(LoadsTest, AChunkContinuesACachedPrefix) {
  fixture_.Add(Ask(2, 14));  // the cache then has 3 blocks, and one and a half chunks
  Finish();
  fixture_.Add(Ask(3, 33));
  Finish();
  EXPECT_EQ(AdmissionOf(3).num_cached_tokens, 32);
  EXPECT_EQ(AdmissionOf(3).num_loaded_tokens, 20);
  EXPECT_EQ(AdmissionOf(3).num_copied_tokens, 0);
  EXPECT_EQ(fixture_.OutputOf(3).tokens, expected_);
}

TEST_F(LoadsTest, RequestsShareALoad) {
  fixture_.Add(Ask(2, 33));
  fixture_.Add(Ask(3, 33));
  const int64_t before = tier_.num_loads();
  Finish();
  EXPECT_EQ(tier_.num_loads(), before + 4);
  EXPECT_EQ(fixture_.OutputOf(2).tokens, expected_);
  EXPECT_EQ(fixture_.OutputOf(3).tokens, expected_);
  EXPECT_EQ(AdmissionOf(2).num_loaded_tokens + AdmissionOf(3).num_loaded_tokens, 32);
}

TEST_F(LoadsTest, OthersComputeWhileOneWaits) {
  fixture_.Add(Ask(2, 33));
  fixture_.Add(SchedulerFixture::Ask(3, 5, 1));
  EXPECT_EQ(Step(), (SchedulerFixture::Shares{{3, 5}}));
  Finish();
  EXPECT_EQ(AdmissionOf(2).num_loaded_tokens, 32);
}

TEST_F(LoadsTest, RequestsThatMustNotReadTheCacheLoadNothing) {
  const int64_t before = tier_.num_loads();
  Request fresh = Ask(2, 33);
  fresh.read_cache = false;
  Request scored = Ask(3, 33);
  scored.prompt_logprobs = 0;
  fixture_.Add(std::move(fresh));
  fixture_.Add(std::move(scored));
  Finish();
  EXPECT_EQ(tier_.num_loads(), before);
  EXPECT_EQ(fixture_.scored[3].size(), 32u);
}

TEST_F(LoadsTest, RequestsThatMustNotReadTheCacheComputeWhileAnotherRequestLoads) {
  tier_.HangLoads();
  fixture_.Add(Ask(2, 33));
  Step();
  Request fresh = Ask(3, 33);
  fresh.read_cache = false;
  Request scored = Ask(4, 33);
  scored.prompt_logprobs = 0;
  fixture_.Add(std::move(fresh));
  fixture_.Add(std::move(scored));
  EXPECT_EQ(Step(), (SchedulerFixture::Shares{{3, 33}, {4, 31}}));
  EXPECT_EQ(fixture_.scheduler.num_loading(), 1);
  Finish();
  for (const uint64_t id : {2, 3, 4}) EXPECT_EQ(fixture_.OutputOf(id).tokens, expected_);
  EXPECT_EQ(fixture_.scored[4].size(), 32u);
  EXPECT_EQ(AdmissionOf(3).num_cached_tokens, 0);
  EXPECT_EQ(AdmissionOf(4).num_cached_tokens, 0);
  EXPECT_EQ(AdmissionOf(2).num_cached_tokens, 32);
  EXPECT_EQ(tier_.num_tickets(), 0);
}

TEST_F(LoadsTest, AChoiceIsCancelledWhileThePromptLoads) {
  Request request = Ask(2, 33);
  request.num_choices = 3;
  fixture_.Add(std::move(request));
  Step();
  EXPECT_TRUE(fixture_.scheduler.CancelChoice(RequestId{2}, 1));
  EXPECT_EQ(tier_.num_tickets(), 4);
  Finish();
  EXPECT_EQ(AdmissionOf(2).num_loaded_tokens, 32);
  EXPECT_EQ(fixture_.OutputOf(2, 0).tokens, expected_);
  EXPECT_EQ(fixture_.OutputOf(2, 1).finish, FinishReason::kCancelled);
  EXPECT_EQ(fixture_.OutputOf(2, 2).tokens.size(), 4u);
}

TEST_F(LoadsTest, AllChoicesShareALoadedPrompt) {
  Request request = Ask(2, 33);
  request.num_choices = 3;
  fixture_.Add(std::move(request));
  Finish();
  EXPECT_EQ(AdmissionOf(2).num_loaded_tokens, 32);
  EXPECT_EQ(fixture_.OutputOf(2, 0).tokens, expected_);
  EXPECT_EQ(fixture_.OutputOf(2, 2).tokens.size(), 4u);
}

TEST_F(LoadsTest, ACancelReleasesTheLoads) {
  fixture_.Add(Ask(2, 33));
  Step();
  EXPECT_EQ(tier_.num_tickets(), 4);
  EXPECT_TRUE(fixture_.scheduler.Cancel(RequestId{2}));
  EXPECT_EQ(tier_.num_tickets(), 0);
  EXPECT_TRUE(fixture_.scheduler.idle());
}

TEST_F(LoadsTest, ADeadlineEndsTheWait) {
  Request request = Ask(2, 33);
  request.deadline = now_ + milliseconds(2);
  fixture_.Add(std::move(request));
  Step();
  fixture_.Step(now_ + milliseconds(5));
  EXPECT_EQ(fixture_.OutputOf(2).finish, FinishReason::kDeadline);
  EXPECT_EQ(tier_.num_tickets(), 0);
}

// The step that writes the loaded blocks fails. The next step writes the same bytes again.
TEST_F(LoadsTest, AFailedStepKeepsTheLoads) {
  fixture_.Add(Ask(2, 33));
  Step();
  fixture_.Plan(now_ += milliseconds(1));
  const int64_t before = tier_.num_loads();
  EXPECT_EQ(fixture_.plan.writes.size(), 8u);
  fixture_.scheduler.Abort(fixture_.plan);
  EXPECT_EQ(fixture_.cache.num_used(), 0);
  EXPECT_EQ(Step(), (SchedulerFixture::Shares{{2, 1}}));
  Finish();
  EXPECT_EQ(tier_.num_loads(), before);
  EXPECT_EQ(fixture_.OutputOf(2).tokens, expected_);
}

TEST_F(LoadsTest, ACancelInTheStepThatWritesReleasesTheLoadsAtCommit) {
  fixture_.Add(Ask(2, 33));
  Step();
  fixture_.Plan(now_ += milliseconds(1));
  EXPECT_TRUE(fixture_.scheduler.Cancel(RequestId{2}));
  EXPECT_EQ(tier_.num_tickets(), 4);  // the device still reads the bytes
  fixture_.Run();
  EXPECT_EQ(tier_.num_tickets(), 0);
  EXPECT_EQ(fixture_.cache.num_used(), 0);
}

TEST_F(LoadsTest, AResetOfTheTierEndsLoads) {
  fixture_.Add(Ask(2, 33));
  Step();
  tier_.Clear();
  Finish();
  EXPECT_EQ(AdmissionOf(2).num_loaded_tokens, 0);
  EXPECT_EQ(AdmissionOf(2).miss.reason, MissReason::kLoadFailed);
  EXPECT_EQ(fixture_.OutputOf(2).tokens, expected_);
}

// A request whose values are not finite removes its prompt from the tier.
TEST_F(LoadsTest, AFailedRequestRemovesItsChunks) {
  fixture_.Add(Ask(2, 33));
  Step();
  fixture_.runner.PoisonNextStep(0);
  Finish();
  EXPECT_EQ(fixture_.OutputOf(2).finish, FinishReason::kError);
  EXPECT_EQ(tier_.num_chunks(), 0);
}

class FailingLoadsTest : public LoadsTest {
 protected:
  FailingLoadsTest() : LoadsTest({.shape = kLoadsShape, .polls_max = 0, .fail = 100}) {}
};

TEST_F(FailingLoadsTest, AFailedLoadIsComputed) {
  fixture_.Add(Ask(2, 33));
  Finish();
  EXPECT_EQ(AdmissionOf(2).num_loaded_tokens, 0);
  EXPECT_EQ(AdmissionOf(2).miss.reason, MissReason::kLoadFailed);
  EXPECT_EQ(AdmissionOf(2).miss.block, 0);
  EXPECT_EQ(fixture_.OutputOf(2).tokens, expected_);
  EXPECT_EQ(fixture_.scheduler.TakeCounts().failed_loads, 1);
}

class HangingLoadsTest : public LoadsTest {
 protected:
  HangingLoadsTest()
      : LoadsTest({.shape = kLoadsShape, .polls_max = 0, .hang = 100},
                  {.step_tokens_max = 64, .running_max = 8, .load_wait_max = milliseconds(10)}) {}
};

TEST_F(HangingLoadsTest, AWaitForLoadsIsBounded) {
  fixture_.Add(Ask(2, 33));
  const Time begin = now_;
  Step();
  EXPECT_EQ(fixture_.scheduler.next_look(), begin + milliseconds(11));
  Finish();
  EXPECT_EQ(AdmissionOf(2).waits[static_cast<size_t>(WaitReason::kLoad)], milliseconds(10));
  EXPECT_EQ(AdmissionOf(2).num_loaded_tokens, 0);
  EXPECT_EQ(AdmissionOf(2).miss.reason, MissReason::kLoadFailed);
  EXPECT_EQ(fixture_.OutputOf(2).tokens, expected_);
  EXPECT_EQ(tier_.num_tickets(), 0);
}

class FullTest : public LoadsTest {
 protected:
  FullTest()
      : LoadsTest({.shape = kLoadsShape, .polls_max = 0},
                  {.step_tokens_max = 64, .running_max = 2}) {}
};

// One tenant has both slots when a request of another tenant arrives. No sequence is preempted
// while the request waits for its loads.
TEST_F(FullTest, NothingIsPreemptedForARequestThatLoads) {
  for (const uint64_t id : {10, 11}) {
    fixture_.Add(SchedulerFixture::Ask(id, 5, 100, static_cast<TokenId>(id)));
  }
  for (int32_t i = 0; i < 5; ++i) Step();
  Request other = Ask(2, 33);
  other.tenant = 7;
  fixture_.Add(std::move(other));
  // A new tenant has as much service as the other tenant, so it gets no slot in the first step.
  Step();
  EXPECT_EQ(fixture_.scheduler.num_loading(), 0);
  EXPECT_EQ(Step(), (SchedulerFixture::Shares{{10, 1}, {11, 1}}));
  EXPECT_EQ(fixture_.plan.num_preemptions, 0);
  EXPECT_EQ(fixture_.scheduler.num_loading(), 1);
  // The loads have ended.
  Step();
  EXPECT_EQ(fixture_.plan.num_preemptions, 1);
  Finish();
  EXPECT_EQ(AdmissionOf(2).num_loaded_tokens, 32);
  EXPECT_EQ(fixture_.OutputOf(2).tokens, expected_);
}

TEST_F(LoadsTest, APreviewHasTheTokensOfTheTierThatTheDeviceLacks) {
  const auto preview = [this](Request request) {
    return fixture_.scheduler.Preview(
        *MakeSequenceGroup(std::make_shared<const Request>(std::move(request)), fixture_.cache));
  };
  EXPECT_EQ(preview(Ask(2, 33)).cached_tokens, 0);
  EXPECT_EQ(preview(Ask(2, 33)).loadable_tokens, 32);
  EXPECT_EQ(preview(Ask(2, 32)).loadable_tokens, 24);  // the last token must be computed
  Request fresh = Ask(2, 33);
  fresh.read_cache = false;
  EXPECT_EQ(preview(std::move(fresh)).loadable_tokens, 0);
  fixture_.Add(Ask(3, 13, 1));  // 3 full blocks
  Finish();
  EXPECT_EQ(preview(Ask(2, 33)).cached_tokens, 12);
  EXPECT_EQ(preview(Ask(2, 33)).loadable_tokens, 20);
}

class SlowTierTest : public LoadsTest {
 protected:
  SlowTierTest()
      : LoadsTest({.shape = kLoadsShape, .polls_max = 0, .load_time = std::chrono::seconds(100)}) {}
};

TEST_F(SlowTierTest, ALoadThatTakesLongerThanComputingIsNotStarted) {
  TrainStepTimes();
  const auto group = MakeSequenceGroup(std::make_shared<const Request>(Ask(2, 33)), fixture_.cache);
  EXPECT_EQ(fixture_.scheduler.Preview(*group).loadable_tokens, 0);
  const int64_t before = tier_.num_loads();
  fixture_.Add(Ask(2, 33));
  EXPECT_EQ(Step(), (SchedulerFixture::Shares{{2, 33}}));
  EXPECT_EQ(tier_.num_loads(), before);
}

// One of 16 loads that seem too slow is started, so that the tier measures its loads again.
TEST_F(SlowTierTest, SomeLoadsThatSeemSlowAreStarted) {
  TrainStepTimes();
  const int64_t before = tier_.num_loads();
  for (uint64_t id = 200; id < 215; ++id) {
    fixture_.Add(Ask(id, 33));
    Finish();
    ResetDevice();
    EXPECT_EQ(tier_.num_loads(), before);
  }
  fixture_.Add(Ask(300, 33));
  Finish();
  EXPECT_EQ(tier_.num_loads(), before + 4);
}

class AlwaysLoadTest : public LoadsTest {
 protected:
  AlwaysLoadTest()
      : LoadsTest({.shape = kLoadsShape, .polls_max = 0, .load_time = std::chrono::seconds(100)},
                  {.step_tokens_max = 64, .running_max = 8, .load_policy = LoadPolicy::kAlways}) {}
};

TEST_F(AlwaysLoadTest, ALoadThatTakesLongerThanComputingIsStarted) {
  TrainStepTimes();
  const auto group = MakeSequenceGroup(std::make_shared<const Request>(Ask(2, 33)), fixture_.cache);
  EXPECT_EQ(fixture_.scheduler.Preview(*group).loadable_tokens, 32);
  Request urgent = Ask(3, 33);
  urgent.deadline = now_ + std::chrono::seconds(1000);
  const auto other = MakeSequenceGroup(std::make_shared<const Request>(urgent), fixture_.cache);
  EXPECT_EQ(fixture_.scheduler.Preview(*other).loadable_tokens, 0);
  const int64_t before = tier_.num_loads();
  fixture_.Add(Ask(2, 33));
  EXPECT_TRUE(Step().empty());
  EXPECT_EQ(tier_.num_loads(), before + 4);
  // The maximum wait is twice the predicted time of 4 loads.
  EXPECT_EQ(fixture_.scheduler.next_look(), now_ + 2 * 4 * std::chrono::seconds(100));
  Finish();
  EXPECT_EQ(AdmissionOf(2).num_loaded_tokens, 32);
}

// Each token takes 1 ms. The prompt of request 2 takes 33 ms without the tier, and must be computed
// within 30 ms.
TEST_F(LoadsTest, ADeadlineConsidersWhatTheTierHas) {
  const auto timed_step = [&] {
    fixture_.Plan(now_ += milliseconds(1));
    fixture_.duration = milliseconds(fixture_.plan.num_tokens);
    if (!fixture_.plan.items.empty()) fixture_.Run();
    fixture_.Collect();
  };
  for (int32_t i = 0; i < 20; ++i) {
    fixture_.Add(SchedulerFixture::Ask(static_cast<uint64_t>(100 + i), 8 + i, 2, 100 + i));
    while (!fixture_.scheduler.idle()) timed_step();
  }
  ASSERT_TRUE(fixture_.scheduler.step_times().trained());
  Request request = Ask(2, 33);
  request.first_token_deadline = now_ + milliseconds(30);
  fixture_.Add(std::move(request));
  while (!fixture_.scheduler.idle()) timed_step();
  EXPECT_EQ(fixture_.OutputOf(2).finish, FinishReason::kLength);
  EXPECT_EQ(AdmissionOf(2).num_loaded_tokens, 32);
}

// The cache lost the blocks before the loaded chunks while they were loaded.
TEST_F(LoadsTest, AGapBeforeTheLoadedChunksIsComputed) {
  fixture_.Add(Ask(2, 17));
  Finish();
  fixture_.Add(Ask(3, 33));
  Step();
  ResetDevice();
  Finish();
  EXPECT_EQ(AdmissionOf(3).num_loaded_tokens, 0);
  EXPECT_EQ(fixture_.OutputOf(3).tokens, expected_);
  EXPECT_EQ(tier_.num_tickets(), 0);
}

TEST(ChunkEventsTest, EachCompleteChunkIsReportedOnce) {
  FakeTier tier({.shape = kLoadsShape, .polls_max = 0});
  SchedulerFixture fixture({.num_blocks = 64, .block_size = kLoadsBlock},
                           {.step_tokens_max = 6, .running_max = 2}, &tier);
  fixture.Add(SchedulerFixture::Ask(1, 20, 5));
  fixture.StepToTheEnd();
  tier.Poll();
  EXPECT_EQ(tier.num_chunks(), 3);  // 24 of 25 tokens have keys and values
}

TEST(ChunkEventsTest, AChunkThatIsOnlyInTheCacheIsStoredLater) {
  FakeTier tier({.shape = kLoadsShape, .polls_max = 0});
  SchedulerFixture fixture({.num_blocks = 64, .block_size = kLoadsBlock},
                           {.step_tokens_max = 64, .running_max = 2}, &tier);
  fixture.Add(SchedulerFixture::Ask(1, 17, 1));
  fixture.StepToTheEnd();
  tier.Poll();
  tier.Clear();
  fixture.Add(SchedulerFixture::Ask(2, 17, 1));
  fixture.StepToTheEnd();
  tier.Poll();
  EXPECT_EQ(tier.num_chunks(), 2);
}

// Request 1 has a time to live, and request 2 with the same prompt has none.
TEST(ChunkEventsTest, TheTimeToLiveOfTheRequestAppliesToItsChunks) {
  FakeTier tier({.shape = kLoadsShape, .polls_max = 0});
  SchedulerFixture fixture({.num_blocks = 64, .block_size = kLoadsBlock},
                           {.step_tokens_max = 64, .running_max = 2}, &tier);
  const auto run = [&](uint64_t id, Duration time_to_live) {
    Request request = SchedulerFixture::Ask(id, 17, 1);
    std::ranges::fill(request.prompt, TokenId{5});
    request.retention.time_to_live = time_to_live;
    fixture.Add(std::move(request));
    fixture.StepToTheEnd();
    tier.Poll();
  };
  run(1, milliseconds(7000));
  EXPECT_EQ(tier.TimesToLive(), std::vector<Duration>(2, milliseconds(7000)));
  run(2, milliseconds(3000));
  EXPECT_EQ(tier.TimesToLive(), std::vector<Duration>(2, milliseconds(7000)));
  run(3, Duration::zero());
  EXPECT_EQ(tier.TimesToLive(), std::vector<Duration>(2, Duration::zero()));
}

// Requests 1 and 2 have the same prompt. Request 1 gets values that are not finite, so the blocks
// of both requests may be wrong.
TEST(ChunkEventsTest, ChunksThatMayBeWrongAreNotReported) {
  FakeTier tier({.shape = kLoadsShape, .polls_max = 0});
  SchedulerFixture fixture({.num_blocks = 64, .block_size = kLoadsBlock},
                           {.step_tokens_max = 64, .running_max = 2, .chunk_events_max = 1}, &tier);
  fixture.Add(SchedulerFixture::Ask(1, 33, 10));
  fixture.Step();
  fixture.Add(SchedulerFixture::Ask(2, 33, 10));
  fixture.Step();
  EXPECT_EQ(fixture.cache.num_cached(), 0);
  fixture.runner.PoisonNextStep(0);
  fixture.Step();
  EXPECT_EQ(fixture.OutputOf(1).finish, FinishReason::kError);
  fixture.StepToTheEnd();
  tier.Poll();
  EXPECT_EQ(fixture.OutputOf(2).tokens.size(), 10u);
  EXPECT_EQ(tier.num_chunks(), 0);
}

TEST(ChunkEventsTest, ACommitReportsALimitedNumberOfChunks) {
  FakeTier tier({.shape = kLoadsShape, .polls_max = 0});
  SchedulerFixture fixture({.num_blocks = 64, .block_size = kLoadsBlock},
                           {.step_tokens_max = 64, .running_max = 2, .chunk_events_max = 3}, &tier);
  fixture.Add(SchedulerFixture::Ask(1, 60, 3));
  fixture.Step();
  tier.Poll();
  EXPECT_EQ(tier.num_chunks(), 3);
  fixture.StepToTheEnd();
  tier.Poll();
  EXPECT_EQ(tier.num_chunks(), 7);
}

class OneLoadTest : public LoadsTest {
 protected:
  OneLoadTest()
      : LoadsTest({.shape = kLoadsShape, .polls_max = 0},
                  {.step_tokens_max = 64, .running_max = 8, .loads_max = 1}, 20) {}
};

// Request 3 runs. Request 4 does not fit into the cache until request 3 ends. Request 5 waits for
// the end of the loads of request 2.
TEST_F(OneLoadTest, ACancelLetsAnotherRequestLoadWhileTheHeadWaits) {
  fixture_.Add(SchedulerFixture::Ask(9, 17, 1, 5));  // the tier gets the prefix of request 5
  Finish();
  ResetDevice();
  fixture_.Add(SchedulerFixture::Ask(3, 5, 60));
  Step();
  tier_.HangLoads();
  fixture_.Add(Ask(2, 33));
  Step();
  fixture_.Add(SchedulerFixture::Ask(4, 75, 4, 7));
  Step();
  ASSERT_NE(fixture_.scheduler.head(), nullptr);
  fixture_.Add(SchedulerFixture::Ask(5, 17, 4, 5));
  for (int32_t i = 0; i < 3; ++i) Step();
  ASSERT_EQ(fixture_.scheduler.num_loading(), 1);
  ASSERT_TRUE(fixture_.scheduler.Cancel(RequestId{2}));
  EXPECT_EQ(fixture_.scheduler.num_loading(), 0);
  Step();
  EXPECT_EQ(fixture_.scheduler.num_loading(), 1);
}

}  // namespace
}  // namespace incipit
