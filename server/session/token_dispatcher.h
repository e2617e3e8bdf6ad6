// From the engine's events to the clients' sessions: one thread turns token ids into text and hands
// it on, so that the engine never waits for text, a lock or a client.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/types.h"
#include "engine/engine.h"
#include "server/metrics/metrics.h"
#include "server/session/checked_request.h"
#include "server/session/output_choice.h"
#include "server/session/session.h"
#include "server/session/stall_watch.h"
#include "server/session/wait_estimate.h"

namespace incipit {

// A request in the engine, as its output needs it.
struct PendingOutput {
  std::shared_ptr<Session> session;
  OutputOptions options;
  int32_t num_choices = 1;
  int32_t num_prompt_tokens = 0;
  bool after_prompt = true;  // as in Detokenizer
  bool reads_cache = true;
};

struct DispatcherOptions {
  const Tokenizer* tokenizer = nullptr;  // null: outputs are ids only
  Duration write_stall_timeout{};
  int64_t output_queue_bytes_max = 512 << 20;              // of what clients have not taken
  std::function<void(const absl::Status&)> on_fatal = {};  // on the dispatcher's thread
};

// Every call but the listener's is thread-safe.
class TokenDispatcher final : public EngineListener {
 public:
  // `clock` and `metrics` outlive it.
  TokenDispatcher(DispatcherOptions options, const Clock& clock, Metrics& metrics);
  ~TokenDispatcher() override;

  // Before the first Add. `engine` outlives the call of Stop.
  void Attach(Engine& engine) { engine_.store(&engine); }
  // Handles what has been delivered; what comes later is dropped. Idempotent, of one thread.
  void Stop();

  // Called before the engine is given the request. If the engine does not take the request, the
  // caller calls Remove and ends the session.
  void Add(RequestId id, PendingOutput output);
  void Remove(RequestId id);
  // Cancels every request; their calls end with `status`.
  void CancelAll(absl::Status status);

  const WaitEstimate& wait() const { return wait_; }

  // Of the steps so far.
  Duration step_longest() const { return Duration(step_longest_.load()); }

  void OnStep(const StepEvents& events) override;
  void OnFatal(const absl::Status& status) override;

 private:
  struct Call;
  struct TimedToken {
    TokenEvent event;
    Time time;
  };
  // What was delivered since the thread last looked, by kind; within a kind in order. A request is
  // added before the engine knows it, admitted before it has tokens.
  struct Inbox {
    std::vector<std::pair<RequestId, PendingOutput>> added;
    std::vector<AdmissionEvent> admissions;
    std::vector<PromptLogprobsEvent> prompt_logprobs_events;
    std::vector<TimedToken> tokens;
    std::vector<RequestId> removed;
    Logprobs logprobs, prompt_logprobs;
    std::optional<absl::Status> cancel_all, fatal;

    bool empty() const;
    void Clear();
  };
  void Work();
  void Handle(Inbox& batch);
  void HandleAdmission(const AdmissionEvent& event);
  void HandlePromptLogprobs(const PromptLogprobsEvent& event, const Logprobs& logprobs);
  void HandleToken(const TimedToken& token, const Logprobs& logprobs);
  void HandleCancelAll(const absl::Status& status);
  void Flush();
  void CountGenerated();
  void SendPart(Call& call);
  void Finish(RequestId id, Call& call);
  static OutputUsage UsageOf(const Call& call, Time now);
  void CountFinish(const Call& call, Time now);
  void CheckStalls(Time now);
  // Abandons the sessions with the most waiting output while that of all is beyond its limit.
  void BoundWaitingOutput();
  // Cancels the request and drops its output.
  void Abandon(Call& call, absl::Status status);
  void Touch(Call& call);
  Call* Find(RequestId id);

  const DispatcherOptions options_;
  const Clock& clock_;
  Metrics& metrics_;
  std::atomic<Engine*> engine_{nullptr};
  WaitEstimate wait_;
  std::atomic<Duration::rep> step_longest_{0};  // written by the engine's thread

  // The thread's own.
  absl::flat_hash_map<RequestId, std::unique_ptr<Call>> calls_;
  std::vector<Call*> touched_;
  int64_t num_generated_ = 0;  // output tokens that are not yet counted
  int64_t waiting_bytes_ = 0;  // of output, at most: what clients took since the last sum counts
  StallWatch stalls_;
  Time stall_check_{};
  Time busy_since_{};

  Mutex mutex_;
  std::condition_variable_any changed_;
  Inbox inbox_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace incipit
