// Fixture for a scheduler with two steps in flight, or with one. The test starts and ends each
// step.
#pragma once

#include <utility>

#include "tests/scheduler/scheduler_fixture.h"

namespace incipit {

class OverlapFixture : public SchedulerFixture {
 public:
  explicit OverlapFixture(int32_t step_tokens_max = 64, int32_t num_blocks = 64)
      : OverlapFixture(KvCacheOptions{.num_blocks = num_blocks, .block_size = 4},
                       {.step_tokens_max = step_tokens_max, .running_max = 8}) {}
  OverlapFixture(KvCacheOptions cache, SchedulerOptions limits, int32_t steps_in_flight = 2)
      : SchedulerFixture(std::move(cache), WithSteps(limits, steps_in_flight)),
        steps_in_flight_max(steps_in_flight) {}

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
    scheduler.Commit(done, {.tokens = result.tokens,
                            .status = result.status,
                            .score_status = result.score_status,
                            .duration = duration});
  }
  // Rolls back the newest step. REQUIRES: runner.Wait has returned an error for the step.
  void AbortNewest() {
    scheduler.Abort(newest().plan);
    Collect();
  }
  // Begins steps until the maximum number of steps is in flight, or no step can be planned. Then
  // ends the oldest step. Calls `on_plan` after each plan.
  template <typename OnPlan>
  void BeginAndEnd(const OnPlan& on_plan) {
    bool is_empty = false;
    while (scheduler.num_in_flight() < steps_in_flight_max && !is_empty) {
      is_empty = Begin().empty();
      on_plan();
    }
    if (scheduler.num_in_flight() > 0) End();
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

  const int32_t steps_in_flight_max = 2;
  StepInFlight steps[2];
  int32_t oldest = 0;

 private:
  static SchedulerOptions WithSteps(SchedulerOptions limits, int32_t steps_in_flight) {
    limits.steps_in_flight_max = steps_in_flight;
    return limits;
  }
};

}  // namespace incipit
