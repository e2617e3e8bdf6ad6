// Tests requests whose prefixes a disk tier loads: no read for a cached prefix, several choices,
// requests that must compute their prompts, deadlines, and preemptions between two parts of a load.
#include <chrono>
#include <thread>

#include "tests/engine/disk_loads_fixture.h"

namespace incipit {
namespace {

using std::chrono::milliseconds;

// Staging and the cache have room for several prompts.
class WholeLoadsTest : public DiskLoadsTest {
 protected:
  WholeLoadsTest() : DiskLoadsTest(16, 64) {}
};

INSTANTIATE_TEST_SUITE_P(StepsInFlight, WholeLoadsTest, testing::Values(1, 2));

TEST_P(WholeLoadsTest, APrefixOnTheDeviceIsNotRead) {
  const int before = num_reads();
  ExpectOutput(0);
  EXPECT_EQ(fixture_->listener.AdmissionOf(0).num_loaded_tokens, kPromptTokens - 1);
  EXPECT_EQ(num_reads(), before + kChunks);
  for (const uint64_t id : {3, 6, 9}) {  // the prompt of request 0
    ExpectOutput(id);
    EXPECT_EQ(fixture_->listener.AdmissionOf(id).num_cached_tokens, kPromptTokens - 1);
    EXPECT_EQ(fixture_->listener.AdmissionOf(id).num_loaded_tokens, 0);
  }
  ExpectNothingInUse();
  EXPECT_EQ(num_reads(), before + kChunks);
  EXPECT_EQ(harness_.stats.hits, kChunks);
}

TEST_P(WholeLoadsTest, AllChoicesHaveTheOutputsWithoutATier) {
  Request request = Ask(0);
  request.num_choices = 3;
  request.sampling.temperature = 1;
  ASSERT_TRUE(fixture_->Submit(request).ok());
  fixture_->listener.WaitForEnd(0, 3);
  EXPECT_EQ(fixture_->listener.AdmissionOf(0).num_loaded_tokens, kPromptTokens - 1);
  for (int32_t choice = 0; choice < 3; ++choice) {
    EXPECT_EQ(fixture_->listener.OutputOf(0, choice).tokens,
              EngineFixture::Expected(request, choice));
  }
  ExpectNothingInUse();
}

// Request 0 waits for its loads. The other requests have the same prompt and must compute it.
TEST_P(WholeLoadsTest, RequestsThatMustComputeTheirPromptsDoNotWaitForLoads) {
  faults_->Hang(true);
  const int before = num_reads();
  ASSERT_TRUE(fixture_->Submit(Ask(0)).ok());
  AwaitReads(before + 1);
  Request fresh = Ask(3);
  fresh.read_cache = false;
  Request scored = Ask(6);
  scored.prompt_logprobs = 0;
  ASSERT_TRUE(fixture_->Submit(fresh).ok());
  ASSERT_TRUE(fixture_->Submit(scored).ok());
  for (const uint64_t id : {3, 6}) {
    fixture_->listener.WaitForEnd(id);
    EXPECT_EQ(fixture_->listener.OutputOf(id).tokens, EngineFixture::Expected(Ask(id)));
    EXPECT_EQ(fixture_->listener.AdmissionOf(id).num_cached_tokens, 0);
  }
  EXPECT_EQ(fixture_->listener.PromptLogprobsOf(6).size(), kPromptTokens - 1);
  EXPECT_FALSE(fixture_->listener.OutputOf(0).finish.has_value());
  faults_->Hang(false);
  fixture_->listener.WaitForEnd(0);
  EXPECT_EQ(fixture_->listener.OutputOf(0).tokens, EngineFixture::Expected(Ask(0)));
  ExpectNothingInUse();
  EXPECT_EQ(num_reads(), before + kChunks);
}

TEST_P(WholeLoadsTest, ADeadlineEndsTheWaitForADiskThatHangs) {
  faults_->Hang(true);
  const int before = num_reads();
  Request request = Ask(0);
  request.deadline = fixture_->clock.Now() + milliseconds(50);
  ASSERT_TRUE(fixture_->Submit(request).ok());
  AwaitReads(before + 1);
  AdvanceUntilEnd(0);
  EXPECT_EQ(fixture_->listener.OutputOf(0).finish, FinishReason::kDeadline);
  EXPECT_TRUE(fixture_->listener.OutputOf(0).tokens.empty());
  EXPECT_EQ(fixture_->engine->Load().num_used_blocks, 0);
  faults_->Hang(false);
  ExpectOutput(3);
  ExpectNothingInUse();
}

// Staging has room for kPart of the kChunks chunks of a prompt, so that the chunks arrive in two
// parts. The tier stores no chunk, because no request contains a chunk of another request twice.
class PartLoadsTest : public DiskLoadsTest {
 protected:
  static constexpr int kPart = 3, kBlocks = 40;
  PartLoadsTest() : DiskLoadsTest(kPart, kBlocks) {
    harness_.options.store = StorePolicy::kReused;
    Open(kPart);
  }

  // Submits `request`, and passes steps one by one until the first part is written and the disk
  // reads the second part. This read hangs.
  void HangAfterFirstPart(const Request& request) {
    const int before = num_reads();
    faults_->HangAfter(DiskFaults::Call::kRead, kPart);
    fixture_->gate.Close();
    ASSERT_TRUE(fixture_->Submit(request).ok());
    for (int i = 0; i < 2000 && num_reads() <= before + kPart; ++i) {
      fixture_->gate.Pass(1);
      std::this_thread::sleep_for(milliseconds(10));
    }
    EXPECT_EQ(num_reads(), before + kPart + 1);
    fixture_->gate.Open();
  }
};

INSTANTIATE_TEST_SUITE_P(StepsInFlight, PartLoadsTest, testing::Values(1, 2));

TEST_P(PartLoadsTest, ADeadlineEndsTheWaitBetweenParts) {
  Request request = Ask(0);
  request.deadline = fixture_->clock.Now() + milliseconds(50);
  HangAfterFirstPart(request);
  EXPECT_EQ(fixture_->engine->Load().num_used_blocks, 2 * kPart);
  AdvanceUntilEnd(0);
  EXPECT_EQ(fixture_->listener.OutputOf(0).finish, FinishReason::kDeadline);
  EXPECT_TRUE(fixture_->listener.OutputOf(0).tokens.empty());
  EXPECT_EQ(fixture_->engine->Load().num_used_blocks, 0);
  faults_->Hang(false);
  ExpectOutput(3);
  ExpectNothingInUse();
}

// Request 1 decodes until no block is free. Request 0, which waits for its second part, is then
// preempted. Request 1 needs only one of the blocks of the first part. After the end of request 1,
// request 0 is admitted again.
TEST_P(PartLoadsTest, ASequenceBetweenPartsIsPreemptedAndLoadsAgain) {
  const Request other = EngineFixture::Ask(1, 5, 4 * (kBlocks - 2 * kPart + 1) - 5);
  fixture_->gate.Close();
  ASSERT_TRUE(fixture_->Submit(other).ok());
  fixture_->gate.WaitForStep();
  HangAfterFirstPart(Ask(0));
  fixture_->listener.WaitForEnd(1);
  EXPECT_EQ(fixture_->listener.num_preemptions(), 1);
  EXPECT_FALSE(fixture_->listener.OutputOf(0).finish.has_value());
  faults_->Hang(false);
  fixture_->listener.WaitForEnd(0);
  EXPECT_EQ(fixture_->listener.OutputOf(0).tokens, EngineFixture::Expected(Ask(0)));
  EXPECT_EQ(fixture_->listener.OutputOf(1).tokens, EngineFixture::Expected(other));
  EXPECT_GT(fixture_->listener.AdmissionOf(0).num_loaded_tokens, 0);
  ExpectNothingInUse();
}

}  // namespace
}  // namespace incipit
