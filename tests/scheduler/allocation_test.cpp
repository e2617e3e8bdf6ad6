// Tests that no step allocates heap memory. A request gets all memory that it needs when it is
// submitted.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <tuple>
#include <vector>

#include "scheduler/step_time_model.h"
#include "tests/kvcache/policies/policy_kinds.h"
#include "tests/scheduler/overlap_fixture.h"

namespace {

std::atomic<int64_t> num_allocations{0};

}  // namespace

// Not inlined: if gcc inlines only one of `operator new` and `operator delete`, gcc warns that the
// two do not match.
[[gnu::noinline]] void* operator new(size_t size) {
  ++num_allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t size, std::align_val_t alignment) {
  ++num_allocations;
  const auto align = static_cast<size_t>(alignment);
  if (void* memory = std::aligned_alloc(align, (size + align - 1) / align * align)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace incipit {
namespace {

// Number of events of each kind in all steps of a run.
struct Totals {
  int64_t preemptions = 0, evictions = 0, expired = 0, low_priority = 0, copies = 0, aborts = 0,
          failed = 0;
};

Request MixedRequest(uint64_t id) {
  Request request =
      SchedulerFixture::Ask(id, 1 + static_cast<int32_t>(id % 37),
                            1 + static_cast<int32_t>(id % 23), static_cast<TokenId>(id % 5));
  for (size_t i = id % 11; i < request.prompt.size(); i += 13) {
    request.prompt[i] = static_cast<TokenId>(id % 7);
  }
  request.num_choices = 1 + static_cast<int32_t>(id % 3);
  request.prompt_logprobs = id % 4 == 0 ? 1 : -1;
  if (id % 2 == 0) request.sampling.presence_penalty = 1;
  request.tenant = id % 3;
  request.cache_namespace = MakeCacheNamespace(id % 3 == 0 ? "a" : "b", id % 5 == 0 ? "x" : "");
  if (id % 4 == 1) request.retention.priority = static_cast<int32_t>(id * 7 % 101);
  if (id % 7 == 1) {
    request.retention = {.priority = 100, .time_to_live = std::chrono::milliseconds(6)};
  }
  if (id % 9 == 1) request.retention.pin = std::chrono::milliseconds(50);
  return request;
}

class AllocationTest : public testing::TestWithParam<EvictionPolicyKind> {};

INSTANTIATE_TEST_SUITE_P(Policies, AllocationTest, testing::ValuesIn(kPolicyKinds), PolicyTestName);

TEST_P(AllocationTest, NothingThatAStepDoesAllocates) {
  for (const HashAlgorithm hash : {HashAlgorithm::kSha256, HashAlgorithm::kXxh3,
                                   HashAlgorithm::kSha256Cbor, HashAlgorithm::kXxh3Cbor}) {
    SchedulerFixture fixture(
        {.num_blocks = 60, .block_size = 4, .hash = hash, .policy = GetParam()},
        {.step_tokens_max = 48, .running_max = 16});
    uint64_t next_id = 1;
    Totals totals;
    for (int32_t step = 0; step < 5000; ++step) {
      while (fixture.scheduler.num_waiting() < 4) fixture.Add(MixedRequest(next_id++));

      // The first plan reserves the memory for all later plans.
      const int64_t before_plan = num_allocations;
      if (step % 50 == 7) fixture.scheduler.Cancel(RequestId{next_id - 3});
      if (step % 100 == 8) fixture.cache.EvictTo(20);
      fixture.scheduler.Plan(At(step), fixture.plan);
      const int64_t after_plan = num_allocations;
      ASSERT_TRUE(step == 0 || after_plan == before_plan) << "plan of step " << step;
      totals.preemptions += fixture.plan.num_preemptions;
      totals.copies += static_cast<int64_t>(fixture.plan.copies.size());

      const bool aborts = step % 30 == 11;
      if (step % 200 == 13) fixture.runner.PoisonNextStep(step);
      if (!aborts) {
        ASSERT_TRUE(fixture.runner.Launch(fixture.builder.Build(fixture.plan)).ok());
        ASSERT_TRUE(fixture.runner.Wait(fixture.result).ok());
      }
      const int64_t before_commit = num_allocations;
      if (aborts) {
        fixture.scheduler.Abort(fixture.plan);
      } else {
        fixture.scheduler.Commit(fixture.plan, {.tokens = fixture.result.tokens,
                                                .status = fixture.result.status,
                                                .score_status = fixture.result.score_status});
      }
      for (const TokenEvent& event : fixture.scheduler.events().tokens) {
        totals.failed += event.finish == FinishReason::kError;
      }
      fixture.scheduler.ClearEvents();
      const EvictionStats evictions = fixture.cache.TakeStats().evictions;
      ASSERT_EQ(num_allocations, before_commit) << "end of step " << step;
      totals.aborts += aborts;
      totals.evictions += evictions.by_reason[0];
      totals.low_priority += evictions.by_reason[1];
      totals.expired += evictions.by_reason[2];
    }
    const int64_t before_end = num_allocations;
    fixture.scheduler.EndAll(FinishReason::kCancelled);
    EXPECT_TRUE(fixture.cache.ResetPrefixCache());
    EXPECT_EQ(num_allocations, before_end);
    EXPECT_GT(totals.preemptions, 50);
    EXPECT_GT(totals.evictions, 500);
    EXPECT_GT(totals.low_priority, 100);
    EXPECT_GT(totals.expired, 10);
    EXPECT_GT(totals.copies, 500);
    EXPECT_GT(totals.aborts, 100);
    EXPECT_GT(totals.failed, 10);
  }
}

TEST_P(AllocationTest, NorDoesAStepThatIsPlannedWhileAnotherRuns) {
  OverlapFixture fixture({.num_blocks = 60, .block_size = 4, .policy = GetParam()},
                         {.step_tokens_max = 48, .running_max = 16});
  uint64_t next_id = 1;
  int64_t num_ahead = 0, num_ended = 0;
  for (int32_t step = 0; step < 5000; ++step) {
    while (fixture.scheduler.num_waiting() < 4) {
      Request request = MixedRequest(next_id++);
      if (step / 500 % 2 == 0) request.sampling.presence_penalty = 0;
      if (request.output_tokens_max > 5) request.stop_tokens = {1, 2, 3};
      fixture.Add(request);
    }
    for (int32_t i = 0; i < 2 && fixture.scheduler.num_in_flight() < 2; ++i) {
      auto& next = fixture.steps[(fixture.oldest + fixture.scheduler.num_in_flight()) % 2];
      const int64_t before_plan = num_allocations;
      fixture.scheduler.Plan(At(step), next.plan);
      ASSERT_TRUE(step < 2 || num_allocations == before_plan) << "plan of step " << step;
      if (next.plan.items.empty()) break;
      num_ahead += fixture.scheduler.num_in_flight() == 2;
      next.step = next.builder.Build(next.plan);
      ASSERT_TRUE(fixture.runner.Launch(next.step).ok());
    }
    ASSERT_TRUE(fixture.runner.Wait(fixture.result).ok());
    const bool aborts = step % 30 == 11;
    if (aborts && fixture.scheduler.num_in_flight() == 2) {
      ASSERT_TRUE(fixture.runner.Wait(fixture.result).ok());
    }
    const int64_t before_end = num_allocations;
    if (step % 50 == 7) fixture.scheduler.Cancel(RequestId{next_id - 7});
    while (aborts && fixture.scheduler.num_in_flight() > 0) {
      fixture.scheduler.Abort(fixture.newest().plan);
    }
    if (!aborts) fixture.CommitOldest();
    num_ended += std::ssize(fixture.scheduler.events().ended);
    fixture.scheduler.ClearEvents();
    ASSERT_EQ(num_allocations, before_end) << "end of step " << step;
  }
  EXPECT_GT(num_ahead, 1000);
  EXPECT_GT(num_ended, 1000);
}

// Number of waiting requests in the tests with a long queue. With three tenants, the queue of each
// tenant is longer than SchedulerOptions::reorder_window.
constexpr int32_t kLongQueue = 300;

// Returns a request with a priority. A third of the requests have a deadline that is earlier or
// later than the time for which a request waits.
Request UrgentRequest(uint64_t id, Time now) {
  Request request = MixedRequest(id);
  request.arrival = now;
  request.priority = static_cast<int32_t>(id % 5) - 2;
  const Duration wait = std::chrono::milliseconds(5 + id * 37 % 400);
  if (id % 6 == 2) request.first_token_deadline = now + wait;
  if (id % 6 == 5) request.deadline = now + wait;
  return request;
}

// Parameters: the policy and the maximum number of steps in flight.
class LongQueueAllocationTest : public testing::TestWithParam<std::tuple<SchedulingKind, int32_t>> {
};

INSTANTIATE_TEST_SUITE_P(Schedulings, LongQueueAllocationTest,
                         testing::Combine(testing::Values(SchedulingKind::kFcfs,
                                                          SchedulingKind::kFair),
                                          testing::Values(1, 2)));

TEST_P(LongQueueAllocationTest, StepsWithALongQueueAndDeadlinesAllocateNothing) {
  const auto [scheduling, steps_in_flight] = GetParam();
  OverlapFixture fixture({.num_blocks = 60, .block_size = 4},
                         {.step_tokens_max = 48, .running_max = 16, .scheduling = scheduling},
                         steps_in_flight);
  std::vector<std::unique_ptr<SequenceGroup>> ended;
  std::map<FinishReason, int64_t> num_ended;
  int64_t num_preemptions = 0;
  uint64_t next_id = 1;
  Time now{};
  for (int32_t step = 0; step < 4000; ++step) {
    while (fixture.scheduler.num_waiting() < kLongQueue) {
      fixture.Add(UrgentRequest(next_id++, now));
    }
    bool is_empty = false;
    while (fixture.scheduler.num_in_flight() < steps_in_flight && !is_empty) {
      auto& next = fixture.steps[(fixture.oldest + fixture.scheduler.num_in_flight()) % 2];
      const int64_t before_plan = num_allocations;
      fixture.scheduler.Plan(now, next.plan);
      // The first plan of each StepPlan reserves its memory.
      ASSERT_TRUE(step < 2 || num_allocations == before_plan) << "plan of step " << step;
      num_preemptions += next.plan.num_preemptions;
      is_empty = next.plan.items.empty();
      if (is_empty) break;
      ASSERT_TRUE(fixture.runner.Launch(next.step = next.builder.Build(next.plan)).ok());
    }
    ASSERT_GT(fixture.scheduler.num_in_flight(), 0);
    ASSERT_TRUE(fixture.runner.Wait(fixture.result).ok());
    const StepShape& shape = fixture.steps[fixture.oldest].plan.shape;
    fixture.duration =
        std::chrono::microseconds(500 + 20 * shape.num_prompt_tokens + 50 * shape.num_decoding);
    now += fixture.duration;
    const int64_t before_commit = num_allocations;
    if (step % 50 == 7) fixture.scheduler.Cancel(RequestId{next_id - 100});
    fixture.CommitOldest();
    ASSERT_EQ(num_allocations, before_commit) << "end of step " << step;
    for (const TokenEvent& event : fixture.scheduler.events().tokens) {
      if (event.finish) ++num_ended[*event.finish];
    }
    fixture.scheduler.ClearEvents();
    fixture.scheduler.TakeEnded(ended);
    ended.clear();
  }
  EXPECT_TRUE(fixture.scheduler.step_times().trained());
  EXPECT_GT(fixture.scheduler.TakeCounts().overtakes, 1000);
  EXPECT_GT(num_preemptions, 50);
  EXPECT_GT(num_ended[FinishReason::kLength], 500);
  EXPECT_GT(num_ended[FinishReason::kCancelled], 20);
  EXPECT_GT(num_ended[FinishReason::kTooLate], 50);
  EXPECT_GT(num_ended[FinishReason::kDeadline], 50);
}

TEST(StepTimeModelAllocationTest, LearningAndPredictingAllocateNothing) {
  StepTimeModel model;
  const int64_t before = num_allocations;
  for (int64_t i = 1; i < 1000; ++i) {
    const StepShape shape = {
        .num_prompt_tokens = i % 3, .num_decoding = 1 + i % 7, .num_positions = i};
    model.Observe(shape, std::chrono::milliseconds(5 + i % 5));
    const int32_t count = model.PromptTokensWithin(std::chrono::milliseconds(20), shape, i, 500);
    model.TimeFor(count, i, 64, shape);
    model.ErrorOf(StepClass::kMixed);
  }
  EXPECT_EQ(num_allocations, before);
}

}  // namespace
}  // namespace incipit
