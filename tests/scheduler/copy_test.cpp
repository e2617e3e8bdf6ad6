// Tests block copies: a request copies the first tokens of a cached block into its own block.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/scheduler/scheduler_fixture.h"

namespace incipit {
namespace {

// Returns a request whose prompt begins with `num_equal` tokens that are the same for all requests.
// After these tokens, `num_own` tokens depend on `id`.
Request AskWith(uint64_t id, int32_t num_equal, int32_t num_own, int32_t num_output = 1) {
  Request request = SchedulerFixture::Ask(id, 0, num_output);
  for (int32_t i = 0; i < num_equal; ++i) request.prompt.push_back(i % 47);
  for (int32_t i = 0; i < num_own; ++i) {
    request.prompt.push_back(static_cast<TokenId>((id * 11 + static_cast<uint64_t>(i)) % 47));
  }
  return request;
}

void ExpectOutputAlone(SchedulerFixture& fixture, const Request& request) {
  SchedulerFixture alone({.num_blocks = 64, .block_size = 4});
  alone.Add(request);
  alone.StepToTheEnd();
  const auto id = static_cast<uint64_t>(request.id);
  EXPECT_EQ(fixture.OutputOf(id).tokens, alone.OutputOf(id).tokens) << "request " << id;
}

TEST(CopyTest, AFullHitOfABlockAlignedPromptComputesOneToken) {
  SchedulerFixture fixture;
  fixture.Add(AskWith(1, 12, 0));
  fixture.StepToTheEnd();
  fixture.Add(AskWith(2, 12, 0));
  EXPECT_THAT(fixture.Step(), testing::ElementsAre(testing::Pair(2, 1)));
  EXPECT_EQ(fixture.admissions[2].num_cached_tokens, 11);
  ExpectOutputAlone(fixture, AskWith(2, 12, 0));
  const KvCacheStats stats = fixture.cache.TakeStats();
  EXPECT_EQ(stats.queries, 2);
  EXPECT_EQ(stats.query_tokens, 24);
  EXPECT_EQ(stats.hit_tokens, 11);
  EXPECT_EQ(stats.copied_tokens, 3);
}

TEST(CopyTest, TheCopyIsPartOfTheStepThatAdmits) {
  SchedulerFixture fixture;
  fixture.Add(AskWith(1, 12, 0));
  fixture.StepToTheEnd();
  fixture.Add(AskWith(2, 10, 9, 4));
  fixture.Plan();
  ASSERT_EQ(fixture.plan.copies.size(), 1u);
  EXPECT_EQ(fixture.plan.copies[0].num_tokens, 2);
  EXPECT_EQ(fixture.plan.items[0].first_token, 10);
  fixture.scheduler.Abort(fixture.plan);
  fixture.Collect();
  EXPECT_EQ(fixture.cache.num_used(), 0);
  fixture.Plan();
  ASSERT_EQ(fixture.plan.copies.size(), 1u);
  fixture.Run();
  fixture.Plan();
  EXPECT_TRUE(fixture.plan.copies.empty());
  fixture.Run();
  fixture.StepToTheEnd();
  ExpectOutputAlone(fixture, AskWith(2, 10, 9, 4));
}

// Request 2 needs one cached block and two new blocks. It can copy tokens of another cached block
// only if the cache also has room for that block. In a cache of three blocks, request 2 computes
// these tokens instead.
TEST(CopyTest, WithoutRoomForTheSourceBesideItTheBlockIsComputed) {
  for (const int32_t num_blocks : {3, 4}) {
    SchedulerFixture fixture({.num_blocks = num_blocks, .block_size = 4});
    fixture.Add(AskWith(1, 11, 0));
    fixture.StepToTheEnd();
    const bool copies = num_blocks == 4;
    fixture.Add(AskWith(2, 6, 4));
    EXPECT_THAT(fixture.Step(), testing::ElementsAre(testing::Pair(2, copies ? 4 : 6)));
    EXPECT_EQ(fixture.plan.copies.size(), copies ? 1u : 0u);
    EXPECT_EQ(fixture.admissions[2].num_cached_tokens, copies ? 6 : 4);
    EXPECT_EQ(fixture.admissions[2].miss.differing_token, 6);
    ExpectOutputAlone(fixture, AskWith(2, 6, 4));
    EXPECT_EQ(fixture.cache.TakeStats().copied_tokens, copies ? 2 : 0);
  }
}

TEST(CopyTest, ARequestForPromptLogprobsOrNotToReadCopiesNothing) {
  SchedulerFixture fixture;
  fixture.Add(AskWith(1, 12, 0));
  fixture.StepToTheEnd();
  Request scored = AskWith(2, 12, 0);
  scored.prompt_logprobs = 1;
  Request unread = AskWith(3, 12, 0);
  unread.read_cache = false;
  fixture.Add(scored);
  fixture.Add(unread);
  EXPECT_THAT(fixture.Step(), testing::ElementsAre(testing::Pair(2, 12), testing::Pair(3, 12)));
  EXPECT_TRUE(fixture.plan.copies.empty());
  ExpectOutputAlone(fixture, unread);
  EXPECT_EQ(fixture.cache.TakeStats().queries, 1);
}

TEST(CopyTest, SeveralCopiesOfOneSourceInOneStepAreIndependent) {
  SchedulerFixture fixture({.num_blocks = 64, .block_size = 4},
                           {.step_tokens_max = 64, .running_max = 8});
  fixture.Add(AskWith(1, 12, 0));
  fixture.StepToTheEnd();
  for (uint64_t id = 2; id <= 6; ++id) fixture.Add(AskWith(id, 10, 3, 5));
  fixture.Plan();
  EXPECT_EQ(fixture.plan.copies.size(), 5u);
  fixture.Run();
  fixture.StepToTheEnd();
  for (uint64_t id = 2; id <= 6; ++id) ExpectOutputAlone(fixture, AskWith(id, 10, 3, 5));
}

// Request 1 stores NaN values and is cancelled before its logits show the error. Request 2 copies
// the values and fails. Request 3 must not find these blocks.
TEST(CopyTest, BadValuesDoNotSpreadThroughCopies) {
  SchedulerFixture fixture({.num_blocks = 64, .block_size = 4},
                           {.step_tokens_max = 8, .running_max = 8});
  fixture.Add(AskWith(1, 12, 0));
  fixture.Plan();
  fixture.runner.PoisonNextStep(1);
  fixture.Run();
  EXPECT_TRUE(fixture.scheduler.Cancel(RequestId{1}));
  fixture.Collect();
  for (uint64_t id = 2; id <= 3; ++id) {
    fixture.Add(AskWith(id, 3, 4));
    fixture.StepToTheEnd();
  }
  EXPECT_EQ(fixture.OutputOf(2).finish, FinishReason::kError);
  EXPECT_EQ(fixture.OutputOf(3).finish, FinishReason::kLength);
  ExpectOutputAlone(fixture, AskWith(3, 3, 4));
}

}  // namespace
}  // namespace incipit
