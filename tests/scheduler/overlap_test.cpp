// Tests a step that is planned while another step is in flight: the sequences in
// the new step, and the effect if a sequence ends.
#include <gtest/gtest.h>

#include "tests/scheduler/overlap_fixture.h"

namespace incipit {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

std::vector<TokenId> Expected(const Request& request, int32_t choice = 0) {
  SchedulerFixture alone({.num_blocks = 256, .block_size = 4});
  alone.Add(request);
  alone.StepToTheEnd();
  return alone.OutputOf(static_cast<uint64_t>(request.id), choice).tokens;
}

Request AskPenalised(uint64_t id, int32_t num_prompt, int32_t num_output, TokenId token) {
  Request request = SchedulerFixture::Ask(id, num_prompt, num_output, token);
  request.sampling.repetition_penalty = 1.5f;
  return request;
}

TEST(OverlapTest, TheNextTokenIsComputedBeforeThePreviousOneIsKnown) {
  OverlapFixture fixture;
  const Request first = SchedulerFixture::Ask(1, 10, 6, 1);
  const Request second = SchedulerFixture::Ask(2, 5, 6, 2);
  fixture.Add(first);
  fixture.Add(second);
  EXPECT_THAT(fixture.Begin(), ElementsAre(Pair(1, 10), Pair(2, 5)));
  EXPECT_THAT(fixture.Begin(), ElementsAre(Pair(1, 1), Pair(2, 1)));
  EXPECT_THAT(fixture.newest().step.tokens, ElementsAre(-1, -2));
  EXPECT_THAT(fixture.newest().step.positions, ElementsAre(10, 5));
  EXPECT_EQ(fixture.newest().step.samples[1].position, 6);
  fixture.End();
  EXPECT_EQ(fixture.OutputOf(1).tokens.size(), 1u);
  EXPECT_THAT(fixture.Begin(), ElementsAre(Pair(1, 1), Pair(2, 1)));
  EXPECT_THAT(fixture.newest().step.tokens, ElementsAre(-1, -2));
  fixture.RunToTheEnd();
  EXPECT_EQ(fixture.OutputOf(1).tokens, Expected(first));
  EXPECT_EQ(fixture.OutputOf(2).tokens, Expected(second));
}

TEST(OverlapTest, APromptGoesOnWithItsNextChunk) {
  OverlapFixture fixture(4);
  Request request = SchedulerFixture::Ask(1, 10, 2);
  request.prompt_logprobs = 0;
  fixture.Add(request);
  EXPECT_THAT(fixture.Begin(), ElementsAre(Pair(1, 4)));
  EXPECT_THAT(fixture.Begin(), ElementsAre(Pair(1, 4)));
  EXPECT_EQ(fixture.newest().plan.items[0].first_token, 4);
  EXPECT_EQ(fixture.newest().plan.items[0].score_begin, 5);
  fixture.End();
  EXPECT_THAT(fixture.Begin(), ElementsAre(Pair(1, 2)));
  fixture.RunToTheEnd();
  EXPECT_EQ(fixture.OutputOf(1).tokens, Expected(request));
  EXPECT_EQ(fixture.scored[1].size(), 9u);
  EXPECT_TRUE(std::ranges::is_sorted(fixture.scored[1]));
}

TEST(OverlapTest, ASequenceWhoseLastTokenIsInFlightIsLeftOut) {
  OverlapFixture fixture;
  fixture.Add(SchedulerFixture::Ask(1, 5, 1, 1));
  fixture.Add(SchedulerFixture::Ask(2, 5, 3, 2));
  fixture.Begin();
  EXPECT_THAT(fixture.Begin(), ElementsAre(Pair(2, 1)));
  EXPECT_THAT(fixture.newest().step.tokens, ElementsAre(-2));
  fixture.End();
  EXPECT_EQ(fixture.OutputOf(1).finish, FinishReason::kLength);
  EXPECT_THAT(fixture.Begin(), ElementsAre(Pair(2, 1)));
  fixture.End();
  EXPECT_THAT(fixture.Begin(), IsEmpty());
  fixture.End();
  EXPECT_TRUE(fixture.scheduler.idle());
}

TEST(OverlapTest, ASampleNamesThePendingTokenThatPenaltiesMustCount) {
  OverlapFixture fixture(12);
  const Request plain = SchedulerFixture::Ask(1, 5, 4, 3);
  const Request penalised = AskPenalised(2, 10, 5, 1);
  fixture.Add(plain);
  fixture.Add(penalised);
  EXPECT_THAT(fixture.Begin(), ElementsAre(Pair(1, 5), Pair(2, 7)));
  EXPECT_THAT(fixture.Begin(), ElementsAre(Pair(1, 1), Pair(2, 3)));
  EXPECT_EQ(fixture.newest().step.samples[1].pending_sample, -1) << "the first output token";
  fixture.End();
  for (int32_t num_output = 0; num_output < 2; ++num_output) {
    EXPECT_THAT(fixture.Begin(), ElementsAre(Pair(1, 1), Pair(2, 1)));
    const StepSample& sample = fixture.newest().step.samples[1];
    EXPECT_EQ(sample.pending_sample, 1);
    int32_t num_counted = 0;
    for (const TokenCount& count : sample.counts) num_counted += count.in_output;
    EXPECT_EQ(num_counted, num_output)
        << "the token that the step in flight samples is not counted yet";
    fixture.End();
  }
  fixture.RunToTheEnd();
  EXPECT_EQ(fixture.OutputOf(1).tokens, Expected(plain));
  EXPECT_EQ(fixture.OutputOf(2).tokens, Expected(penalised));
}

TEST(OverlapTest, AStepThatIsPlannedAgainCountsTheTokenThatIsKnownNow) {
  OverlapFixture fixture;
  const Request request = AskPenalised(1, 8, 6, 1);
  fixture.Add(request);
  fixture.Begin();
  fixture.Begin();
  fixture.End();
  EXPECT_TRUE(fixture.runner.Wait(fixture.result).ok());
  fixture.AbortNewest();
  EXPECT_THAT(fixture.Begin(), ElementsAre(Pair(1, 1)));
  EXPECT_EQ(fixture.newest().step.samples[0].pending_sample, -1);
  fixture.RunToTheEnd();
  EXPECT_EQ(fixture.OutputOf(1).tokens, Expected(request));
}

TEST(OverlapTest, ARequestWhoseChoicesStartIsNotPlannedAhead) {
  OverlapFixture fixture;
  Request request = SchedulerFixture::Ask(1, 10, 4);
  request.num_choices = 3;
  fixture.Add(request);
  fixture.Begin();
  EXPECT_THAT(fixture.Begin(), IsEmpty());
  fixture.End();
  EXPECT_THAT(fixture.Begin(), ElementsAre(Pair(1, 1), Pair(1, 1), Pair(1, 1)));
  EXPECT_EQ(fixture.newest().plan.copies.size(), 2u);
  EXPECT_THAT(fixture.Begin(), ElementsAre(Pair(1, 1), Pair(1, 1), Pair(1, 1)));
  EXPECT_TRUE(fixture.newest().plan.copies.empty())
      << "the previous step contains all block copies";
  fixture.RunToTheEnd();
  for (int32_t choice = 0; choice < 3; ++choice) {
    EXPECT_EQ(fixture.OutputOf(1, choice).tokens, Expected(request, choice)) << choice;
  }
}

TEST(OverlapTest, OnlyARequestWhoseChoicesStartSitsOutTheStepPlannedAhead) {
  OverlapFixture fixture;
  const Request before = AskPenalised(1, 6, 5, 1);
  Request branching = AskPenalised(2, 10, 4, 2);
  branching.num_choices = 3;
  const Request after = SchedulerFixture::Ask(3, 7, 5, 3), late = SchedulerFixture::Ask(4, 9, 3, 4);
  fixture.Add(before);
  fixture.Add(branching);
  fixture.Add(after);
  EXPECT_THAT(fixture.Begin(), ElementsAre(Pair(1, 6), Pair(2, 10), Pair(3, 7)));
  fixture.Add(late);
  EXPECT_THAT(fixture.Begin(), ElementsAre(Pair(1, 1), Pair(3, 1), Pair(4, 9)));
  EXPECT_THAT(fixture.newest().step.tokens.first(2), ElementsAre(-1, -5))
      << "samples 1 to 3 of the previous step belong to request 2";
  fixture.End();
  EXPECT_THAT(fixture.Begin(),
              ElementsAre(Pair(1, 1), Pair(2, 1), Pair(3, 1), Pair(4, 1), Pair(2, 1), Pair(2, 1)));
  fixture.RunToTheEnd();
  EXPECT_EQ(fixture.OutputOf(1).tokens, Expected(before));
  for (int32_t choice = 0; choice < 3; ++choice) {
    EXPECT_EQ(fixture.OutputOf(2, choice).tokens, Expected(branching, choice)) << choice;
  }
  EXPECT_EQ(fixture.OutputOf(3).tokens, Expected(after));
  EXPECT_EQ(fixture.OutputOf(4).tokens, Expected(late));
}

TEST(OverlapTest, OnlyChoicesThatAreNotBornNeedThePendingToken) {
  OverlapFixture fixture;
  fixture.Add(SchedulerFixture::Ask(1, 10, 4));
  fixture.Add(AskPenalised(2, 10, 4, 2));
  Request request = SchedulerFixture::Ask(3, 10, 4);
  request.num_choices = 2;
  fixture.Add(request);
  fixture.Begin();
  std::map<uint64_t, const Sequence*> running;
  for (const Sequence* sequence : fixture.scheduler.running()) {
    running[static_cast<uint64_t>(sequence->request().id)] = sequence;
  }
  ASSERT_EQ(running.size(), 3u);
  EXPECT_FALSE(NeedsPendingToken(*running[1]));
  EXPECT_FALSE(NeedsPendingToken(*running[2]));
  EXPECT_TRUE(NeedsPendingToken(*running[3]));
  fixture.End();
  EXPECT_FALSE(NeedsPendingToken(*running[3])) << "both choices are born";
  fixture.RunToTheEnd();
}

TEST(OverlapTest, NothingIsPlannedAheadThatWouldPreempt) {
  OverlapFixture fixture(64, 4);
  fixture.Add(SchedulerFixture::Ask(1, 7, 6, 1));
  fixture.Add(SchedulerFixture::Ask(2, 7, 6, 2));
  fixture.Begin();
  EXPECT_THAT(fixture.Begin(), ElementsAre(Pair(1, 1), Pair(2, 1)));
  fixture.End();
  EXPECT_THAT(fixture.Begin(), IsEmpty()) << "each needs a third block";
  EXPECT_EQ(fixture.scheduler.num_running(), 2);
  fixture.End();
  EXPECT_THAT(fixture.Begin(), ElementsAre(Pair(1, 1)));
  EXPECT_EQ(fixture.newest().plan.num_preemptions, 1);
  fixture.RunToTheEnd();
  EXPECT_EQ(fixture.OutputOf(2).tokens, Expected(SchedulerFixture::Ask(2, 7, 6, 2)));
}

TEST(OverlapTest, ASequenceAdmittedAheadFindsWhatTheStepInFlightStores) {
  OverlapFixture fixture;
  fixture.Add(SchedulerFixture::Ask(1, 10, 4));
  fixture.Begin();
  fixture.Add(SchedulerFixture::Ask(2, 10, 4));
  EXPECT_THAT(fixture.Begin(), ElementsAre(Pair(1, 1), Pair(2, 2)));
  fixture.RunToTheEnd();
  EXPECT_EQ(fixture.admissions[2].num_cached_tokens, 8);
  EXPECT_EQ(fixture.OutputOf(1).tokens, fixture.OutputOf(2).tokens);
}

TEST(OverlapTest, AStopTokenEndsASequenceWhoseNextStepIsInFlight) {
  OverlapFixture fixture;
  Request request = SchedulerFixture::Ask(1, 10, 20);
  request.stop_tokens = {Expected(request)[1]};
  const std::vector<TokenId> output = Expected(request);
  fixture.Add(request);
  fixture.Begin();
  for (size_t i = 1; i < output.size(); ++i) {
    fixture.Begin();
    fixture.End();
  }
  EXPECT_EQ(fixture.OutputOf(1).finish, std::nullopt);
  EXPECT_THAT(fixture.Begin(), ElementsAre(Pair(1, 1)));
  fixture.End();
  EXPECT_EQ(fixture.OutputOf(1).finish, FinishReason::kStop);
  EXPECT_FALSE(fixture.scheduler.idle());
  EXPECT_GT(fixture.cache.num_used(), 0) << "the step in flight writes to blocks of request 1";
  EXPECT_THAT(fixture.Begin(), IsEmpty());
  fixture.End();
  EXPECT_EQ(fixture.OutputOf(1).tokens, output);
  EXPECT_TRUE(fixture.scheduler.idle());
  EXPECT_EQ(fixture.cache.num_used(), 0);
}

TEST(OverlapTest, ACancelIsReportedAtOnceAndHoldsTheBlocksOfBothSteps) {
  OverlapFixture fixture;
  const Request other = SchedulerFixture::Ask(2, 6, 5, 2);
  fixture.Add(SchedulerFixture::Ask(1, 10, 9));
  fixture.Add(other);
  fixture.Begin();
  fixture.Begin();
  const int32_t num_used = fixture.cache.num_used();
  EXPECT_TRUE(fixture.scheduler.Cancel(RequestId{1}));
  fixture.Collect();
  EXPECT_EQ(fixture.OutputOf(1).finish, FinishReason::kCancelled);
  fixture.End();
  EXPECT_EQ(fixture.cache.num_used(), num_used);
  EXPECT_THAT(fixture.Begin(), ElementsAre(Pair(2, 1)));
  fixture.End();
  EXPECT_LT(fixture.cache.num_used(), num_used);
  fixture.RunToTheEnd();
  EXPECT_TRUE(fixture.OutputOf(1).tokens.empty());
  EXPECT_TRUE(fixture.admissions.count(1) == 0);
  EXPECT_EQ(fixture.OutputOf(2).tokens, Expected(other));
}

TEST(OverlapTest, AChoiceThatComputesForOthersEndsAtOnceIfNoStepSamplesInItsName) {
  OverlapFixture fixture(4);
  Request request = SchedulerFixture::Ask(1, 14, 4);
  request.num_choices = 3;
  fixture.Add(request);
  fixture.Begin();
  fixture.Begin();
  EXPECT_TRUE(fixture.scheduler.CancelChoice(RequestId{1}, 0));
  EXPECT_TRUE(fixture.scheduler.CancelChoice(RequestId{1}, 1));
  fixture.Collect();
  EXPECT_EQ(fixture.OutputOf(1, 0).finish, FinishReason::kCancelled);
  EXPECT_EQ(fixture.OutputOf(1, 1).finish, FinishReason::kCancelled);
  fixture.End();
  EXPECT_THAT(fixture.Begin(), ElementsAre(Pair(1, 4))) << "the prompt goes on";
  fixture.RunToTheEnd();
  EXPECT_TRUE(fixture.OutputOf(1, 0).tokens.empty());
  EXPECT_TRUE(fixture.OutputOf(1, 1).tokens.empty());
  EXPECT_EQ(fixture.OutputOf(1, 2).tokens, Expected(request, 2));
}

TEST(OverlapTest, AChoiceThatComputesForOthersEndsWhenNoStepSamplesInItsName) {
  OverlapFixture fixture(4);
  Request request = SchedulerFixture::Ask(1, 6, 4);
  request.num_choices = 3;
  fixture.Add(request);
  fixture.Begin();
  EXPECT_THAT(fixture.Begin(), ElementsAre(Pair(1, 2)));
  EXPECT_TRUE(fixture.scheduler.CancelChoice(RequestId{1}, 0));
  EXPECT_TRUE(fixture.scheduler.CancelChoice(RequestId{1}, 1));
  fixture.End();
  EXPECT_EQ(fixture.OutputOf(1, 0).finish, std::nullopt);
  EXPECT_EQ(fixture.OutputOf(1, 1).finish, FinishReason::kCancelled);
  const Request other = SchedulerFixture::Ask(2, 3, 4, 5);
  fixture.Add(other);
  EXPECT_THAT(fixture.Begin(), ElementsAre(Pair(2, 3)))
      << "request 1 is in no step before the step in flight is committed";
  fixture.End();
  EXPECT_EQ(fixture.OutputOf(1, 0).finish, FinishReason::kCancelled);
  fixture.RunToTheEnd();
  EXPECT_TRUE(fixture.OutputOf(1, 0).tokens.empty());
  EXPECT_EQ(fixture.OutputOf(1, 2).tokens, Expected(request, 2));
  EXPECT_EQ(fixture.OutputOf(2).tokens, Expected(other));
}

TEST(OverlapTest, ADeadlinePassesWhileAStepIsInFlight) {
  OverlapFixture fixture;
  Request late = SchedulerFixture::Ask(1, 10, 9, 1);
  late.deadline = At(5);
  fixture.Add(late);
  fixture.Add(SchedulerFixture::Ask(2, 10, 9, 2));
  fixture.Begin(At(1));
  EXPECT_THAT(fixture.Begin(At(5)), ElementsAre(Pair(2, 1)));
  fixture.Collect();
  EXPECT_EQ(fixture.OutputOf(1).finish, FinishReason::kDeadline);
  EXPECT_TRUE(fixture.OutputOf(1).tokens.empty());
  fixture.End();
  EXPECT_EQ(fixture.scheduler.num_running(), 1);
  fixture.RunToTheEnd();
}

TEST(OverlapTest, ARowThatIsNotFiniteEndsASequenceWhoseNextStepIsInFlight) {
  OverlapFixture fixture;
  const Request good = SchedulerFixture::Ask(1, 10, 6, 1);
  Request bad = SchedulerFixture::Ask(2, 11, 6, 2);
  fixture.Add(good);
  fixture.Add(bad);
  fixture.runner.PoisonNextStep(12);  // NaN for a token in the second block of request 2
  fixture.Begin();
  fixture.Begin();
  fixture.End();
  EXPECT_EQ(fixture.OutputOf(2).finish, FinishReason::kError);
  EXPECT_TRUE(fixture.OutputOf(2).tokens.empty());
  EXPECT_EQ(fixture.scheduler.num_running(), 2);
  fixture.End();
  EXPECT_EQ(fixture.scheduler.num_running(), 1);
  fixture.RunToTheEnd();
  EXPECT_EQ(fixture.OutputOf(1).tokens, Expected(good));
  bad.id = RequestId{3};
  fixture.Add(bad);
  fixture.RunToTheEnd();
  EXPECT_EQ(fixture.admissions[3].num_cached_tokens, 0);
  EXPECT_EQ(fixture.OutputOf(3).tokens, Expected(bad));
}

TEST(OverlapTest, BothStepsAreTakenBackIfTheFirstDidNothing) {
  OverlapFixture fixture(8);
  const Request first = SchedulerFixture::Ask(1, 14, 6, 1);
  const Request second = SchedulerFixture::Ask(2, 9, 6, 1);
  fixture.Add(first);
  fixture.Add(second);
  EXPECT_THAT(fixture.Begin(), ElementsAre(Pair(1, 8)));
  EXPECT_THAT(fixture.Begin(), ElementsAre(Pair(1, 6), Pair(2, 1)));
  for (int32_t i = 0; i < 2; ++i) EXPECT_TRUE(fixture.runner.Wait(fixture.result).ok());
  fixture.AbortNewest();
  EXPECT_EQ(fixture.scheduler.num_waiting(), 1);
  EXPECT_EQ(fixture.cache.num_used(), 2);
  fixture.AbortNewest();
  EXPECT_EQ(fixture.scheduler.num_waiting(), 2);
  EXPECT_EQ(fixture.cache.num_used(), 0);
  fixture.RunToTheEnd();
  EXPECT_EQ(fixture.OutputOf(1).tokens, Expected(first));
  EXPECT_EQ(fixture.OutputOf(2).tokens, Expected(second));
  EXPECT_EQ(fixture.cache.TakeStats().queries, 2);
}

TEST(OverlapTest, TheSecondStepAloneIsTakenBackToWhatTheFirstDid) {
  OverlapFixture fixture;
  const Request request = SchedulerFixture::Ask(1, 8, 6, 1);
  fixture.Add(request);
  fixture.Begin();
  EXPECT_THAT(fixture.Begin(), ElementsAre(Pair(1, 1)));
  EXPECT_EQ(fixture.cache.num_used(), 3);
  fixture.End();
  EXPECT_TRUE(fixture.runner.Wait(fixture.result).ok());
  fixture.AbortNewest();
  EXPECT_EQ(fixture.cache.num_used(), 2);
  EXPECT_THAT(fixture.Begin(), ElementsAre(Pair(1, 1)));
  EXPECT_GE(fixture.newest().step.tokens[0], 0) << "known by now";
  fixture.RunToTheEnd();
  EXPECT_EQ(fixture.OutputOf(1).tokens, Expected(request));
}

TEST(OverlapTest, ASequenceThatEndedInAStepThatDidNothingGivesItsBlocksBack) {
  OverlapFixture fixture;
  fixture.Add(SchedulerFixture::Ask(1, 8, 6, 1));
  fixture.Begin();
  fixture.Begin();
  fixture.End();
  EXPECT_TRUE(fixture.scheduler.Cancel(RequestId{1}));
  EXPECT_FALSE(fixture.scheduler.idle());
  EXPECT_TRUE(fixture.runner.Wait(fixture.result).ok());
  fixture.AbortNewest();
  EXPECT_TRUE(fixture.scheduler.idle());
  EXPECT_EQ(fixture.cache.num_used(), 0);
  EXPECT_EQ(fixture.OutputOf(1).tokens.size(), 1u);
}

TEST(OverlapTest, ABlockThatAPendingTokenFillsIsFoundOnceThatIsCommitted) {
  OverlapFixture fixture;
  const Request first = SchedulerFixture::Ask(1, 3, 8, 1);
  fixture.Add(first);
  fixture.Begin();
  fixture.Begin();  // plans a step before the last token of the first block is sampled
  fixture.End();
  fixture.End();
  EXPECT_EQ(fixture.cache.TakeStats().stored_blocks, 1);
  Request second = first;
  second.id = RequestId{2};
  second.prompt.push_back(fixture.OutputOf(1).tokens[0]);
  second.prompt.push_back(7);
  fixture.Add(second);
  fixture.RunToTheEnd();
  EXPECT_EQ(fixture.admissions[2].num_cached_tokens, 4);
  EXPECT_EQ(fixture.OutputOf(2).tokens, Expected(second));
}

}  // namespace
}  // namespace incipit
