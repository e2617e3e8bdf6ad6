// Passes the events of the engine to the sessions. A separate thread converts token ids to text and
// writes the text to the sessions. The engine therefore never waits for text work or for a client.
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

// The properties of a submitted request that its output depends on.
struct PendingOutput {
  std::shared_ptr<Session> session;
  OutputOptions options;
  int32_t num_choices = 1;
  int32_t num_prompt_tokens = 0;
  bool after_prompt = true;  // true if the prompt has text before the output (see Detokenizer)
  bool reads_cache = true;   // true if the request may use cached prefixes
};

struct DispatcherOptions {
  const Tokenizer* tokenizer = nullptr;  // null: outputs have token ids and no text
  Duration write_stall_timeout{};
  // Maximum estimated size of the output that waits for clients, in bytes.
  int64_t output_queue_bytes_max = 512 << 20;
  std::function<void(const absl::Status&)> on_fatal = {};  // called on the dispatcher thread
};

// All functions are thread-safe except OnStep and OnFatal, which only the engine thread calls.
class TokenDispatcher final : public EngineListener {
 public:
  // `clock` and `metrics` must outlive the dispatcher.
  TokenDispatcher(DispatcherOptions options, const Clock& clock, Metrics& metrics);
  ~TokenDispatcher() override;

  // Sets the engine. Must be called before the first Add. `engine` must exist until Stop returns.
  void Attach(Engine& engine) { engine_.store(&engine); }
  // Handles the events delivered so far, then ends the thread. Later events are ignored.
  // Idempotent. Must always be called by the same thread.
  void Stop();

  // Registers a request. Must be called before Engine::Submit. If Submit returns an error, the
  // caller must call Remove and end the session.
  void Add(RequestId id, PendingOutput output);
  void Remove(RequestId id);
  // Cancels all requests. The calls of the requests end with `status`.
  void CancelAll(absl::Status status);

  // Returns the estimate of the time in the queue.
  const WaitEstimate& wait() const { return wait_; }

  // Returns the longest `run` time of all steps so far.
  Duration step_longest() const { return Duration(step_longest_.load()); }

  void OnStep(const StepEvents& events) override;
  void OnFatal(const absl::Status& status) override;

 private:
  struct Call;
  struct TimedToken {
    TokenEvent event;
    Time time;
  };
  // Events that the dispatcher thread has not handled yet, by kind. Events of one kind are in
  // order. A request is in `added` before its admission event, and has its admission event before
  // its tokens.
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
  // Abandons the sessions with the most waiting output until the waiting output of all sessions is
  // within `output_queue_bytes_max`.
  void BoundWaitingOutput();
  // Ends the session of `call` with `status`, discards the waiting output and cancels the request
  // in the engine.
  void Abandon(Call& call, absl::Status status);
  void Touch(Call& call);
  Call* Find(RequestId id);

  const DispatcherOptions options_;
  const Clock& clock_;
  Metrics& metrics_;
  std::atomic<Engine*> engine_{nullptr};
  WaitEstimate wait_;
  // Longest `run` time of all steps so far. Written by the engine thread.
  std::atomic<Duration::rep> step_longest_{0};

  // The following members are used by the dispatcher thread only.
  absl::flat_hash_map<RequestId, std::unique_ptr<Call>> calls_;
  std::vector<Call*> touched_;
  int64_t num_generated_ = 0;  // output tokens that `metrics_` has not counted yet
  // Upper bound of the estimated size of the output that waits in all sessions, in bytes. Output
  // that clients have read since the last exact sum is still included.
  int64_t waiting_bytes_ = 0;
  StallWatch stalls_;
  Time stall_check_{};  // time of the next check for stalled clients
  // Time of the last end of a request, or of the first request after a time without requests.
  Time busy_since_{};

  Mutex mutex_;
  std::condition_variable_any changed_;
  Inbox inbox_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace incipit
