// Fixture of the engine tests: an engine over the fake model, a listener that records events, and a
// runner whose steps the test can block.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "engine/engine.h"
#include "tests/support/fake_runner.h"
#include "tests/support/manual_clock.h"

namespace incipit {

// Records the events of all steps. Thread-safe.
class RecordingListener final : public EngineListener {
 public:
  struct Output {
    std::vector<TokenId> tokens;
    std::optional<FinishReason> finish;
  };

  void OnStep(const StepEvents& events) override {
    MutexLock lock(mutex_);
    last_stats_ = events.stats;
    num_preemptions_ += events.stats.scheduler.num_preemptions();
    for (const AdmissionEvent& event : events.admissions) admissions_[event.request] = event;
    for (const PromptLogprobsEvent& event : events.prompt_logprobs_events) {
      for (int32_t row = event.first_row; row < event.first_row + event.num_rows; ++row) {
        prompt_logprobs_[event.request].push_back(
            events.prompt_logprobs.chosen[static_cast<size_t>(row)]);
      }
    }
    for (const TokenEvent& event : events.tokens) Receive(event, events.logprobs);
    changed_.notify_all();
  }
  void OnFatal(const absl::Status& status) override {
    MutexLock lock(mutex_);
    fatal_ = status;
    changed_.notify_all();
  }

  // Waits until the choices [0, choices) of request `id` have ended.
  void WaitForEnd(uint64_t id, int32_t choices = 1) {
    MutexLock lock(mutex_);
    for (int32_t choice = 0; choice < choices; ++choice) {
      while (!outputs_[{RequestId{id}, choice}].finish) changed_.wait(mutex_);
    }
  }
  void WaitForTokens(uint64_t id, size_t count) {
    MutexLock lock(mutex_);
    while (outputs_[{RequestId{id}, 0}].tokens.size() < count) changed_.wait(mutex_);
  }
  absl::Status WaitForFatal() {
    MutexLock lock(mutex_);
    while (fatal_.ok()) changed_.wait(mutex_);
    return fatal_;
  }

  Output OutputOf(uint64_t id, int32_t choice = 0) {
    MutexLock lock(mutex_);
    return outputs_[{RequestId{id}, choice}];
  }
  AdmissionEvent AdmissionOf(uint64_t id) {
    MutexLock lock(mutex_);
    return admissions_[RequestId{id}];
  }
  std::vector<TokenLogprob> PromptLogprobsOf(uint64_t id) {
    MutexLock lock(mutex_);
    return prompt_logprobs_[RequestId{id}];
  }
  StepStats last_stats() {
    MutexLock lock(mutex_);
    return last_stats_;
  }
  int64_t num_preemptions() {
    MutexLock lock(mutex_);
    return num_preemptions_;
  }
  int64_t num_events_after_end() {
    MutexLock lock(mutex_);
    return num_events_after_end_;
  }

 private:
  void Receive(const TokenEvent& event, const Logprobs& logprobs)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Output& output = outputs_[{event.request, event.choice}];
    if (output.finish) ++num_events_after_end_;
    if (event.token >= 0) output.tokens.push_back(event.token);
    if (event.finish) output.finish = event.finish;
    if (event.logprobs_row >= logprobs.num_rows()) ++num_events_after_end_;
  }

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::pair<RequestId, int32_t>, Output> outputs_ ABSL_GUARDED_BY(mutex_);
  std::map<RequestId, AdmissionEvent> admissions_ ABSL_GUARDED_BY(mutex_);
  std::map<RequestId, std::vector<TokenLogprob>> prompt_logprobs_ ABSL_GUARDED_BY(mutex_);
  StepStats last_stats_ ABSL_GUARDED_BY(mutex_);
  absl::Status fatal_ ABSL_GUARDED_BY(mutex_);
  int64_t num_preemptions_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t num_events_after_end_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Lets a test block the steps of a runner and set their statuses. Thread-safe.
class StepGate {
 public:
  // Blocks each later step until Pass or Open is called.
  void Close() {
    MutexLock lock(mutex_);
    num_allowed_ = 0;
  }
  void Pass(int64_t steps) {
    MutexLock lock(mutex_);
    num_allowed_ += steps;
    changed_.notify_all();
  }
  void Open() {
    MutexLock lock(mutex_);
    num_allowed_ = kOpen;
    changed_.notify_all();
  }
  // Sets the statuses of the next steps, in order. Later steps succeed.
  void Fail(std::vector<absl::Status> statuses) {
    MutexLock lock(mutex_);
    statuses_ = std::move(statuses);
  }
  // Waits until a step is blocked at the closed gate. A step that was blocked before the previous
  // call of WaitForStep returned does not count.
  void WaitForStep() {
    MutexLock lock(mutex_);
    while (num_blocked_ == num_seen_) changed_.wait(mutex_);
    num_seen_ = num_blocked_;
  }

  absl::Status Enter() {
    MutexLock lock(mutex_);
    num_blocked_ += num_allowed_ == 0;
    changed_.notify_all();
    while (num_allowed_ == 0) changed_.wait(mutex_);
    if (num_allowed_ != kOpen) --num_allowed_;
    if (statuses_.empty()) return absl::OkStatus();
    const absl::Status status = statuses_.front();
    statuses_.erase(statuses_.begin());
    return status;
  }

 private:
  static constexpr int64_t kOpen = std::numeric_limits<int64_t>::max();

  Mutex mutex_;
  std::condition_variable_any changed_;
  int64_t num_allowed_ ABSL_GUARDED_BY(mutex_) = kOpen;
  int64_t num_blocked_ ABSL_GUARDED_BY(mutex_) = 0, num_seen_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<absl::Status> statuses_ ABSL_GUARDED_BY(mutex_);
};

class GatedRunner final : public FakeRunner {
 public:
  GatedRunner(const FakeRunnerOptions& options, StepGate& gate)
      : FakeRunner(options), gate_(gate) {}

 private:
  absl::Status Begin() override { return gate_.Enter(); }

  StepGate& gate_;
};

struct EngineFixture {
  // `tier` may be null.
  explicit EngineFixture(EngineOptions options = DefaultOptions(), bool asynchronous = false,
                         PrefixTier* tier = nullptr) {
    const FakeRunnerOptions runner = {.num_blocks = options.cache.num_blocks,
                                      .block_size = options.cache.block_size,
                                      .asynchronous = asynchronous};
    engine = std::make_unique<Engine>(options, std::make_unique<GatedRunner>(runner, gate),
                                      listener, clock, tier);
  }
  ~EngineFixture() { gate.Open(); }

  static EngineOptions DefaultOptions() {
    EngineOptions options;
    options.scheduler = {.step_tokens_max = 64, .running_max = 8};
    options.cache = {.num_blocks = 64, .block_size = 4};
    return options;
  }
  static Request Ask(uint64_t id, int32_t num_prompt, int32_t num_output) {
    Request request;
    request.id = RequestId{id};
    for (int32_t i = 0; i < num_prompt; ++i) {
      request.prompt.push_back(static_cast<TokenId>(id % 3) + i);
    }
    request.output_tokens_max = num_output;
    return request;
  }
  absl::Status Submit(Request request) {
    return engine->Submit(std::make_shared<const Request>(std::move(request)));
  }
  absl::Status Preview(Request request, std::function<void(const AdmissionPreview&)> done) {
    return engine->PreviewAdmission(std::make_shared<const Request>(std::move(request)),
                                    std::move(done));
  }
  // Returns the output of the fake model for `request`, without stop tokens or penalties. No other
  // request runs.
  static std::vector<TokenId> Expected(const Request& request, int32_t choice = 0) {
    const FakeModel model(FakeRunnerOptions{}.vocab);
    std::vector<TokenId> tokens = request.prompt;
    for (int32_t i = 0; i < request.output_tokens_max; ++i) {
      const StepSample sample = {.params = &request.sampling,
                                 .choice = choice,
                                 .position = static_cast<int64_t>(tokens.size())};
      tokens.push_back(model.Sample(FakeModel::Row(tokens), sample));
    }
    return {tokens.end() - request.output_tokens_max, tokens.end()};
  }

  ManualClock clock;
  RecordingListener listener;
  StepGate gate;
  // Declared last: the engine thread uses the other members.
  std::unique_ptr<Engine> engine;
};

}  // namespace incipit
