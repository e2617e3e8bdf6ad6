// Measures the time that the scheduler needs to plan and to commit a step (a batch of prefill and
// decode). No model runs.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
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

  std::unique_ptr<SequenceGroup> Make(Request request) const {
    return MakeSequenceGroup(std::make_shared<const Request>(std::move(request)), cache_);
  }
  void Add(std::unique_ptr<SequenceGroup> group) { scheduler_.Add(std::move(group)); }
  void Add(Request request) { Add(Make(std::move(request))); }
  void Cancel(uint64_t id) {
    scheduler_.Cancel(RequestId{id});
    EndStep();
  }
  void Plan() { scheduler_.Plan({}, plan_); }
  void Build() { benchmark::DoNotOptimize(builder_.Build(plan_)); }
  void Commit() {
    tokens_.assign(plan_.samples.size(), 1);
    status_.assign(plan_.samples.size(), RowStatus::kOk);
    scheduler_.Commit(plan_, {.tokens = tokens_,
                              .status = status_,
                              .score_status = {},
                              .duration = std::chrono::milliseconds(10)});
    EndStep();
  }
  const Scheduler& scheduler() const { return scheduler_; }
  const StepPlan& plan() const { return plan_; }

 private:
  void EndStep() {
    scheduler_.ClearEvents();
    scheduler_.TakeEnded(ended_);
    ended_.clear();
  }

  KvCacheManager cache_;
  Scheduler scheduler_;
  BatchBuilder builder_;
  StepPlan plan_;
  std::vector<TokenId> tokens_;
  std::vector<RowStatus> status_;
  std::vector<std::unique_ptr<SequenceGroup>> ended_;
};

// The scheduling policy of a benchmark, and the number of tenants that send requests.
struct Setup {
  SchedulingKind kind = SchedulingKind::kFair;
  uint64_t num_tenants = 1;
};

constexpr int32_t kPrompt = 1024;  // prompt tokens of each running sequence

// Measures a step in which each of `num_running` sequences decodes one token. Each sequence has
// more than 1,024 tokens. If `builds` is true, also measures BatchBuilder, which builds the arrays
// of the batch.
void DecodeStep(benchmark::State& state, const Setup& setup, bool builds) {
  const auto num_running = static_cast<int32_t>(state.range(0));
  constexpr int32_t kOutput = 4096;
  const auto make = [&] {
    auto stepper = std::make_unique<Stepper>(
        KvCacheOptions{.num_blocks = num_running * (kPrompt + kOutput) / 16 + 64},
        SchedulerOptions{.step_tokens_max = num_running * kPrompt,
                         .running_max = num_running,
                         .scheduling = setup.kind});
    for (int32_t i = 0; i < num_running; ++i) {
      Request request = MakeRequest(static_cast<uint64_t>(i) + 1, kPrompt, kOutput);
      request.tenant = static_cast<uint64_t>(i) % setup.num_tenants;
      stepper->Add(std::move(request));
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

// The reason why no waiting sequence starts while a benchmark runs.
enum class Obstacle {
  kSlots,  // the maximum number of sequences is running
  kRoom,   // no waiting sequence fits into the cache
  // No waiting sequence fits into the cache, and before each step, outside the measured time, one
  // more sequence arrives.
  kRoomAndArrivals,
};

// Measures a step in which each of the running sequences decodes one token while `num_waiting`
// sequences wait. Each running sequence has all blocks that it needs, and one block is available
// for admissions. Each waiting sequence needs two blocks.
void DecodeStepWithWaiting(benchmark::State& state, const Setup& setup, int32_t num_waiting,
                           Obstacle obstacle) {
  const auto num_running = static_cast<int32_t>(state.range(0));
  constexpr int32_t kBlockSize = 256;
  // Number of steps after which the benchmark creates a new scheduler.
  constexpr int32_t kSteps = 250;
  const int32_t num_used = num_running * (kPrompt / kBlockSize + 1);
  uint64_t id = 0;
  const auto add = [&](Stepper& stepper, int32_t num_prompt) {
    Request request = MakeRequest(++id, num_prompt, kBlockSize);
    request.tenant = id % setup.num_tenants;
    stepper.Add(std::move(request));
  };
  const auto make = [&] {
    auto stepper = std::make_unique<Stepper>(
        // The scheduler keeps 1 % of the blocks free. The running sequences use almost all other
        // blocks, so waiting sequences can use only one block.
        KvCacheOptions{.num_blocks = num_used + num_used / 100 + 1, .block_size = kBlockSize},
        SchedulerOptions{
            .step_tokens_max = num_running * kPrompt,
            .running_max = obstacle == Obstacle::kSlots ? num_running : 2 * num_running,
            .scheduling = setup.kind});
    for (int32_t i = 0; i < num_running; ++i) add(*stepper, kPrompt);
    stepper->Plan();
    stepper->Commit();
    for (int32_t i = 0; i < num_waiting; ++i) add(*stepper, 2 * kBlockSize);
    stepper->Plan();
    stepper->Commit();
    return stepper;
  };
  std::unique_ptr<Stepper> stepper;
  int32_t num_steps = kSteps;
  for (auto _ : state) {
    if (num_steps == kSteps || obstacle == Obstacle::kRoomAndArrivals) {
      state.PauseTiming();
      if (num_steps == kSteps) {
        stepper = make();
        num_steps = 2;
      }
      if (obstacle == Obstacle::kRoomAndArrivals) add(*stepper, 2 * kBlockSize);
      state.ResumeTiming();
    }
    stepper->Plan();
    stepper->Commit();
    ++num_steps;
  }
  const Scheduler& scheduler = stepper->scheduler();
  if (scheduler.num_running() != num_running || scheduler.num_waiting() < num_waiting) {
    state.SkipWithError("waiting sequences have started");
  }
}

// Measures Scheduler::Add while 10,000 sequences wait. The block keys of the prompts are computed
// outside the measured time.
void AddWhileWaiting(benchmark::State& state, const Setup& setup) {
  constexpr int32_t kWaiting = 10'000, kBatch = 500;
  Stepper stepper({.num_blocks = 1000}, {.running_max = 1, .scheduling = setup.kind});
  uint64_t id = 0;
  std::vector<std::unique_ptr<SequenceGroup>> groups;
  const auto make = [&] {
    Request request = MakeRequest(++id, 256, 16);
    request.tenant = id % setup.num_tenants;
    request.priority = static_cast<int32_t>(id % 3);
    groups.push_back(stepper.Make(std::move(request)));
  };
  const auto add = [&] {
    for (auto& group : groups) stepper.Add(std::move(group));
  };
  for (int32_t i = 0; i < kWaiting; ++i) make();
  add();
  while (state.KeepRunningBatch(kBatch)) {
    state.PauseTiming();
    groups.clear();
    for (int32_t i = 0; i < kBatch; ++i) make();
    state.ResumeTiming();
    add();
    state.PauseTiming();
    for (int32_t i = 0; i < kBatch; ++i) stepper.Cancel(id - static_cast<uint64_t>(i));
    state.ResumeTiming();
  }
}

// Measures the plan that checks the deadlines of 1,000 requests, which arrived together and have no
// common prefix. One sequence runs, and no other can start.
void PlanAfterDeadlines(benchmark::State& state, const Setup& setup) {
  constexpr uint64_t kTrained = 10;  // prompts from which the scheduler learns step times
  constexpr uint64_t kNumArrived = 1000;
  for (auto _ : state) {
    state.PauseTiming();
    auto stepper = std::make_unique<Stepper>(
        KvCacheOptions{.num_blocks = 4096},
        SchedulerOptions{.step_tokens_max = 512, .running_max = 1, .scheduling = setup.kind});
    for (uint64_t id = 1; id <= kTrained; ++id) {
      stepper->Add(MakeRequest(id, kPrompt, id < kTrained ? 1 : 4096));
      do {
        stepper->Plan();
        stepper->Commit();
      } while (stepper->scheduler().num_running() > 0 && stepper->plan().shape.num_decoding == 0);
    }
    for (uint64_t id = kTrained + 1; id <= kTrained + kNumArrived; ++id) {
      Request request = MakeRequest(id, kPrompt, 16);
      request.first_token_deadline = Time{} + std::chrono::seconds(1);
      stepper->Add(std::move(request));
    }
    state.ResumeTiming();
    stepper->Plan();
    state.PauseTiming();
    stepper.reset();
    state.ResumeTiming();
  }
}

void RegisterBenchmarks() {
  const auto add = [](const std::string& name, auto function, const auto&... arguments) {
    return benchmark::RegisterBenchmark(name.c_str(), function, arguments...)
        ->Unit(benchmark::kMicrosecond);
  };
  add("decode_step_plan_commit", DecodeStep, Setup{}, false)->Arg(16)->Arg(256)->Arg(1024);
  add("decode_step_plan_build_commit", DecodeStep, Setup{}, true)->Arg(16)->Arg(256);
  add("plan_1000_deadlines", PlanAfterDeadlines, Setup{});
  const std::pair<const char*, Setup> setups[] = {{"/fcfs", {.kind = SchedulingKind::kFcfs}},
                                                  {"/fair", {}},
                                                  {"/fair_100_tenants", {.num_tenants = 100}}};
  const std::pair<const char*, Obstacle> obstacles[] = {
      {"", Obstacle::kSlots},
      {"_no_room", Obstacle::kRoom},
      {"_no_room_arrivals", Obstacle::kRoomAndArrivals}};
  for (const auto& [policy, setup] : setups) {
    const std::string suffix = policy;
    if (setup.kind != SchedulingKind::kFair || setup.num_tenants > 1) {
      add("decode_step_plan_commit" + suffix, DecodeStep, setup, false)->Arg(256)->Arg(1024);
    }
    for (const auto& [name, obstacle] : obstacles) {
      for (const int32_t count : {10, 10'000}) {
        add("decode_step_" + std::to_string(count) + "_waiting" + name + suffix,
            DecodeStepWithWaiting, setup, count, obstacle)
            ->Arg(256);
      }
    }
    add("add_10000_waiting" + suffix, AddWhileWaiting, setup);
  }
}

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

[[maybe_unused]] const bool is_registered = (RegisterBenchmarks(), true);

}  // namespace
}  // namespace incipit

BENCHMARK_MAIN();
