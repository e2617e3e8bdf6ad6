// The engine: accepts requests from any thread, runs scheduler and model on one engine thread, and
// reports the results of each step to a listener. The engine handles token ids only.
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
  // Durations of the three parts of the step. With two steps in flight, the device also computes
  // during `plan` and `commit`. `run` begins at the later of two times: the launch of the step and
  // the end of the previous step.
  Duration plan{}, run{}, commit{};
  int32_t num_tokens = 0;          // tokens computed in this step
  int32_t num_prefill_tokens = 0;  // prompt tokens and recomputed tokens computed in this step
  int32_t num_decode_tokens = 0;
  int32_t num_running = 0, num_waiting = 0;
  int32_t num_preemptions = 0;  // sequences preempted in this step
  // Numbers of blocks: all blocks, blocks in use by sequences, and cached blocks (free blocks that
  // lookups can find).
  int32_t num_blocks = 0, num_used_blocks = 0, num_cached_blocks = 0;
  int32_t num_retained_blocks = 0;  // number of cached blocks with a retention hint
  KvCacheStats cache;               // cache counters since the previous step
};

struct StepEvents {
  std::span<const AdmissionEvent> admissions;
  std::span<const PromptLogprobsEvent> prompt_logprobs_events;
  std::span<const TokenEvent> tokens;
  const Logprobs& logprobs;
  const Logprobs& prompt_logprobs;
  const StepStats& stats;
};

// Receives the events of the engine, on the engine thread. OnStep and OnFatal must return at once
// and must not block. The views in StepEvents are valid only during the call.
class EngineListener {
 public:
  virtual ~EngineListener() = default;
  virtual void OnStep(const StepEvents& events) = 0;
  // Reports that the engine has failed with `status`. Each request has ended with the finish reason
  // kError before this call. No further call follows.
  virtual void OnFatal(const absl::Status& status) = 0;
};

// The load of the engine, at most one step old.
struct EngineLoad {
  int32_t num_running = 0, num_waiting = 0;
  int64_t num_waiting_prompt_tokens = 0;
  int32_t num_blocks = 0, num_used_blocks = 0, num_cached_blocks = 0;
  int32_t num_retained_blocks = 0;  // number of cached blocks with a retention hint
  int32_t block_size = 0;
  bool draining = false, failed = false;  // `failed` never becomes false again
  HitRatios hit_ratios;                   // hit ratios of the prefix cache, up to now
};

struct EngineOptions {
  SchedulerOptions scheduler;
  KvCacheOptions cache;
  int32_t requests_max = 1024;  // maximum number of waiting and running requests
  // Maximum number of prompt tokens that wait in the queue. If the queue is empty, a longer prompt
  // is accepted.
  int64_t waiting_prompt_tokens_max = 4'000'000;
};

// Maximum number of admission previews that wait. Each preview holds its prompt until the present
// step ends.
inline constexpr size_t kPreviewsMax = 64;
inline constexpr size_t kResetsMax = 64;  // maximum number of cache resets that wait in the engine

class Engine {
 public:
  // `listener` and `clock` must outlive the engine.
  Engine(EngineOptions options, std::unique_ptr<ModelRunner> runner, EngineListener& listener,
         const Clock& clock);
  // Stops the engine thread. Requests that have not ended end with the finish reason kCancelled.
  ~Engine();

  // Submits a request. Thread-safe; does not block; hashes the prompt on the calling thread. If the
  // result is OK, the listener later receives the end of each choice of the request. If the result
  // is an error, the listener receives nothing about the request.
  //
  // Errors: INVALID_ARGUMENT if the request is invalid or can never fit into the cache.
  // RESOURCE_EXHAUSTED if a limit of EngineOptions is reached. UNAVAILABLE if the engine is
  // draining, stopping or has failed. DEADLINE_EXCEEDED if the deadline of the request has passed.
  // ALREADY_EXISTS if another request has the same id.
  //
  // The engine thread never frees a request, because a prompt may have megabytes. The next call of
  // Submit or PreviewAdmission, or the destructor, frees the requests that have ended. Ended
  // requests therefore occupy at most the memory of the requests that were live at the last of
  // these calls.
  absl::Status Submit(std::shared_ptr<const Request> request);

  // Cancels all choices of a request. Thread-safe and idempotent; an unknown id has no effect.
  // Events of steps in flight still arrive. The last event of a choice has the finish reason
  // kCancelled, unless the choice ended before.
  void Cancel(RequestId id);
  // Cancels one choice of a request, with the same guarantees as Cancel.
  void CancelChoice(RequestId id, int32_t choice);

  // Empties the prefix cache. Thread-safe. If the result is OK, the engine thread later calls
  // `done`. `done` receives true if the cache was emptied, and false if blocks were in use or the
  // engine has failed. Errors: RESOURCE_EXHAUSTED if kResetsMax resets already wait. UNAVAILABLE if
  // the engine is stopping.
  absl::Status ResetPrefixCache(std::function<void(bool)> done);

  // Predicts the effects of an admission of `request`. Thread-safe; hashes the prompt on the
  // calling thread. After the present step, the engine thread calls `done` with the prediction, as
  // if `request` were the next request to be admitted. Errors: INVALID_ARGUMENT if the request is
  // invalid or can never fit into the cache. RESOURCE_EXHAUSTED if kPreviewsMax previews already
  // wait. UNAVAILABLE if the engine is stopping.
  absl::Status PreviewAdmission(std::shared_ptr<const Request> request,
                                std::function<void(const AdmissionPreview&)> done);

  // Refuses new requests until Resume is called. Returns true when no request is left, or false at
  // `deadline`.
  bool Drain(Time deadline);
  // Accepts new requests again after Drain. Returns FAILED_PRECONDITION if the engine has failed or
  // is stopping.
  absl::Status Resume();

  EngineLoad Load() const;  // returns the present load; thread-safe
  // Returns the time when the engine loop last made progress, or the present time if the loop is
  // idle. Thread-safe.
  Time heartbeat() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace incipit
