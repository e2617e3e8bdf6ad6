// The loop: takes requests from any thread, runs scheduler and model on one thread of its own, and
// tells a listener what each step gave. Speaks token ids only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/types.h"
#include "engine/model_runner.h"
#include "kvcache/hit_ratio_monitor.h"
#include "kvcache/kv_cache_manager.h"
#include "scheduler/request.h"
#include "scheduler/scheduler.h"

namespace incipit {

struct StepStats {
  Time begin{};
  // With two steps in flight the device computes during `plan` and `commit` as well, and `run` goes
  // from when the step before was done.
  Duration plan{}, run{}, commit{};
  int32_t num_tokens = 0;          // computed in this step
  int32_t num_prefill_tokens = 0;  // of them, of prompts (recomputed ones included)
  int32_t num_decode_tokens = 0;
  int32_t num_running = 0, num_waiting = 0;
  int32_t num_preemptions = 0;                                         // in this step
  int32_t num_blocks = 0, num_used_blocks = 0, num_cached_blocks = 0;  // cached: free with a hash
  int32_t num_retained_blocks = 0;  // of the cached, kept or given up by a request's wish
  KvCacheStats cache;               // counters since the last step
};

struct StepEvents {
  std::span<const AdmissionEvent> admissions;
  std::span<const PromptLogprobsEvent> prompt_logprobs_events;
  std::span<const TokenEvent> tokens;
  const Logprobs& logprobs;
  const Logprobs& prompt_logprobs;
  const StepStats& stats;
};

// Called on the engine thread; returns at once and never blocks. Views are valid during the call.
class EngineListener {
 public:
  virtual ~EngineListener() = default;
  virtual void OnStep(const StepEvents& events) = 0;
  // Every request has been failed (their kError events came before). Nothing more will come.
  virtual void OnFatal(const absl::Status& status) = 0;
};

// A snapshot, at most one step old.
struct EngineLoad {
  int32_t num_running = 0, num_waiting = 0;
  int64_t num_waiting_prompt_tokens = 0;
  int32_t num_blocks = 0, num_used_blocks = 0, num_cached_blocks = 0;
  int32_t num_retained_blocks = 0;  // of the cached
  int32_t block_size = 0;
  bool draining = false, failed = false;  // the latter for good, and perhaps while draining
  HitRatios hit_ratios;                   // of the prefix cache, up to now
};

struct EngineOptions {
  SchedulerOptions scheduler;
  KvCacheOptions cache;
  int32_t requests_max = 1024;  // waiting and running
  int64_t waiting_prompt_tokens_max =
      4'000'000;  // in the queue; a request is never refused when it is empty
};

// Previews that may be under way; each holds its prompt until the step that runs has ended.
inline constexpr size_t kPreviewsMax = 64;
inline constexpr size_t kResetsMax = 64;  // maximum number of resets that wait for their outcome

class Engine {
 public:
  // `listener` and `clock` outlive the engine.
  Engine(EngineOptions options, std::unique_ptr<ModelRunner> runner, EngineListener& listener,
         const Clock& clock);
  // Stops the thread; what is still in flight ends as kCancelled.
  ~Engine();

  // Thread-safe, does not block; hashes the prompt on the calling thread. The listener hears of the
  // request only after OK, and then always of the end of each of its choices.
  // INVALID_ARGUMENT: can never fit the cache. RESOURCE_EXHAUSTED: a limit above is reached.
  // UNAVAILABLE: draining or stopped. DEADLINE_EXCEEDED: the deadline has passed.
  //
  // The engine thread never frees a request, because a prompt may be megabytes. The next call of
  // Submit or PreviewAdmission, or the destructor, frees the requests that have ended. So no more
  // is kept than was live at the last such call.
  absl::Status Submit(std::shared_ptr<const Request> request);

  // Thread-safe, idempotent, harmless for an unknown id. Events already under way still arrive; the
  // last one of each choice is kCancelled unless it finished first.
  void Cancel(RequestId id);
  void CancelChoice(RequestId id, int32_t choice);

  // Thread-safe. After OK `done` is called on the engine thread: true if the cache was emptied,
  // false if blocks were in use. RESOURCE_EXHAUSTED: kResetsMax wait already. UNAVAILABLE: stopped.
  absl::Status ResetPrefixCache(std::function<void(bool)> done);

  // Thread-safe; hashes the prompt on the calling thread. `done` is called on the engine thread,
  // after the step that runs, with what admitting the request would take then, as if it were the
  // next. INVALID_ARGUMENT: can never fit the cache. RESOURCE_EXHAUSTED: kPreviewsMax are under
  // way. UNAVAILABLE: stopped.
  absl::Status PreviewAdmission(std::shared_ptr<const Request> request,
                                std::function<void(const AdmissionPreview&)> done);

  // Refuses new requests until Resume; true when none are left, false at the deadline.
  bool Drain(Time deadline);
  // Takes new requests again after Drain. FAILED_PRECONDITION if the engine has failed or stops.
  absl::Status Resume();

  EngineLoad Load() const;  // thread-safe
  Time heartbeat() const;   // thread-safe; when the loop last made progress or was idle

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace incipit
