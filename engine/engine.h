// The engine: accepts requests from any thread, runs scheduler and model on one engine thread, and
// reports the results of each step to a listener. The engine handles token ids only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/types.h"
#include "engine/cache_reporter.h"
#include "engine/model_runner.h"
#include "engine/step_stats.h"
#include "kvcache/hit_ratio_monitor.h"
#include "kvcache/kv_cache_manager.h"
#include "scheduler/request.h"
#include "scheduler/scheduler.h"

namespace incipit {

struct StepEvents {
  std::span<const AdmissionEvent> admissions;
  std::span<const PromptLogprobsEvent> prompt_logprobs_events;
  std::span<const TokenEvent> tokens;
  const Logprobs& logprobs;
  const Logprobs& prompt_logprobs;
  const StepStats& stats;
};

// Receives the events of the engine. The engine thread calls OnStep and OnFatal, so these functions
// must return quickly and must not block. The views in StepEvents are valid only during the call.
class EngineListener {
 public:
  virtual ~EngineListener() = default;
  virtual void OnStep(const StepEvents& events) = 0;
  // Reports that the engine has failed with `status`. The engine has already ended each request
  // with the finish reason kError, and never calls the listener again.
  virtual void OnFatal(const absl::Status& status) = 0;
};

// Figures about the load of the engine. The figures are at most one step old.
struct EngineLoad {
  int32_t num_running = 0, num_waiting = 0;
  int64_t num_waiting_prompt_tokens = 0;
  int32_t num_blocks = 0, num_used_blocks = 0, num_cached_blocks = 0;
  // Number of cached blocks with a retention hint (a client's request to keep blocks).
  int32_t num_retained_blocks = 0;
  int32_t block_size = 0;
  // draining: new requests are refused. failed: a fatal error has stopped the engine; `failed`
  // never becomes false again.
  bool draining = false, failed = false;
  // Predicted time from the arrival of an average request to its first token, if the request
  // arrived now. nullopt: too few steps are measured (StepTimeModel::knows_prompts).
  std::optional<Duration> expected_wait;
  HitRatios hit_ratios;  // hit ratios of the prefix cache in the last minute, ten minutes and hour
  SchedulerFigures scheduler;
};

struct EngineOptions {
  SchedulerOptions scheduler;
  KvCacheOptions cache;
  int32_t requests_max = 1024;  // maximum number of waiting and running requests
  // Maximum number of prompt tokens of all waiting requests together. A longer prompt is accepted
  // only while no request waits.
  int64_t waiting_prompt_tokens_max = 4'000'000;
  // Maximum time, at the end of the engine, in which cached chunks that the tier lacks are copied
  // to the tier. 0: these chunks are not copied.
  Duration tier_drain_max{};
  // Maximum time in which the engine waits for new requests after a step in which requests ended
  // (ArrivalPause). 0: the engine does not wait.
  Duration arrival_pause_max = std::chrono::milliseconds(10);
};

// Maximum number of admission previews (predictions of the blocks that a request needs) that wait
// for the engine thread. The limit bounds the memory for the prompts of these previews.
inline constexpr size_t kPreviewsMax = 64;
// Maximum number of prefix-cache resets that wait for the engine thread.
inline constexpr size_t kResetsMax = 64;

class Engine {
 public:
  // `listener`, `clock` and `tier` must outlive the engine. `tier` may be null: no tier.
  Engine(EngineOptions options, std::unique_ptr<ModelRunner> runner, EngineListener& listener,
         const Clock& clock, PrefixTier* tier = nullptr);
  // Stops the engine thread. All waiting and running requests end with the finish reason
  // kCancelled. Then copies the cached chunks that the tier lacks to the tier, most valuable first,
  // for at most EngineOptions::tier_drain_max.
  ~Engine();

  // Submits a request. Thread-safe; does not block; hashes the prompt on the calling thread. If the
  // result is OK, the listener later receives the end of each choice (output) of the request. If
  // the result is an error, the listener receives nothing about the request.
  //
  // Errors: INVALID_ARGUMENT if the request is invalid or can never fit into the cache.
  // RESOURCE_EXHAUSTED if a limit of EngineOptions is reached; LimitOf returns the limit.
  // UNAVAILABLE if the engine is draining, stopping or has failed. DEADLINE_EXCEEDED if the
  // deadline of the request has passed. ALREADY_EXISTS if another request has the same id.
  absl::Status Submit(std::shared_ptr<const Request> request);

  // Cancels all choices (outputs) of a request. Thread-safe and idempotent; an unknown id has no
  // effect. The listener still receives the events of steps in flight. Each choice that has not
  // ended yet ends with the finish reason kCancelled.
  void Cancel(RequestId id);
  // Cancels one choice (output) of a request. Thread-safe and idempotent, like Cancel.
  void CancelChoice(RequestId id, int32_t choice);

  // Requests that the engine empties the prefix cache. Thread-safe. If the result is OK, the engine
  // thread later calls `done`. The argument of `done` is true if the cache was emptied, and false
  // if blocks were in use or the engine has failed. Errors: RESOURCE_EXHAUSTED if kResetsMax resets
  // already wait. UNAVAILABLE if the engine is stopping.
  absl::Status ResetPrefixCache(std::function<void(bool)> done);

  // Predicts how many blocks `request` would find, need and evict if `request` were admitted next.
  // Thread-safe; hashes the prompt on the calling thread. After the present step, the engine thread
  // calls `done` with the prediction. Errors: INVALID_ARGUMENT if the request is invalid or can
  // never fit into the cache. RESOURCE_EXHAUSTED if kPreviewsMax previews already wait. UNAVAILABLE
  // if the engine is stopping.
  absl::Status PreviewAdmission(std::shared_ptr<const Request> request,
                                std::function<void(const AdmissionPreview&)> done);

  // Requests reports about the blocks that are added to and removed from the prefix cache. The
  // engine sends the reports to `listener`, only for blocks of the default tenant without salt,
  // adapter and image. The first event is kRestarted. If `listener` is null, the engine stops the
  // reports. Thread-safe. REQUIRES: `listener` outlives the engine.
  void ListenToCache(KvEventListener* listener);
  // Requests reports about blocks that were cached before the call of ListenToCache. Each call of
  // ReportCached leads to reports about at most CacheReporter::kVisitsMax blocks that were not
  // reported before. The reports end with the event kMoreCached (not all blocks are reported yet)
  // or kComplete. Thread-safe.
  void ReportCached();

  // Refuses new requests until Resume is called, and waits until all requests have ended. Returns
  // false if requests are left at `deadline`.
  bool Drain(Time deadline);
  // Accepts new requests again after Drain. Returns FAILED_PRECONDITION if the engine has failed or
  // is stopping.
  absl::Status Resume();

  EngineLoad Load() const;  // returns the present load of the engine; thread-safe
  // Returns EngineLoad::expected_wait. Thread-safe; takes no lock.
  std::optional<Duration> expected_wait() const;
  // Returns the time when the engine thread last made progress. If the engine thread is idle,
  // returns the present time. Thread-safe.
  Time heartbeat() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace incipit
