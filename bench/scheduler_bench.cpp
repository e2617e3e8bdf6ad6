// Measures the time that the scheduler needs to plan and to commit a step (a batch of prefill and
// decode). No model runs.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/batch.h"
#include "scheduler/scheduler.h"

namespace incipit {
namespace {

Request MakeRequest(uint64_t id, int32_t num_prompt, int32_t num_output) {
  Request request;
  request.id = RequestId{id};
  for (int32_t i = 0; i < num_prompt; ++i) {
    request.prompt.push_back(static_cast<TokenId>(id) * 31 + i);
  }
  request.output_tokens_max = num_output;
  return request;
}

// Runs a scheduler without a model. Commit() reports to the scheduler that every sampled token is
// token 1.
class Stepper {
 public:
  Stepper(const KvCacheOptions& cache, const SchedulerOptions& limits)
      : cache_(cache), scheduler_(limits, cache_) {}

  void Add(Request request) {
    auto shared = std::make_shared<const Request>(std::move(request));
    scheduler_.Add(MakeSequenceGroup(std::move(shared), cache_));
  }
  void Plan() { scheduler_.Plan({}, plan_); }
  void Build() { benchmark::DoNotOptimize(builder_.Build(plan_)); }
  void Commit() {
    tokens_.assign(plan_.samples.size(), 1);
    status_.assign(plan_.samples.size(), RowStatus::kOk);
    scheduler_.Commit(plan_, {.tokens = tokens_, .status = status_, .score_status = {}});
    scheduler_.ClearEvents();
    scheduler_.TakeEnded(ended_);
    ended_.clear();
  }
  const Scheduler& scheduler() const { return scheduler_; }
  const StepPlan& plan() const { return plan_; }

 private:
  KvCacheManager cache_;
  Scheduler scheduler_;
  BatchBuilder builder_;
  StepPlan plan_;
  std::vector<TokenId> tokens_;
  std::vector<RowStatus> status_;
  std::vector<std::unique_ptr<SequenceGroup>> ended_;
};

// Measures a step in which each of `num_running` sequences decodes one token. Each sequence has
// more than 1,024 tokens. If `builds` is true, also measures BatchBuilder, which builds the arrays
// of the batch.
void DecodeStep(benchmark::State& state, bool builds) {
  const auto num_running = static_cast<int32_t>(state.range(0));
  constexpr int32_t kPrompt = 1024, kOutput = 4096;
  const auto make = [&] {
    auto stepper = std::make_unique<Stepper>(
        KvCacheOptions{.num_blocks = num_running * (kPrompt + kOutput) / 16 + 64},
        SchedulerOptions{.step_tokens_max = num_running * kPrompt, .running_max = num_running});
    for (int32_t i = 0; i < num_running; ++i) {
      stepper->Add(MakeRequest(static_cast<uint64_t>(i) + 1, kPrompt, kOutput));
    }
    stepper->Plan();
    stepper->Commit();
    return stepper;
  };
  auto stepper = make();
  for (auto _ : state) {
    stepper->Plan();
    if (builds) stepper->Build();
    stepper->Commit();
    if (!stepper->scheduler().idle()) continue;
    state.PauseTiming();
    stepper = make();
    state.ResumeTiming();
  }
  state.counters["ns_per_sequence"] =
      benchmark::Counter(static_cast<double>(state.iterations() * num_running) * 1e-9,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK_CAPTURE(DecodeStep, plan_commit, false)
    ->Name("decode_step_plan_commit")
    ->Arg(16)
    ->Arg(256)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(DecodeStep, plan_build_commit, true)
    ->Name("decode_step_plan_build_commit")
    ->Arg(16)
    ->Arg(256)
    ->Unit(benchmark::kMicrosecond);

// Measures all steps of a prompt of 4,096 tokens, from its submission to its end. Each step
// computes 512 prompt tokens. The cache is full, so each prompt evicts blocks of older prompts.
void PromptInChunks(benchmark::State& state) {
  Stepper stepper({.num_blocks = 10'000}, {.step_tokens_max = 512, .running_max = 16});
  uint64_t id = 0;
  for (auto _ : state) {
    stepper.Add(MakeRequest(++id, 4096, 1));
    while (!stepper.scheduler().idle()) {
      stepper.Plan();
      stepper.Commit();
    }
  }
}
BENCHMARK(PromptInChunks)->Name("prompt_4096_in_chunks")->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace incipit

BENCHMARK_MAIN();
