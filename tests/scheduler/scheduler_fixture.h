// Fixture of the scheduler tests: a scheduler, its cache and the fake model. The test plans and
// runs each step.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/batch.h"
#include "engine/store_chunks.h"
#include "scheduler/scheduler.h"
#include "tests/support/fake_runner.h"

namespace incipit {

inline Time At(int64_t milliseconds) { return Time(std::chrono::milliseconds(milliseconds)); }

class SchedulerFixture {
 public:
  explicit SchedulerFixture(KvCacheOptions cache = {.num_blocks = 64, .block_size = 4},
                            SchedulerOptions limits = {.step_tokens_max = 64, .running_max = 8},
                            PrefixTier* tier = nullptr)
      : cache(cache),
        tier(tier),
        scheduler(limits, this->cache, tier),
        runner({.num_blocks = cache.num_blocks, .block_size = cache.block_size}) {}

  // Returns a request whose prompt consists of `num_prompt` times the same `token`.
  static Request Ask(uint64_t id, int32_t num_prompt, int32_t num_output, TokenId token = 1) {
    Request request;
    request.id = RequestId{id};
    request.prompt.assign(static_cast<size_t>(num_prompt), token);
    request.output_tokens_max = num_output;
    return request;
  }
  void Add(Request request) {
    auto shared = std::make_shared<const Request>(std::move(request));
    scheduler.Add(MakeSequenceGroup(std::move(shared), cache));
  }

  // For each sequence in a plan: the id of its request, and the number of planned tokens.
  using Shares = std::vector<std::pair<uint64_t, int32_t>>;
  Shares Plan(Time now = {}) {
    scheduler.Plan(now, plan);
    Shares shares;
    for (const StepPlan::Item& item : plan.items) {
      shares.emplace_back(static_cast<uint64_t>(item.sequence->request().id), item.num_tokens);
    }
    return shares;
  }
  void Run() {
    Compute();
    CommitStep();
  }
  // Computes the planned step. The results are in `result` until CommitStep.
  void Compute() {
    EXPECT_TRUE(runner.Launch(builder.Build(plan, tier)).ok());
    EXPECT_TRUE(runner.Wait(result).ok());
  }
  void CommitStep() {
    scheduler.Commit(plan, {.tokens = result.tokens,
                            .status = result.status,
                            .score_status = result.score_status,
                            .duration = duration});
    if (tier != nullptr) {
      EXPECT_EQ(StoreChunks(scheduler.events(), runner, *tier).num_failed, 0);
    }
    Collect();
  }
  Shares Step(Time now = {}) {
    Shares shares = Plan(now);
    if (!plan.items.empty()) Run();
    Collect();
    return shares;
  }
  void StepToTheEnd() {
    while (!scheduler.idle()) Step();
  }

  void Collect() {
    for (const AdmissionEvent& event : scheduler.events().admissions) {
      admissions[static_cast<uint64_t>(event.request)] = event;
    }
    for (const TokenEvent& event : scheduler.events().tokens) {
      Output& output = outputs[{static_cast<uint64_t>(event.request), event.choice}];
      if (event.token >= 0) output.tokens.push_back(event.token);
      if (event.finish) output.finish = event.finish;
    }
    for (const PromptLogprobsEvent& event : scheduler.events().prompt_logprobs) {
      for (int32_t i = 0; i < event.num_rows; ++i) {
        scored[static_cast<uint64_t>(event.request)].push_back(event.position + i);
      }
    }
    scheduler.ClearEvents();
    std::vector<std::unique_ptr<SequenceGroup>> ended;
    scheduler.TakeEnded(ended);
    std::vector<const BlockTable*> tables;
    for (const Sequence* sequence : scheduler.running()) tables.push_back(&sequence->table);
    if (scheduler.head() != nullptr) tables.push_back(&scheduler.head()->table);
    cache.CheckInvariants(tables);
  }

  struct Output {
    std::vector<TokenId> tokens;
    std::optional<FinishReason> finish;
  };
  const Output& OutputOf(uint64_t id, int32_t choice = 0) { return outputs[{id, choice}]; }

  KvCacheManager cache;
  PrefixTier* tier;  // null: no tier
  Scheduler scheduler;
  FakeRunner runner;
  BatchBuilder builder;
  StepPlan plan;
  StepResult result;
  // Duration of the step that is reported to the scheduler; 0: unknown.
  Duration duration{};
  std::map<std::pair<uint64_t, int32_t>, Output> outputs;
  std::map<uint64_t, AdmissionEvent> admissions;
  std::map<uint64_t, std::vector<int32_t>> scored;
};

}  // namespace incipit
