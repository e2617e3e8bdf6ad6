// No step takes memory from the heap: what a request will ever need, it got when it was submitted.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/scheduler/scheduler_fixture.h"

namespace {

std::atomic<int64_t> num_allocations{0};

}  // namespace

// Not inlined: gcc takes one half of an inlined pair for a mismatch.
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

TEST(AllocationTest, PlanAndCommitAllocateNothing) {
  SchedulerFixture fixture({.num_blocks = 60, .block_size = 4},
                           {.step_tokens_max = 48, .running_max = 16});
  uint64_t next_id = 1;
  int32_t num_steps = 0, num_preemptions = 0;
  int64_t num_evictions = 0;
  while (num_steps < 20'000) {
    while (fixture.scheduler.num_waiting() < 4) {
      Request request = SchedulerFixture::Ask(next_id, 1 + static_cast<int32_t>(next_id % 37),
                                              1 + static_cast<int32_t>(next_id % 23),
                                              static_cast<TokenId>(next_id % 5));
      request.num_choices = 1 + static_cast<int32_t>(next_id % 3);
      request.prompt_logprobs = next_id % 4 == 0 ? 1 : -1;
      if (next_id % 2 == 0) request.sampling.presence_penalty = 1;
      ++next_id;
      fixture.Add(request);
    }
    if (num_steps % 50 == 7) fixture.scheduler.Cancel(RequestId{next_id - 3});

    // The first plan reserves what every later one uses.
    const int64_t before_plan = num_allocations;
    fixture.scheduler.Plan(At(num_steps), fixture.plan);
    const int64_t after_plan = num_allocations;
    ASSERT_TRUE(num_steps == 0 || after_plan == before_plan) << "plan of step " << num_steps;
    num_preemptions += fixture.plan.num_preemptions;

    ASSERT_TRUE(fixture.runner.Launch(fixture.builder.Build(fixture.plan)).ok());
    ASSERT_TRUE(fixture.runner.Wait(fixture.result).ok());
    const int64_t before_commit = num_allocations;
    fixture.scheduler.Commit(fixture.plan, {.tokens = fixture.result.tokens,
                                            .status = fixture.result.status,
                                            .score_status = fixture.result.score_status});
    fixture.scheduler.ClearEvents();
    num_evictions += fixture.cache.TakeStats().evictions.total();
    ASSERT_EQ(num_allocations, before_commit) << "commit of step " << num_steps;
    ++num_steps;
  }
  EXPECT_GT(num_preemptions, 100);
  EXPECT_GT(num_evictions, 1000);
}

}  // namespace
}  // namespace incipit
