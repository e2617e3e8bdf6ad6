// Measures which share of a step of a real model the reports of cached blocks to a gateway cost. A
// gateway is a program that routes requests to servers. One engine computes random prompts. Phases
// with and without a simulated gateway alternate, so that other programs on the machine disturb
// both kinds of phases equally.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <ctime>
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
#include "server/gateway/kv_event_hub.h"

namespace incipit {
namespace {

constexpr int32_t kNumBlocks = 256;
constexpr int32_t kBlockSize = 16;
constexpr int32_t kStepTokensMax = 256;
constexpr int32_t kRunningMax = 16;
// A phase begins with kSettleTime and then kSettleSteps steps that are not measured. In this time,
// a new gateway gets the list of all cached blocks.
constexpr Duration kSettleTime = std::chrono::milliseconds(300);
constexpr int64_t kSettleSteps = 8;

struct BenchOptions {
  std::string model;
  CpuOptions cpu;
  int32_t pairs = 10;
  int32_t phase_steps = 4000;
};

// A load: `concurrency` requests run at the same time, and a new request starts when a request
// ends. The blocks of one load exceed the cache after a few requests, so the cache evicts blocks.
struct Load {
  std::string_view name;
  int32_t concurrency, prompt_tokens, output_tokens;
};
constexpr Load kLoads[] = {{"decode", 16, 128, 64}, {"prefill", 2, 1024, 1}};

Duration TimeOf(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// CPU time of the engine thread at the begin of a step, since the begin of the thread.
struct EngineTime {
  int64_t num_steps = 0;
  Duration total{}, model{};  // model: the part of `total` in which the model was computed
};

// Forwards steps to another runner, and measures the CPU time of the engine thread.
class TimedRunner final : public ModelRunner {
 public:
  explicit TimedRunner(ModelRunner& runner) : runner_(runner) {}

  absl::Status Launch(const Step& step) override {
    const Duration begin = TimeOf(CLOCK_THREAD_CPUTIME_ID);
    {
      MutexLock lock(mutex_);
      time_.total = begin;
      ++time_.num_steps;
    }
    const absl::Status status = runner_.Launch(step);
    AddModel(TimeOf(CLOCK_THREAD_CPUTIME_ID) - begin);
    return status;
  }
  absl::Status Wait(StepResult& result) override {
    const Duration begin = TimeOf(CLOCK_THREAD_CPUTIME_ID);
    const absl::Status status = runner_.Wait(result);
    AddModel(TimeOf(CLOCK_THREAD_CPUTIME_ID) - begin);
    return status;
  }
  size_t block_bytes() const override { return runner_.block_bytes(); }
  absl::Status ReadBlocks(std::span<const BlockId> blocks, std::span<std::byte> to) override {
    return runner_.ReadBlocks(blocks, to);
  }
  EngineTime time() const {
    MutexLock lock(mutex_);
    return time_;
  }

 private:
  void AddModel(Duration time) {
    MutexLock lock(mutex_);
    time_.model += time;
  }

  ModelRunner& runner_;
  mutable Mutex mutex_;
  EngineTime time_ ABSL_GUARDED_BY(mutex_);
};

// Counts the requests that have ended.
class EndCounter final : public EngineListener {
 public:
  void OnStep(const StepEvents& events) override {
    const auto count = std::ranges::count_if(
        events.tokens, [](const TokenEvent& event) { return event.finish.has_value(); });
    if (count == 0) return;
    MutexLock lock(mutex_);
    num_ended_ += count;
    changed_.notify_all();
  }
  void OnFatal(const absl::Status& status) override {
    fmt::print(stderr, "{}\n", MessageOf(status));
    std::exit(1);
  }
  void WaitForEnds(int64_t count) {
    MutexLock lock(mutex_);
    while (num_ended_ < count) changed_.wait(mutex_);
  }

 private:
  Mutex mutex_;
  std::condition_variable_any changed_;
  int64_t num_ended_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Reads all messages at once. Knows the clock of the thread that sends the messages.
class Gateway final : public KvSubscriber {
 public:
  explicit Gateway(KvEventHub& hub) : hub_(hub), id_(hub.NewId()) {}
  void Accept() override {
    pthread_getcpuclockid(pthread_self(), &clock_);
    is_accepted_ = true;
  }
  void Send(KvMessage message) override {
    num_bytes_ += static_cast<int64_t>(message->size());
    hub_.OnSent(id_, true);
  }
  void End(const absl::Status&) override {}
  void Reset() override {}

  uint64_t id() const { return id_; }
  int64_t num_bytes() const { return num_bytes_; }
  // Returns the CPU time of the thread that sends the messages.
  Duration hub_time() const { return is_accepted_ ? TimeOf(clock_) : Duration(); }

 private:
  KvEventHub& hub_;
  const uint64_t id_;
  clockid_t clock_ = 0;
  std::atomic<bool> is_accepted_ = false;
  std::atomic<int64_t> num_bytes_{0};
};

// The figures of one phase, per step. The unit of times is a second of CPU time.
struct Phase {
  double step = 0;       // the engine thread
  double other = 0;      // the engine thread, without the computation of the model
  double hub = 0;        // the thread that sends the messages
  double num_bytes = 0;  // bytes of all messages to the gateway
};

Request MakeRequest(uint64_t id, const Load& load, int32_t vocab_size) {
  Request request;
  request.id = RequestId{id};
  for (int32_t i = 0; i < load.prompt_tokens; ++i) {
    const uint64_t bits = RandomBits(1, static_cast<uint32_t>(i), id);
    request.prompt.push_back(static_cast<TokenId>(bits % static_cast<uint64_t>(vocab_size)));
  }
  request.output_tokens_max = load.output_tokens;
  request.sampling.temperature = 0;
  return request;
}

// Runs one load on an engine, in a thread of its own, and measures phases of the run.
class LoadRun {
 public:
  LoadRun(const Load& load, TransformerRunner& runner, int32_t vocab_size)
      : load_(load),
        vocab_size_(vocab_size),
        engine_(OptionsOf(), MakeRunner(runner), counter_, clock_),
        hub_({.linger = {}}, SourceOf(engine_, [] { return KvLoad(); }), metrics_, clock_) {
    hub_.Start();
    thread_ = std::thread([this] { Submit(); });
    // Fills the cache, so that each phase evicts blocks.
    const int32_t blocks = (load_.prompt_tokens + load_.output_tokens) / kBlockSize;
    counter_.WaitForEnds(kNumBlocks / blocks + load_.concurrency);
  }
  ~LoadRun() {
    stops_ = true;
    thread_.join();
    hub_.Stop();
  }

  Phase Measure(bool has_gateway, int64_t num_steps) {
    const auto gateway = std::make_shared<Gateway>(hub_);
    if (has_gateway) hub_.Subscribe(gateway->id(), gateway, 0, true).IgnoreError();
    std::this_thread::sleep_for(kSettleTime);
    const EngineTime begin = AwaitSteps(kSettleSteps);
    const Duration hub_begin = gateway->hub_time();
    const int64_t bytes_begin = gateway->num_bytes();
    const EngineTime end = AwaitSteps(num_steps);
    const auto steps = static_cast<double>(end.num_steps - begin.num_steps);
    const Phase phase{
        .step = ToSeconds(end.total - begin.total) / steps,
        .other = ToSeconds(end.total - begin.total - (end.model - begin.model)) / steps,
        .hub = ToSeconds(gateway->hub_time() - hub_begin) / steps,
        .num_bytes = static_cast<double>(gateway->num_bytes() - bytes_begin) / steps};
    if (has_gateway) hub_.Cancel(gateway->id());
    return phase;
  }

 private:
  static EngineOptions OptionsOf() {
    EngineOptions options;
    options.scheduler.step_tokens_max = kStepTokensMax;
    options.scheduler.running_max = kRunningMax;
    options.cache = {.num_blocks = kNumBlocks, .block_size = kBlockSize};
    return options;
  }
  // Waits until the engine has begun `num_steps` further steps.
  EngineTime AwaitSteps(int64_t num_steps) const {
    const int64_t end = timed_->time().num_steps + num_steps;
    while (timed_->time().num_steps < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return timed_->time();
  }

  std::unique_ptr<ModelRunner> MakeRunner(TransformerRunner& runner) {
    auto timed = std::make_unique<TimedRunner>(runner);
    timed_ = timed.get();
    return timed;
  }
  void Submit() {
    for (int64_t submitted = 0; !stops_; ++submitted) {
      counter_.WaitForEnds(submitted - load_.concurrency + 1);
      const auto id = static_cast<uint64_t>(submitted) + 1;
      const absl::Status status =
          engine_.Submit(std::make_shared<const Request>(MakeRequest(id, load_, vocab_size_)));
      if (!status.ok()) counter_.OnFatal(status);
    }
  }

  const Load load_;
  const int32_t vocab_size_;
  SteadyClock clock_;
  Metrics metrics_{{}};
  EndCounter counter_;
  TimedRunner* timed_ = nullptr;
  Engine engine_;
  KvEventHub hub_;
  std::atomic<bool> stops_ = false;
  std::thread thread_;
};

double Quantile(std::vector<double> values, double quantile) {
  std::ranges::sort(values);
  return values[static_cast<size_t>(quantile * static_cast<double>(values.size() - 1) + 0.5)];
}

// Returns the median of a figure over all phases.
double MedianOf(const std::vector<Phase>& phases, double Phase::*figure) {
  std::vector<double> values;
  for (const Phase& phase : phases) values.push_back(phase.*figure);
  return Quantile(std::move(values), 0.5);
}

void Print(std::string_view name, const std::vector<Phase>& without,
           const std::vector<Phase>& with) {
  std::vector<double> shares;  // cost of the reports on the engine thread, in percent of a step
  for (size_t i = 0; i < with.size(); ++i) {
    shares.push_back(100 * (with[i].other - without[i].other) / without[i].step);
  }
  const double step = MedianOf(without, &Phase::step), hub = MedianOf(with, &Phase::hub);
  fmt::print(
      "| {} | {:.2f} | {:.1f} | {:.1f} | {:.3f} | {:.3f} | {:.3f} | {:.1f} | {:.3f} | {:.0f} |\n",
      name, 1e3 * step, 1e6 * MedianOf(without, &Phase::other), 1e6 * MedianOf(with, &Phase::other),
      Quantile(shares, 0.25), Quantile(shares, 0.5), Quantile(shares, 0.75), 1e6 * hub,
      100 * hub / step, MedianOf(with, &Phase::num_bytes));
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
  fmt::print(
      "| load | engine thread, whole step, ms | engine thread without the model, no gateway, us | "
      "engine thread without the model, one gateway, us | cost on the engine thread, lower "
      "quartile, % of a step | median, % of a step | upper quartile, % of a step | sending thread, "
      "us per step | sending thread, % of a step | bytes sent per step |\n"
      "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
  for (const Load& load : kLoads) {
    LoadRun run(load, *runner, model.config.vocab_size);
    std::vector<Phase> without, with;
    for (int32_t i = 0; i < options.pairs; ++i) {
      // Alternates the order in a pair, so that a slow change of the machine has no effect.
      for (const bool has_gateway : {i % 2 == 1, i % 2 == 0}) {
        (has_gateway ? with : without).push_back(run.Measure(has_gateway, options.phase_steps));
      }
    }
    Print(load.name, without, with);
  }
  return absl::OkStatus();
}

int Main(std::span<const std::string_view> args) {
  BenchOptions options;
  Flags flags;
  flags.String({"model", "DIR", "Model folder."}, options.model);
  flags.Integer(
      {"threads", "N", "Number of CPU threads. 0: the number of CPUs that the process may use."},
      options.cpu.num_threads, {0, 4096});
  flags.Integer({"pairs", "N", "Number of pairs of phases, one with and one without a gateway."},
                options.pairs, {1, 1000});
  flags.Integer({"phase-steps", "N", "Number of measured steps of a phase."}, options.phase_steps,
                {1, 1'000'000});
  absl::Status status = flags.ParseAll(args);
  if (flags.help_requested()) {
    fmt::print("{}", flags.Help());
    return 0;
  }
  if (status.ok()) status = Run(options);
  if (status.ok()) return 0;
  fmt::print(stderr, "kv_events_step_bench: {}\n", MessageOf(status));
  return 1;
}

}  // namespace
}  // namespace incipit

int main(int argc, char** argv) {
  const std::vector<std::string_view> args(argv + 1, argv + argc);
  return incipit::Main(args);
}
