// Passes the output of the engine to the sessions (objects that send output to clients). A separate
// thread converts token ids to text, so the engine waits neither for text work nor for clients.
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
#include "server/session/output_choice.h"
#include "server/session/request/checked_request.h"
#include "server/session/session.h"
#include "server/session/stall_watch.h"

namespace incipit {

// A submitted request: its session, and the properties that determine how its output is sent to the
// client.
struct PendingOutput {
  std::shared_ptr<Session> session;
  OutputOptions options;
  int32_t num_choices = 1;
  int32_t num_prompt_tokens = 0;
  int32_t output_tokens_max = 0;  // maximum number of output tokens of each choice
  // True if the prompt contains text. The first output token then keeps its leading space.
  bool after_prompt = true;
  bool reads_cache = true;  // true if the request may use the prefix cache
};

struct DispatcherOptions {
  const Tokenizer* tokenizer = nullptr;  // null: the model has no tokenizer, so clients get no text
  Duration write_stall_timeout{};
  // Maximum estimated size in bytes of the unread output of all clients.
  int64_t output_queue_bytes_max = 512 << 20;
  // Called on the thread of the dispatcher when the engine has failed and cannot continue.
  std::function<void(const absl::Status&)> on_fatal = {};
};

// Passes the output of the engine to the sessions (objects that send output to clients). Only the
// engine thread calls OnStep and OnFatal. All other functions are thread-safe, except Stop.
class TokenDispatcher final : public EngineListener {
 public:
  // REQUIRES: `clock` and `metrics` outlive the TokenDispatcher.
  TokenDispatcher(DispatcherOptions options, const Clock& clock, Metrics& metrics);
  ~TokenDispatcher() override;

  // Sets the engine in which the dispatcher cancels requests. Must be called before the first Add.
  // REQUIRES: `engine` exists until Stop returns.
  void Attach(Engine& engine) { engine_.store(&engine); }
  // Handles all events that the engine has reported, then ends the thread of the dispatcher. Later
  // events are ignored. A second call does nothing. All calls of Stop must be on the same thread.
  void Stop();

  // Adds a request whose output the dispatcher must send. Must be called before Engine::Submit. If
  // Submit returns an error, the caller must call Remove and end the session.
  void Add(RequestId id, PendingOutput output);
  void Remove(RequestId id);
  // Cancels all requests in the engine. The calls of clients then end with `status`.
  void CancelAll(absl::Status status);

  // Returns the estimated size in bytes of the output that waits in all sessions until clients have
  // read earlier output.
  int64_t num_waiting_bytes() const { return *waiting_bytes_; }

  // Returns the longest time of one step (the computation of one batch by the model) since the
  // start of the server.
  Duration step_longest() const { return Duration(step_longest_.load()); }

  void OnStep(const StepEvents& events) override;
  void OnFatal(const absl::Status& status) override;

 private:
  struct Call;
  struct TimedToken {
    TokenEvent event;
    Time time;
  };
  // Events that the thread of the dispatcher has not handled yet, oldest first in each list. The
  // thread handles the events of a request in this order: `added`, `admissions`, `tokens`.
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
  static RequestSizes SizesOf(const Call& call);
  void CountFinish(const Call& call, Time now);
  void CheckStalls(Time now);
  // If the unread output of all clients exceeds `output_queue_bytes_max`, ends the calls with the
  // most unread output until the limit is no longer exceeded.
  void BoundWaitingOutput();
  // Discards the unsent output of `call`, ends the session of the call with `status`, and cancels
  // the request in the engine.
  void Abandon(Call& call, absl::Status status);
  void Touch(Call& call);
  Call* Find(RequestId id);

  const DispatcherOptions options_;
  const Clock& clock_;
  Metrics& metrics_;
  std::atomic<Engine*> engine_{nullptr};
  // Longest time of one step (the computation of one batch by the model). Written by the engine
  // thread.
  std::atomic<Duration::rep> step_longest_{0};
  // Estimated size in bytes of the output that waits in all sessions. The sessions share the
  // ownership, because a session may exist longer than the dispatcher.
  const std::shared_ptr<std::atomic<int64_t>> waiting_bytes_ =
      std::make_shared<std::atomic<int64_t>>(0);

  // Only the thread of the dispatcher uses the members from `calls_` to `stall_check_`.
  absl::flat_hash_map<RequestId, std::unique_ptr<Call>> calls_;
  std::vector<Call*> touched_;
  int64_t num_generated_ = 0;  // number of output tokens that must still be added to `metrics_`
  StallWatch stalls_;
  Time stall_check_{};  // time at which the thread next looks for clients that do not read

  Mutex mutex_;
  std::condition_variable_any changed_;
  Inbox inbox_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace incipit
