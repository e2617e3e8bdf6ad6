// Measures the cost of reporting cached blocks to gateways, which are programs that route requests
// to servers. The cost is the time of two threads: the engine thread, which runs the model steps,
// and the thread that sends the reports.
#include <benchmark/benchmark.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/batch.h"
#include "scheduler/scheduler.h"
#include "server/gateway/kv_event_hub.h"

namespace incipit {
namespace {

enum Listener : int64_t { kNone, kLog, kHub };

// Reads all messages at once.
class Sink final : public KvSubscriber {
 public:
  explicit Sink(KvEventHub& hub) : hub_(hub), id_(hub.NewId()) {}
  void Accept() override {}
  void Send(KvMessage message) override {
    num_bytes_ += static_cast<int64_t>(message->size());
    ++num_messages_;
    hub_.OnSent(id_, true);
  }
  void End(const absl::Status&) override {}
  void Reset() override {}

  uint64_t id() const { return id_; }
  int64_t num_bytes() const { return num_bytes_; }
  int64_t num_messages() const { return num_messages_; }

 private:
  KvEventHub& hub_;
  const uint64_t id_;
  std::atomic<int64_t> num_bytes_{0}, num_messages_{0};
};

class LogListener final : public KvEventListener {
 public:
  void OnKvEvents(const KvEvents& events) override { benchmark::DoNotOptimize(events.events); }
};

// Runs a scheduler without a model: every sampled token is token 1. After each step, reports the
// changes of the prefix cache to `listener`. If `listener` is kHub, another thread sends the
// changes to one simulated gateway.
class Stepper {
 public:
  Stepper(const KvCacheOptions& cache, const SchedulerOptions& limits, Listener listener)
      : cache_(cache),
        scheduler_(limits, cache_),
        reporter_(cache_),
        hub_({},
             {.listen = [](KvEventListener*) {},
              .report_cached = [] {},
              .load = [] { return KvLoad(); }},
             metrics_, clock_) {
    if (listener == kLog) reporter_.Apply({.listener = &log_});
    if (listener != kHub) return;
    hub_.Start();
    sink_ = std::make_shared<Sink>(hub_);
    hub_.Subscribe(sink_->id(), sink_, 0, true).IgnoreError();
    reporter_.Apply({.listener = &hub_, .reports_cached = true});
    reporter_.Report();
  }
  ~Stepper() { hub_.Stop(); }

  void Add(Request request) {
    auto shared = std::make_shared<const Request>(std::move(request));
    scheduler_.Add(MakeSequenceGroup(std::move(shared), cache_));
  }
  void Step() {
    scheduler_.Plan({}, plan_);
    tokens_.assign(plan_.samples.size(), 1);
    status_.assign(plan_.samples.size(), RowStatus::kOk);
    scheduler_.Commit(plan_, {.tokens = tokens_, .status = status_, .score_status = {}});
    scheduler_.ClearEvents();
    reporter_.Report();
    scheduler_.TakeEnded(ended_);
    ended_.clear();
  }
  const Scheduler& scheduler() const { return scheduler_; }
  KvCacheManager& cache() { return cache_; }
  const Sink* sink() const { return sink_.get(); }

 private:
  KvCacheManager cache_;
  Scheduler scheduler_;
  CacheReporter reporter_;
  StepPlan plan_;
  std::vector<TokenId> tokens_;
  std::vector<RowStatus> status_;
  std::vector<std::unique_ptr<SequenceGroup>> ended_;
  SteadyClock clock_;
  Metrics metrics_{{}};
  LogListener log_;
  KvEventHub hub_;
  std::shared_ptr<Sink> sink_;
};

Request MakeRequest(uint64_t id, int32_t num_prompt, int32_t num_output) {
  Request request;
  request.id = RequestId{id};
  for (int32_t i = 0; i < num_prompt; ++i) {
    request.prompt.push_back(static_cast<TokenId>(id) * 31 + i);
  }
  request.output_tokens_max = num_output;
  return request;
}

// Measures a step in which each of 256 sequences decodes one token. On average, a step fills 16
// blocks.
void DecodeStep(benchmark::State& state) {
  constexpr int32_t kRunning = 256, kPrompt = 1024, kOutput = 4096;
  const auto make = [&] {
    auto stepper = std::make_unique<Stepper>(
        KvCacheOptions{.num_blocks = kRunning * (kPrompt + kOutput) / 16 + 64},
        SchedulerOptions{.step_tokens_max = kRunning * kPrompt, .running_max = kRunning},
        static_cast<Listener>(state.range(0)));
    for (int32_t i = 0; i < kRunning; ++i) {
      stepper->Add(MakeRequest(static_cast<uint64_t>(i) + 1, kPrompt - i % 16, kOutput));
    }
    stepper->Step();
    return stepper;
  };
  auto stepper = make();
  for (auto _ : state) {
    stepper->Step();
    if (!stepper->scheduler().idle()) continue;
    state.PauseTiming();
    stepper = make();
    state.ResumeTiming();
  }
}
BENCHMARK(DecodeStep)
    ->Name("decode_step_256")
    ->ArgName("listener")
    ->Arg(kNone)
    ->Arg(kLog)
    ->Arg(kHub)
    ->Unit(benchmark::kMicrosecond);

// Measures all steps of a prompt of 4,096 tokens, 512 tokens per step. The cache is full, so each
// step evicts 32 blocks and stores 32 blocks.
void PrefillStep(benchmark::State& state) {
  Stepper stepper({.num_blocks = 10'000}, {.step_tokens_max = 512, .running_max = 16},
                  static_cast<Listener>(state.range(0)));
  uint64_t id = 0;
  for (auto _ : state) {
    state.PauseTiming();
    stepper.Add(MakeRequest(++id, 4096, 1));
    state.ResumeTiming();
    while (!stepper.scheduler().idle()) stepper.Step();
  }
  state.counters["us_per_step"] =
      benchmark::Counter(static_cast<double>(state.iterations() * 8) * 1e-6,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(PrefillStep)
    ->Name("prefill_8_steps_of_512")
    ->ArgName("listener")
    ->Arg(kNone)
    ->Arg(kLog)
    ->Arg(kHub)
    ->Unit(benchmark::kMicrosecond);

// Fills a cache of `num_blocks` blocks with prompts of 1,024 tokens.
void Fill(Stepper& stepper, int32_t num_blocks) {
  for (int32_t i = 1; i <= num_blocks / 64; ++i) {
    stepper.Add(MakeRequest(static_cast<uint64_t>(i) * 1000, 1024, 1));
    while (!stepper.scheduler().idle()) stepper.Step();
  }
}

// Measures the time that the cache needs to report 256 of 100,000 cached blocks to a new listener.
// The engine reports at most 256 blocks in one step.
void ReportPart(benchmark::State& state) {
  constexpr int32_t kBlocks = 100'000;
  Stepper stepper({.num_blocks = kBlocks}, {.step_tokens_max = 1024, .running_max = 16}, kNone);
  Fill(stepper, kBlocks);
  int32_t num_left = 0;
  for (auto _ : state) {
    if (num_left-- == 0) {
      state.PauseTiming();
      stepper.cache().Listen({});
      num_left = kBlocks / static_cast<int32_t>(CacheReporter::kVisitsMax) - 30;
      state.ResumeTiming();
    }
    stepper.cache().ReportCached(CacheReporter::kVisitsMax);
    stepper.cache().ClearEvents();
  }
}
BENCHMARK(ReportPart)->Name("report_part_of_100k_blocks")->Unit(benchmark::kMicrosecond);

// Measures the time per cached block to prepare the event that reports the block to gateways. The
// time includes adding the block to the server's list of cached blocks.
void FeedBlocks(benchmark::State& state) {
  constexpr int32_t kBlocks = 100'000;
  Stepper stepper({.num_blocks = kBlocks}, {.step_tokens_max = 1024, .running_max = 16}, kNone);
  Fill(stepper, kBlocks);
  const KvSnapshot snapshot = stepper.cache().Snapshot();
  int64_t num_blocks = 0;
  for (auto _ : state) {
    KvEventFeed feed(16, 16 << 20, 0);
    const KvEvent start[] = {{.kind = KvEvent::Kind::kRestarted},
                             {.kind = KvEvent::Kind::kComplete}};
    static_cast<void>(feed.Apply({.events = start, .tokens = {}}));
    static_cast<void>(feed.Apply({.events = snapshot.events, .tokens = snapshot.tokens}));
    num_blocks += static_cast<int64_t>(snapshot.events.size());
  }
  state.SetItemsProcessed(num_blocks);
}
BENCHMARK(FeedBlocks)->Name("feed_100k_blocks")->Unit(benchmark::kMillisecond);

// Measures the time that the server needs to build the messages that report 100,000 cached blocks
// to a new gateway.
void MakeSnapshots(benchmark::State& state) {
  constexpr int32_t kBlocks = 100'000;
  Stepper stepper({.num_blocks = kBlocks}, {.step_tokens_max = 1024, .running_max = 16}, kNone);
  Fill(stepper, kBlocks);
  const KvSnapshot snapshot = stepper.cache().Snapshot();
  KvMirror mirror(16);
  for (const KvEvent& event : snapshot.events) {
    mirror.Store(event, std::span(snapshot.tokens).subspan(event.tokens_begin, 16));
  }
  size_t num_bytes = 0, num_messages = 0;
  for (auto _ : state) {
    const auto messages = MakeSnapshot(mirror, 1 << 20);
    num_messages = messages->messages.size();
    num_bytes = 0;
    for (const KvMessage& message : messages->messages) num_bytes += message->size();
  }
  state.counters["messages"] = static_cast<double>(num_messages);
  state.counters["MB"] = static_cast<double>(num_bytes) * 1e-6;
}
BENCHMARK(MakeSnapshots)->Name("snapshot_of_100k_blocks")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace incipit

BENCHMARK_MAIN();
