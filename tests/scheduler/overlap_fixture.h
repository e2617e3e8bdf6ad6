// Fixture for a scheduler with two steps in flight. The test starts and ends each step.
#pragma once

#include <utility>

#include "tests/scheduler/scheduler_fixture.h"

namespace incipit {

class OverlapFixture : public SchedulerFixture {
 public:
  explicit OverlapFixture(int32_t step_tokens_max = 64, int32_t num_blocks = 64)
      : OverlapFixture(KvCacheOptions{.num_blocks = num_blocks, .block_size = 4},
                       {.step_tokens_max = step_tokens_max, .running_max = 8}) {}
  OverlapFixture(KvCacheOptions cache, SchedulerOptions limits)
      : SchedulerFixture(std::move(cache), WithTwoSteps(limits)) {}

  // Plans and launches the next step. Returns pairs of request id and number of planned tokens. If
  // the plan is empty, launches no step.
  Shares Begin(Time now = {}) {
    StepInFlight& step = steps[static_cast<size_t>(oldest + scheduler.num_in_flight()) % 2];
    scheduler.Plan(now, step.plan);
    Shares shares;
    for (const StepPlan::Item& item : step.plan.items) {
      shares.emplace_back(static_cast<uint64_t>(item.sequence->request().id), item.num_tokens);
    }
    if (shares.empty()) return shares;
    EXPECT_TRUE(runner.Launch(step.step = step.builder.Build(step.plan)).ok());
    return shares;
  }
  void End() {
    EXPECT_TRUE(runner.Wait(result).ok());
    CommitOldest();
    Collect();
  }
  // Commits the oldest step. REQUIRES: runner.Wait has returned for the step.
  void CommitOldest() {
    const StepPlan& done = steps[static_cast<size_t>(oldest)].plan;
    oldest = 1 - oldest;
    scheduler.Commit(
        done,
        {.tokens = result.tokens, .status = result.status, .score_status = result.score_status});
  }
  // Rolls back the newest step. REQUIRES: runner.Wait has returned an error for the step.
  void AbortNewest() {
    scheduler.Abort(newest().plan);
    Collect();
  }
  void RunToTheEnd() {
    while (!scheduler.idle()) {
      if (scheduler.num_in_flight() == 0) Begin();
      if (scheduler.num_in_flight() == 1) Begin();
      if (scheduler.num_in_flight() > 0) End();
    }
    EXPECT_EQ(cache.num_used(), 0);
  }

  struct StepInFlight {
    StepPlan plan;
    BatchBuilder builder;
    incipit::Step step;
  };
  StepInFlight& newest() {
    return steps[static_cast<size_t>(oldest + scheduler.num_in_flight() - 1) % 2];
  }

  StepInFlight steps[2];
  int32_t oldest = 0;

 private:
  static SchedulerOptions WithTwoSteps(SchedulerOptions limits) {
    limits.steps_in_flight_max = 2;
    return limits;
  }
};

}  // namespace incipit
