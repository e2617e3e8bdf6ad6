// Tests the commit of a step: its results, and the end of requests while a step is in flight.
#include <gtest/gtest.h>

#include "tests/scheduler/scheduler_fixture.h"

namespace incipit {
namespace {

using testing::ElementsAre;
using testing::Pair;

// Returns the first `count` output tokens of a choice, computed without a scheduler.
std::vector<TokenId> Expected(const Request& request, int32_t choice, int32_t count) {
  const FakeModel model(FakeRunnerOptions{}.vocab);
  std::vector<TokenId> tokens = request.prompt;
  for (int32_t i = 0; i < count; ++i) {
    const StepSample sample = {.params = &request.sampling,
                               .choice = choice,
                               .position = static_cast<int64_t>(tokens.size())};
    tokens.push_back(model.Sample(FakeModel::Row(tokens), sample));
  }
  return {tokens.end() - count, tokens.end()};
}

TEST(CommitTest, AStopTokenEndsTheOutputUnlessItIsTooEarly) {
  SchedulerFixture fixture;
  Request request = SchedulerFixture::Ask(1, 5, 20);
  const std::vector<TokenId> output = Expected(request, 0, 20);
  request.stop_tokens = {output[3]};
  fixture.Add(request);
  fixture.StepToTheEnd();
  const auto& got = fixture.OutputOf(1);
  const auto first_stop = std::ranges::find(output, output[3]);
  EXPECT_EQ(got.tokens, std::vector<TokenId>(output.begin(), first_stop + 1));
  EXPECT_EQ(got.finish, FinishReason::kStop);

  request.id = RequestId{2};
  request.output_tokens_min = 10;
  fixture.Add(request);
  fixture.StepToTheEnd();
  const auto& later = fixture.OutputOf(2).tokens;
  ASSERT_GE(later.size(), 10u);
  EXPECT_EQ(std::count(later.begin(), later.begin() + 10, output[3]), 0);
}

TEST(CommitTest, AnOutputIsAtMostAsLongAsAsked) {
  SchedulerFixture fixture;
  const Request request = SchedulerFixture::Ask(1, 5, 3);
  fixture.Add(request);
  fixture.StepToTheEnd();
  EXPECT_EQ(fixture.OutputOf(1).tokens, Expected(request, 0, 3));
  EXPECT_EQ(fixture.OutputOf(1).finish, FinishReason::kLength);
  EXPECT_EQ(fixture.cache.num_used(), 0);
}

TEST(CommitTest, ChoicesShareThePromptAndSampleFromTheSameRow) {
  SchedulerFixture fixture;
  Request request = SchedulerFixture::Ask(1, 10, 4);
  request.num_choices = 3;
  fixture.Add(request);
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(1, 10)));
  EXPECT_EQ(fixture.plan.samples.size(), 3u);
  // All three choices share two full blocks, and each choice has its own last block.
  EXPECT_EQ(fixture.cache.num_used(), 5);
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(1, 1), Pair(1, 1), Pair(1, 1)));
  EXPECT_EQ(fixture.plan.copies.size(), 2u);
  fixture.Step();
  EXPECT_TRUE(fixture.plan.copies.empty());
  fixture.StepToTheEnd();
  for (int32_t choice = 0; choice < 3; ++choice) {
    EXPECT_EQ(fixture.OutputOf(1, choice).tokens, Expected(request, choice, 4)) << choice;
  }
  // A block that choices share is not a cache hit.
  EXPECT_EQ(fixture.cache.TakeStats().hit_tokens, 0);
}

TEST(CommitTest, ChoicesThatFindNoRoomWaitTheirTurn) {
  SchedulerFixture fixture({.num_blocks = 4, .block_size = 4},
                           {.step_tokens_max = 64, .running_max = 2});
  Request request = SchedulerFixture::Ask(1, 6, 8);
  request.num_choices = 4;
  fixture.Add(request);
  fixture.StepToTheEnd();
  for (int32_t choice = 0; choice < 4; ++choice) {
    EXPECT_EQ(fixture.OutputOf(1, choice).tokens, Expected(request, choice, 8)) << choice;
  }
}

TEST(CommitTest, CancellingAChoiceLeavesTheOthers) {
  SchedulerFixture fixture({.num_blocks = 64, .block_size = 4},
                           {.step_tokens_max = 4, .running_max = 8});
  Request request = SchedulerFixture::Ask(1, 10, 4);
  request.num_choices = 3;
  fixture.Add(request);
  fixture.Step();
  // The cancelled choice 0 must still compute the prompt, which all choices of the request share.
  EXPECT_TRUE(fixture.scheduler.CancelChoice(RequestId{1}, 0));
  EXPECT_FALSE(fixture.scheduler.CancelChoice(RequestId{1}, 0));
  fixture.Collect();
  EXPECT_EQ(fixture.OutputOf(1, 0).finish, FinishReason::kCancelled);
  fixture.StepToTheEnd();
  EXPECT_TRUE(fixture.OutputOf(1, 0).tokens.empty());
  for (const int32_t choice : {1, 2}) {
    EXPECT_EQ(fixture.OutputOf(1, choice).tokens, Expected(request, choice, 4)) << choice;
  }
}

TEST(CommitTest, ACancelDuringAStepIsReportedAtOnceAndGivesBlocksBackWhenTheStepIsCommitted) {
  SchedulerFixture fixture;
  fixture.Add(SchedulerFixture::Ask(1, 10, 4));
  fixture.Plan();
  EXPECT_TRUE(fixture.scheduler.Cancel(RequestId{1}));
  EXPECT_EQ(fixture.cache.num_used(), 3);
  fixture.Collect();
  EXPECT_EQ(fixture.OutputOf(1).finish, FinishReason::kCancelled);
  EXPECT_FALSE(fixture.scheduler.idle());
  fixture.Add(SchedulerFixture::Ask(1, 10, 4));  // new request with the id of the ended request
  EXPECT_TRUE(fixture.scheduler.Cancel(RequestId{1}));
  fixture.Run();
  EXPECT_EQ(fixture.cache.num_used(), 0);
  EXPECT_EQ(fixture.cache.num_cached(), 2);
  EXPECT_TRUE(fixture.OutputOf(1).tokens.empty());
  EXPECT_TRUE(fixture.scheduler.idle());
  EXPECT_FALSE(fixture.scheduler.Cancel(RequestId{1}));
}

TEST(CommitTest, ACancelDuringAStepThatDoesNothingEndsToo) {
  SchedulerFixture fixture;
  fixture.Add(SchedulerFixture::Ask(1, 10, 4));
  fixture.Plan();
  fixture.scheduler.Cancel(RequestId{1});
  fixture.scheduler.Abort(fixture.plan);
  fixture.Collect();
  EXPECT_EQ(fixture.OutputOf(1).finish, FinishReason::kCancelled);
  EXPECT_TRUE(fixture.scheduler.idle());
}

TEST(CommitTest, AnAbortedStepIsAsIfItHadNotBeenPlanned) {
  SchedulerFixture fixture;
  const Request request = SchedulerFixture::Ask(1, 10, 4);
  fixture.Add(request);
  const auto first = fixture.Plan(At(1));
  fixture.scheduler.Abort(fixture.plan);
  EXPECT_EQ(fixture.cache.num_used(), 0);
  EXPECT_EQ(fixture.scheduler.num_waiting(), 1);
  EXPECT_EQ(fixture.Plan(At(3)), first);
  fixture.Run();
  fixture.Plan();
  fixture.scheduler.Abort(fixture.plan);
  EXPECT_EQ(fixture.scheduler.num_running(), 1);
  fixture.StepToTheEnd();
  EXPECT_EQ(fixture.OutputOf(1).tokens, Expected(request, 0, 4));
  EXPECT_EQ(fixture.admissions[1].queue_time, std::chrono::milliseconds(3));
  // The lookup of the prompt of 10 tokens is counted once, although the first plan failed.
  EXPECT_EQ(fixture.cache.TakeStats().query_tokens, 10);
}

TEST(CommitTest, PromptLogprobsCoverEveryPositionOnceThroughPreemption) {
  SchedulerFixture fixture({.num_blocks = 6, .block_size = 4},
                           {.step_tokens_max = 5, .running_max = 8});
  Request first = SchedulerFixture::Ask(1, 3, 14, 1);
  first.priority = 1;
  fixture.Add(first);
  Request scored = SchedulerFixture::Ask(2, 15, 3, 2);
  scored.prompt_logprobs = 1;
  fixture.Add(scored);
  int32_t num_preemptions = 0;
  while (!fixture.scheduler.idle()) {
    fixture.Step();
    num_preemptions += fixture.plan.num_preemptions;
  }
  EXPECT_GE(num_preemptions, 1);
  EXPECT_EQ(fixture.scored[2].size(), 14u);
  EXPECT_EQ(fixture.scored[2].front(), 1);
  EXPECT_EQ(fixture.scored[2].back(), 14);
  EXPECT_TRUE(std::ranges::is_sorted(fixture.scored[2]));
  EXPECT_EQ(fixture.OutputOf(2).tokens, Expected(scored, 0, 3));
}

TEST(CommitTest, PromptLogprobsDoNotReadTheCache) {
  SchedulerFixture fixture;
  fixture.Add(SchedulerFixture::Ask(1, 12, 1));
  fixture.StepToTheEnd();
  Request scored = SchedulerFixture::Ask(2, 12, 1);
  scored.prompt_logprobs = 0;
  fixture.Add(scored);
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(2, 12)));
  EXPECT_EQ(fixture.scored[2].size(), 11u);
}

TEST(CommitTest, PenaltiesSeeEveryTokenCounted) {
  SchedulerFixture fixture;
  Request request = SchedulerFixture::Ask(1, 5, 6, 9);
  request.sampling.frequency_penalty = 0.5f;
  fixture.Add(request);
  for (int32_t step = 0; step < 5; ++step) fixture.Step();
  const Sequence& sequence = *fixture.scheduler.running().front();
  int32_t in_prompt = 0, in_output = 0;
  for (const TokenCount& count : sequence.counts) {
    in_prompt += count.in_prompt;
    in_output += count.in_output;
    EXPECT_EQ(count.in_prompt, count.token == 9 ? 5 : 0);
  }
  EXPECT_EQ(in_prompt, 5);
  EXPECT_EQ(in_output, 5);
  EXPECT_TRUE(std::ranges::is_sorted(sequence.counts, {}, &TokenCount::token));
}

TEST(CommitTest, ARowThatIsNotFiniteEndsItsRequestOnly) {
  SchedulerFixture fixture;
  const Request good = SchedulerFixture::Ask(1, 10, 6, 1);
  Request bad = SchedulerFixture::Ask(2, 10, 6, 2);
  bad.num_choices = 2;
  fixture.Add(good);
  fixture.Add(bad);
  fixture.Step();
  fixture.Step();
  fixture.runner.PoisonNextStep(1);  // NaN for the token of a choice of request 2
  fixture.Step();
  for (const int32_t choice : {0, 1}) {
    EXPECT_EQ(fixture.OutputOf(2, choice).finish, FinishReason::kError);
    EXPECT_EQ(fixture.OutputOf(2, choice).tokens.size(), 2u);
  }
  fixture.StepToTheEnd();
  EXPECT_EQ(fixture.OutputOf(1).tokens, Expected(good, 0, 6));

  // No lookup finds the blocks of the failed request.
  bad.id = RequestId{3};
  bad.num_choices = 1;
  fixture.Add(bad);
  fixture.StepToTheEnd();
  EXPECT_EQ(fixture.admissions[3].num_cached_tokens, 0);
  EXPECT_EQ(fixture.OutputOf(3).tokens, Expected(bad, 0, 6));
}

TEST(CommitTest, WithThePrefixCacheOffNothingIsShared) {
  SchedulerFixture fixture({.num_blocks = 64, .block_size = 4, .prefix_cache = false});
  Request request = SchedulerFixture::Ask(1, 12, 2);
  request.num_choices = 2;
  fixture.Add(request);
  fixture.StepToTheEnd();
  request.id = RequestId{2};
  fixture.Add(request);
  EXPECT_THAT(fixture.Step(), ElementsAre(Pair(2, 12)));
  fixture.StepToTheEnd();
  EXPECT_EQ(fixture.OutputOf(1, 1).tokens, fixture.OutputOf(2, 1).tokens);
  EXPECT_EQ(fixture.cache.TakeStats().queries, 0);
}

TEST(CommitTest, EverythingEndsWhenAsked) {
  SchedulerFixture fixture({.num_blocks = 64, .block_size = 4},
                           {.step_tokens_max = 64, .running_max = 1});
  Request request = SchedulerFixture::Ask(1, 4, 9);
  request.num_choices = 3;
  fixture.Add(request);
  fixture.Add(SchedulerFixture::Ask(2, 4, 9));
  fixture.Step();
  fixture.scheduler.EndAll(FinishReason::kError);
  fixture.Collect();
  for (int32_t choice = 0; choice < 3; ++choice) {
    EXPECT_EQ(fixture.OutputOf(1, choice).finish, FinishReason::kError);
  }
  EXPECT_EQ(fixture.OutputOf(2).finish, FinishReason::kError);
  EXPECT_TRUE(fixture.scheduler.idle());
  EXPECT_EQ(fixture.cache.num_used(), 0);
}

}  // namespace
}  // namespace incipit
