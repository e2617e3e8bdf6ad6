// Tests the statistics of the prefix cache. Each admitted request is counted exactly once, with its
// numbers of tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/scheduler/scheduler_fixture.h"

namespace incipit {
namespace {

// Returns a request whose prompt tokens depend on `name`. Prompts with different names have no
// equal tokens.
Request AskNamed(uint64_t id, int32_t name, int32_t num_prompt, int32_t num_output = 1) {
  Request request = SchedulerFixture::Ask(id, 0, num_output);
  for (int32_t i = 0; i < num_prompt; ++i) request.prompt.push_back(name * 1000 + i);
  return request;
}

void ExpectCounts(const KvCacheStats& stats, int64_t queries, int64_t tokens, int64_t hits,
                  int64_t copied) {
  EXPECT_EQ(stats.queries, queries);
  EXPECT_EQ(stats.query_tokens, tokens);
  EXPECT_EQ(stats.hit_tokens, hits);
  EXPECT_EQ(stats.copied_tokens, copied);
}

TEST(CountingTest, ARequestCountsOnceHoweverOftenItsAdmissionIsRetried) {
  SchedulerFixture fixture;
  fixture.Add(AskNamed(1, 1, 14));
  fixture.StepToTheEnd();
  fixture.Add(AskNamed(2, 1, 10));
  for (int i = 0; i < 5; ++i) {
    fixture.Plan();
    fixture.scheduler.Abort(fixture.plan);
    fixture.Collect();
    ExpectCounts(fixture.cache.TakeStats(), i == 0 ? 1 : 0, i == 0 ? 14 : 0, 0, 0);
    EXPECT_FALSE(fixture.admissions.contains(2));
  }
  fixture.StepToTheEnd();
  ExpectCounts(fixture.cache.TakeStats(), 1, 10, 9, 1);
  EXPECT_EQ(fixture.admissions[2].num_prompt_tokens, 10);
  EXPECT_EQ(fixture.admissions[2].num_cached_tokens, 9);
}

TEST(CountingTest, ARequestCancelledBeforeItsFirstStepIsDoneIsNotCounted) {
  SchedulerFixture fixture;
  fixture.Add(AskNamed(1, 1, 14));
  EXPECT_TRUE(fixture.scheduler.Cancel(RequestId{1}));
  fixture.Collect();
  fixture.Add(AskNamed(2, 1, 14));
  fixture.Plan();
  EXPECT_TRUE(fixture.scheduler.Cancel(RequestId{2}));
  fixture.scheduler.Abort(fixture.plan);
  fixture.Collect();
  EXPECT_TRUE(fixture.scheduler.idle());
  ExpectCounts(fixture.cache.TakeStats(), 0, 0, 0, 0);
  EXPECT_TRUE(fixture.admissions.empty());
}

TEST(CountingTest, ChoicesAreOneRequestAndTheirSharesAreNoHits) {
  SchedulerFixture fixture;
  Request request = AskNamed(1, 1, 14, 6);
  request.num_choices = 4;
  fixture.Add(request);
  fixture.StepToTheEnd();
  const KvCacheStats stats = fixture.cache.TakeStats();
  ExpectCounts(stats, 1, 14, 0, 0);
  EXPECT_EQ(stats.self_query_tokens, 0);
}

TEST(CountingTest, ARequestNotToReadIsNotCountedAndMissesNothing) {
  SchedulerFixture fixture;
  fixture.Add(AskNamed(1, 1, 14));
  fixture.StepToTheEnd();
  fixture.cache.TakeStats();
  Request unread = AskNamed(2, 1, 14), scored = AskNamed(3, 1, 14);
  unread.read_cache = false;
  scored.prompt_logprobs = 0;
  fixture.Add(unread);
  fixture.Add(scored);
  fixture.StepToTheEnd();
  ExpectCounts(fixture.cache.TakeStats(), 0, 0, 0, 0);
  for (const uint64_t id : {2, 3}) {
    EXPECT_EQ(fixture.admissions[id].num_cached_tokens, 0);
    EXPECT_EQ(fixture.admissions[id].miss.reason, MissReason::kNone);
  }
}

// The cache has six blocks of four tokens. Request 2 is preempted when the output of request 1
// needs one more block.
TEST(CountingTest, WhatAPreemptedSequenceFindsOfItselfIsCountedApart) {
  SchedulerFixture fixture({.num_blocks = 6, .block_size = 4, .copy_on_write = false});
  fixture.Add(AskNamed(1, 1, 8, 9));
  fixture.Add(AskNamed(2, 2, 6, 9));
  int32_t num_preemptions = 0, num_returning = 0;
  while (!fixture.scheduler.idle()) {
    fixture.Step();
    num_preemptions += fixture.plan.num_preemptions;
    for (const StepPlan::Item& item : fixture.plan.items) {
      if (num_preemptions == 0 || item.num_tokens == 1) continue;
      num_returning = item.first_token + item.num_tokens;
      EXPECT_EQ(item.first_token, 8);
    }
  }
  EXPECT_EQ(num_preemptions, 1);
  EXPECT_GT(num_returning, 8);
  const KvCacheStats stats = fixture.cache.TakeStats();
  ExpectCounts(stats, 2, 8 + 6, 0, 0);
  EXPECT_EQ(stats.self_query_tokens, num_returning);
  EXPECT_EQ(stats.self_hit_tokens, 8);
}

TEST(CountingTest, EveryAdmittedRequestReportsWhyItMissed) {
  SchedulerFixture fixture({.num_blocks = 8, .block_size = 4});
  fixture.Add(AskNamed(1, 1, 20));
  fixture.Step(At(0));
  fixture.Add(AskNamed(2, 2, 20));  // evicts two of the five cached blocks of request 1
  fixture.Step(At(1000));
  fixture.Add(AskNamed(3, 1, 22));
  fixture.Step(At(3500));
  Request other = AskNamed(4, 1, 11);
  other.prompt[10] = 7;
  fixture.Add(other);
  fixture.Step(At(4000));
  fixture.Add(AskNamed(5, 1, 9));
  fixture.Step(At(5000));

  const Miss first = fixture.admissions[1].miss, third = fixture.admissions[3].miss;
  EXPECT_EQ(first.reason, MissReason::kUnseen);
  EXPECT_EQ(first.block, 0);
  EXPECT_EQ(first.differing_token, 0);
  EXPECT_EQ(third.reason, MissReason::kEvicted);
  EXPECT_EQ(third.block, 3);
  EXPECT_EQ(third.evicted_ago, std::chrono::milliseconds(2500));
  EXPECT_EQ(third.differing_token, 12);
  EXPECT_EQ(fixture.admissions[3].num_cached_tokens, 12);
  EXPECT_EQ(fixture.admissions[4].miss.reason,
            MissReason::kNone);  // all full blocks of the prompt are cached
  EXPECT_EQ(fixture.admissions[4].num_cached_tokens, 10);
  EXPECT_EQ(fixture.admissions[5].miss.reason, MissReason::kNone);
  EXPECT_EQ(fixture.admissions[5].num_cached_tokens, 8);
  ExpectCounts(fixture.cache.TakeStats(), 5, 20 + 20 + 22 + 11 + 9, 12 + 10 + 8, 2);
}

// The cache has so many blocks that it evicts none. The statistics of the cache must equal the sums
// over all admission events.
TEST(CountingTest, TotalsAreTheSumOfWhatAdmissionsReported) {
  SchedulerFixture fixture({.num_blocks = 400, .block_size = 4},
                           {.step_tokens_max = 16, .running_max = 8});
  int64_t num_tokens = 0;
  for (uint64_t id = 1; id <= 60; ++id) {
    Request request = AskNamed(id, static_cast<int32_t>(id % 4), 5 + static_cast<int32_t>(id % 21));
    request.num_choices = 1 + static_cast<int32_t>(id % 3);
    request.output_tokens_max = 1 + static_cast<int32_t>(id % 5);
    num_tokens += static_cast<int64_t>(request.prompt.size());
    fixture.Add(request);
    if (id % 3 == 0) fixture.Step();
  }
  fixture.StepToTheEnd();
  int64_t num_cached = 0;
  for (const auto& [id, event] : fixture.admissions) num_cached += event.num_cached_tokens;
  const KvCacheStats stats = fixture.cache.TakeStats();
  EXPECT_EQ(stats.queries, 60);
  EXPECT_EQ(stats.query_tokens, num_tokens);
  EXPECT_EQ(stats.hit_tokens, num_cached);
  EXPECT_GT(num_cached, num_tokens / 2);
  EXPECT_EQ(stats.evictions.total(), 0);
}

}  // namespace
}  // namespace incipit
