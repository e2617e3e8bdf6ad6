// Measures how well StepTimeModel predicts the durations of the steps of a real model on the CPU.
// An engine computes random prompts in phases with different loads. Between the phases, the program
// repeats identical steps, whose durations show the noise of the machine.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/flags.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/status.h"
#include "engine/engine.h"
#include "engine/transformer_runner.h"
#include "kernels/cpu/cpu_options.h"
#include "scheduler/step_time_model.h"

namespace incipit {
namespace {

constexpr int32_t kNumBlocks = 1600;
constexpr int32_t kBlockSize = 16;
constexpr int32_t kStepTokensMax = 512;
constexpr int32_t kRunningMax = 32;

struct BenchOptions {
  std::string model, records;
  CpuOptions cpu;
  int32_t rounds = 2;
  double phase_seconds = 6;
  bool cpu_time = false;
};

// A clock that shows the CPU time of the calling thread. The engine thread computes all steps if
// the backend has one thread. Unlike elapsed time, CPU time excludes the time in which other
// programs run.
class ThreadCpuClock final : public Clock {
 public:
  Time Now() const override {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return Time(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
  }
};

// One phase of the load: `concurrency` requests run at the same time, and a new request starts when
// a request ends.
struct Phase {
  int32_t concurrency, prompt_min, prompt_max, output_min, output_max, step_tokens;
};
constexpr Phase kPhases[] = {
    {1, 16, 512, 8, 48, 256},   {2, 16, 256, 16, 48, 128}, {4, 16, 600, 8, 64, 512},
    {8, 16, 64, 32, 64, 64},    {8, 300, 1200, 4, 16, 64}, {16, 16, 200, 8, 64, 32},
    {16, 16, 400, 8, 48, 256},  {6, 1, 1500, 1, 100, 96},  {32, 16, 64, 16, 64, 128},
    {3, 500, 1500, 4, 32, 512},
};

struct StepRecord {
  StepShape shape;
  Duration duration;
};

// Forwards steps to another runner. Stores, for each step, the number of pairs (token, position) in
// which a token of the step attends to the position.
class CountingRunner final : public ModelRunner {
 public:
  CountingRunner(ModelRunner& runner, std::deque<int64_t>& positions)
      : runner_(runner), positions_(positions) {}

  absl::Status Launch(const Step& step) override {
    int64_t sum = 0;
    for (const int32_t position : step.positions) sum += position + 1;
    positions_.push_back(sum);
    return runner_.Launch(step);
  }
  absl::Status Wait(StepResult& result) override { return runner_.Wait(result); }
  size_t block_bytes() const override { return runner_.block_bytes(); }
  absl::Status ReadBlocks(std::span<const BlockId> blocks, std::span<std::byte> to) override {
    return runner_.ReadBlocks(blocks, to);
  }

 private:
  ModelRunner& runner_;
  std::deque<int64_t>& positions_;
};

// Records each step. The engine thread calls OnStep(); the main thread reads `records` after the
// engine has stopped.
class StepRecorder final : public EngineListener {
 public:
  void OnStep(const StepEvents& events) override {
    const StepStats& stats = events.stats;
    if (stats.num_tokens > 0) {
      records.push_back({.shape = {.num_prompt_tokens = stats.num_prefill_tokens,
                                   .num_decoding = stats.num_decode_tokens,
                                   .num_positions = positions.front()},
                         .duration = stats.duration});
      positions.pop_front();
    }
    MutexLock lock(mutex_);
    for (const TokenEvent& event : events.tokens) num_ended_ += event.finish.has_value();
    changed_.notify_all();
  }
  void OnFatal(const absl::Status& status) override {
    fmt::print(stderr, "{}\n", MessageOf(status));
    std::exit(1);
  }
  // Waits until `count` requests have ended, and returns true. Returns false if fewer requests have
  // ended at the time `deadline`.
  bool WaitForEnds(int64_t count, Time deadline) {
    MutexLock lock(mutex_);
    while (num_ended_ < count) {
      if (changed_.wait_until(mutex_, deadline) == std::cv_status::timeout) return false;
    }
    return true;
  }

  // For each step in flight: sum of the positions that its tokens attend to
  std::deque<int64_t> positions;
  std::vector<StepRecord> records;

 private:
  Mutex mutex_;
  std::condition_variable_any changed_;
  int64_t num_ended_ ABSL_GUARDED_BY(mutex_) = 0;
};

int32_t RandomIn(uint64_t id, uint32_t stream, int32_t min, int32_t max) {
  const auto range = static_cast<uint64_t>(max - min + 1);
  return min + static_cast<int32_t>(RandomBits(1, stream, id) % range);
}

Request MakeRequest(uint64_t id, const Phase& phase, int32_t vocab_size) {
  Request request;
  request.id = RequestId{id};
  const int32_t num_prompt = RandomIn(id, 0, phase.prompt_min, phase.prompt_max);
  for (int32_t i = 0; i < num_prompt; ++i) {
    request.prompt.push_back(RandomIn(id, static_cast<uint32_t>(i) + 2, 0, vocab_size - 1));
  }
  request.output_tokens_max = RandomIn(id, 1, phase.output_min, phase.output_max);
  request.sampling.temperature = 0;
  return request;
}

// Runs one phase and appends its steps to `records`.
absl::Status RunPhase(const Phase& phase, double seconds, const Clock& clock,
                      TransformerRunner& runner, int32_t vocab_size, uint64_t& next_id,
                      std::vector<StepRecord>& records) {
  StepRecorder recorder;
  EngineOptions options;
  options.scheduler.step_tokens_max = phase.step_tokens;
  options.scheduler.running_max = kRunningMax;
  options.cache = {.num_blocks = kNumBlocks, .block_size = kBlockSize};
  const Time deadline = SteadyClock().Now() + FromSeconds(seconds);
  {
    Engine engine(options, std::make_unique<CountingRunner>(runner, recorder.positions), recorder,
                  clock);
    for (int64_t submitted = 0;; ++submitted) {
      if (!recorder.WaitForEnds(submitted - phase.concurrency + 1, deadline)) break;
      INCIPIT_RETURN_IF_ERROR(engine.Submit(
          std::make_shared<const Request>(MakeRequest(next_id++, phase, vocab_size))));
    }
  }
  records.insert(records.end(), recorder.records.begin(), recorder.records.end());
  return absl::OkStatus();
}

// Computes steps that are always identical: `num_decoding` sequences decode at position
// kPosition, and one sequence computes `num_prompt` prompt tokens from position kPosition on. The
// contents of the cache do not influence the duration.
class IdenticalSteps {
 public:
  IdenticalSteps(int32_t num_prompt, int32_t num_decoding) {
    params_.temperature = 0;
    if (num_prompt > 0) AddSequence(num_prompt);
    for (int32_t i = 0; i < num_decoding; ++i) AddSequence(1);
  }

  absl::Status Run(const Clock& clock, TransformerRunner& runner) {
    const Time begin = clock.Now();
    INCIPIT_RETURN_IF_ERROR(runner.Launch({.tokens = tokens_,
                                           .positions = positions_,
                                           .token_begin = token_begin_,
                                           .block_begin = block_begin_,
                                           .blocks = blocks_,
                                           .sample_begin = sample_begin_,
                                           .samples = samples_,
                                           .score_begin = score_begin_}));
    INCIPIT_RETURN_IF_ERROR(runner.Wait(result_));
    seconds_.push_back(ToSeconds(clock.Now() - begin));
    return absl::OkStatus();
  }

  double median() const { return Quantile(seconds_, 0.5); }
  // Returns the difference of the upper and the lower quartile of the step durations, divided by
  // their median.
  double spread() const { return (Quantile(seconds_, 0.75) - Quantile(seconds_, 0.25)) / median(); }

  static double Quantile(std::vector<double> values, double quantile) {
    if (values.empty()) return 0;
    std::ranges::sort(values);
    return values[static_cast<size_t>(quantile * static_cast<double>(values.size() - 1))];
  }

 private:
  static constexpr int32_t kPosition = 256;

  void AddSequence(int32_t num_tokens) {
    for (int32_t i = 0; i < num_tokens; ++i) {
      tokens_.push_back(1);
      positions_.push_back(kPosition + i);
    }
    for (int32_t i = 0; i < (kPosition + num_tokens + kBlockSize - 1) / kBlockSize; ++i) {
      blocks_.push_back(BlockId{next_block_++});
    }
    samples_.push_back({.row = static_cast<int32_t>(tokens_.size()) - 1,
                        .params = &params_,
                        .position = kPosition + num_tokens});
    token_begin_.push_back(static_cast<int32_t>(tokens_.size()));
    block_begin_.push_back(static_cast<int32_t>(blocks_.size()));
    sample_begin_.push_back(static_cast<int32_t>(samples_.size()));
    score_begin_.push_back(0);
  }

  SamplingParams params_;
  int32_t next_block_ = 0;
  std::vector<TokenId> tokens_;
  std::vector<int32_t> positions_, token_begin_{0}, block_begin_{0}, sample_begin_{0},
      score_begin_{0};
  std::vector<BlockId> blocks_;
  std::vector<StepSample> samples_;
  StepResult result_;
  std::vector<double> seconds_;
};

constexpr std::string_view kClassNames[] = {"decode", "mixed", "prefill"};

void PrintErrors(const std::vector<StepRecord>& records,
                 const std::array<IdenticalSteps, kNumStepClasses>& identical) {
  StepTimeModel model;
  std::array<std::vector<double>, kNumStepClasses> errors, seconds;
  for (const StepRecord& record : records) {
    const auto step_class = static_cast<size_t>(ClassOf(record.shape));
    const double predicted = ToSeconds(model.Predict(record.shape));
    const double measured = ToSeconds(record.duration);
    if (model.trained()) errors[step_class].push_back(std::abs(predicted - measured) / measured);
    seconds[step_class].push_back(measured);
    model.Observe(record.shape, record.duration);
  }
  fmt::print(
      "| kind of step | number of steps | median duration, ms | median prediction error, % | "
      "90 % quantile of the prediction error, % | (upper quartile - lower quartile) / median of "
      "the durations of identical steps, % | goal for the median prediction error, % "
      "|\n|---|---:|---:|---:|---:|---:|---:|\n");
  for (size_t i = 0; i < kNumStepClasses; ++i) {
    const auto quantile = IdenticalSteps::Quantile;
    fmt::print("| {} | {} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {:.1f} |\n", kClassNames[i],
               seconds[i].size(), 1e3 * quantile(seconds[i], 0.5), 100 * quantile(errors[i], 0.5),
               100 * quantile(errors[i], 0.9), 100 * identical[i].spread(),
               100 * std::max(0.15, 1.5 * identical[i].spread()));
  }
}

absl::Status WriteRecords(const std::string& path, const std::vector<StepRecord>& records) {
  std::FILE* const file = std::fopen(path.c_str(), "w");
  if (file == nullptr) return InvalidArgument("--records: cannot write {}", path);
  fmt::print(file, "prompt_tokens,decoding,positions,seconds\n");
  for (const StepRecord& record : records) {
    fmt::print(file, "{},{},{},{:.6f}\n", record.shape.num_prompt_tokens, record.shape.num_decoding,
               record.shape.num_positions, ToSeconds(record.duration));
  }
  std::fclose(file);
  return absl::OkStatus();
}

absl::Status Run(const BenchOptions& options) {
  INCIPIT_ASSIGN_OR_RETURN(const auto backend, CreateCpuBackend(options.cpu));
  INCIPIT_ASSIGN_OR_RETURN(const Model model, LoadModel(options.model, *backend));
  TransformerRunnerOptions runner_options;
  runner_options.num_blocks = kNumBlocks;
  runner_options.block_size = kBlockSize;
  runner_options.step_tokens_max = kStepTokensMax;
  runner_options.samples_max = kRunningMax + 1;
  INCIPIT_ASSIGN_OR_RETURN(const auto runner,
                           TransformerRunner::Create(*backend, model, runner_options));
  // Each element computes the same step in every round. The elements have the order of StepClass:
  // decode, mixed, prefill.
  std::array<IdenticalSteps, kNumStepClasses> identical = {
      IdenticalSteps(0, 8), IdenticalSteps(32, 8), IdenticalSteps(64, 0)};
  const SteadyClock elapsed;
  const ThreadCpuClock cpu_time;
  const Clock& clock = options.cpu_time ? static_cast<const Clock&>(cpu_time) : elapsed;
  std::vector<StepRecord> records;
  uint64_t next_id = 1;
  for (int32_t round = 0; round < options.rounds; ++round) {
    for (const Phase& phase : kPhases) {
      INCIPIT_RETURN_IF_ERROR(RunPhase(phase, options.phase_seconds, clock, *runner,
                                       model.config.vocab_size, next_id, records));
      for (int32_t i = 0; i < 5; ++i) {
        for (IdenticalSteps& steps : identical) INCIPIT_RETURN_IF_ERROR(steps.Run(clock, *runner));
      }
    }
  }
  PrintErrors(records, identical);
  return options.records.empty() ? absl::OkStatus() : WriteRecords(options.records, records);
}

int Main(std::span<const std::string_view> args) {
  BenchOptions options;
  Flags flags;
  flags.String({"model", "DIR", "Model folder."}, options.model);
  flags.String(
      {"records", "FILE", "CSV file for the numbers of tokens and the duration of each step."},
      options.records);
  flags.Integer(
      {"threads", "N", "Number of CPU threads. 0: the number of CPUs that the process may use."},
      options.cpu.num_threads, {0, 4096});
  flags.Integer(
      {"rounds", "N",
       "Number of times that each phase (a load with a fixed number of running requests) runs."},
      options.rounds, {1, 1000});
  flags.Real({"phase-seconds", "X",
              "Duration in seconds of a phase (a load with a fixed number of running requests)."},
             options.phase_seconds, {0.1, 3600});
  flags.Switch({"cpu-time", "",
                "Measure the CPU time of the engine thread instead of elapsed time. Use this flag "
                "only with --threads 1."},
               options.cpu_time);
  absl::Status status = flags.ParseAll(args);
  if (flags.help_requested()) {
    fmt::print("{}", flags.Help());
    return 0;
  }
  if (status.ok()) status = Run(options);
  if (status.ok()) return 0;
  fmt::print(stderr, "step_time_bench: {}\n", MessageOf(status));
  return 1;
}

}  // namespace
}  // namespace incipit

int main(int argc, char** argv) {
  const std::vector<std::string_view> args(argv + 1, argv + argc);
  return incipit::Main(args);
}
