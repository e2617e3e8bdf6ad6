// The engine loop: the implementation of Engine. Only engine.cpp and engine_loop.cpp include this
// header.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "engine/arrival_pause.h"
#include "engine/batch.h"
#include "engine/cache_reporter.h"
#include "engine/engine.h"
#include "engine/inbox.h"
#include "engine/published_load.h"

namespace incipit {

// Runs the engine thread. mutex_ guards the members that other threads access, except constants and
// atomics. The engine thread does not hold mutex_ while it calls the model runner or the listener.
class Engine::Loop {
 public:
  Loop(const EngineOptions& options, std::unique_ptr<ModelRunner> runner, EngineListener& listener,
       const Clock& clock, PrefixTier* tier);
  ~Loop();

  absl::Status Submit(std::shared_ptr<const Request> request);
  void Cancel(CancelOrder order);
  absl::Status ResetPrefixCache(std::function<void(bool)> done);
  absl::Status PreviewAdmission(std::shared_ptr<const Request> request,
                                std::function<void(const AdmissionPreview&)> done);
  void Order(const CacheOrders& orders);
  bool Drain(Time deadline);
  absl::Status Resume();
  EngineLoad Load() const;
  std::optional<Duration> expected_wait() const { return wait_.value(); }
  Time heartbeat() const;

 private:
  // A request from Submit until its last event is emitted. `queued` is true after Submit has put
  // the request into the inbox.
  struct Live {
    // Bit i is 1 if choice i was cancelled. A second cancellation of a choice (output) is ignored.
    uint32_t cancelled_choices = 0;
    bool queued = false;
  };

  absl::Status Reserve(const Request& request, Time now) ABSL_LOCKS_EXCLUDED(mutex_);
  Time RealTimeOf(Time time) const;
  absl::Status Refusal() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  SequenceGroups TakeEnded() ABSL_LOCKS_EXCLUDED(mutex_);

  void Run();
  void DrainToTier() ABSL_LOCKS_EXCLUDED(mutex_);
  void AwaitTierRoom() ABSL_LOCKS_EXCLUDED(mutex_);
  bool TakeInbox() ABSL_LOCKS_EXCLUDED(mutex_);
  void PauseForArrivals() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WaitForWork() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wake() ABSL_LOCKS_EXCLUDED(mutex_);
  void EmptyInbox() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ApplyInbox();
  void ReplyToResets();
  void ReplyToPreviews();
  void Step();
  absl::Status TryStep(bool& stepped);
  absl::Status BeginStep();
  absl::Status EndStep();
  void TakeBack(int32_t num_waited);
  void Fail(const absl::Status& status);
  void EndEverything(FinishReason reason);
  void EmitIfAny(bool stepped);
  void EmitEvents(bool stepped);
  bool HasRoomForArrivals() const;
  void RecordLoad() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const EngineOptions options_;
  const Clock& clock_;
  EngineListener& listener_;

  KvCacheManager cache_;
  PrefixTier* const tier_;  // null: no tier
  Scheduler scheduler_;
  CacheReporter reporter_;
  std::unique_ptr<ModelRunner> runner_;
  // The data of one step, from planning until commit. The model runner reads the data, so the data
  // must not change before the commit.
  struct StepInFlight {
    StepPlan plan;
    BatchBuilder batch;
    StepStats stats;
    Time launched_at{};
  };
  // Returns the data of one of the steps in flight. `index` is 0 for the oldest step. If `index`
  // equals the number of steps in flight, returns the data for a new step.
  StepInFlight& StepAt(int32_t index) {
    return steps_[(oldest_ + static_cast<size_t>(index)) % steps_.size()];
  }
  std::array<StepInFlight, kStepsInFlightMax> steps_;
  size_t oldest_ = 0;
  Time done_at_{};  // time when the device completed the previous step
  // Statistics of a step that failed and was rolled back. The statistics of the next step include
  // them.
  StepStats taken_back_;
  // Time for which the engine waited for new requests before the next step.
  Duration paused_{};
  StepResult result_;
  // Empty log probabilities, for events that are emitted without a step.
  const Logprobs no_logprobs_;
  StepStats stats_;
  EngineInbox taken_;
  // For each waiting cache reset: the function to call with its result.
  std::vector<std::function<void(bool)>> resets_;
  bool failed_ = false;
  // True if all requests wait for loads from the tier, so that no step could be planned.
  bool waits_for_tier_ = false;

  mutable Mutex mutex_;
  std::condition_variable_any work_arrived_, drained_;
  EngineInbox inbox_ ABSL_GUARDED_BY(mutex_);
  ArrivalPause pause_ ABSL_GUARDED_BY(mutex_);
  size_t num_resets_ ABSL_GUARDED_BY(mutex_) = 0;  // number of cache resets that wait for execution
  // Number of waiting admission previews (predictions of the blocks that a request needs),
  // including previews whose prompt is being hashed.
  size_t num_previews_ ABSL_GUARDED_BY(mutex_) = 0;
  // Requests (sequence groups) that have ended, for the next call of TakeEnded.
  SequenceGroups ended_ ABSL_GUARDED_BY(mutex_);
  int64_t inbox_prompt_tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<RequestId, Live> live_ ABSL_GUARDED_BY(mutex_);
  EngineLoad load_ ABSL_GUARDED_BY(mutex_);
  PublishedWait wait_;  // the caller must hold mutex_, except for value()
  HitRatioMonitor hit_ratios_ ABSL_GUARDED_BY(mutex_);
  bool publishing_ ABSL_GUARDED_BY(mutex_) = false;
  // True if a step may be in flight (launched and not committed).
  bool computing_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // True if a load from the tier or a store to the tier has ended since the latest call of
  // WaitForWork.
  bool tier_changed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status fatal_ ABSL_GUARDED_BY(mutex_);
  // Time when the engine loop last made progress. Stored before idle_ becomes false.
  std::atomic<Time> progress_;
  std::atomic<bool> idle_ = true;

  std::thread thread_;  // declared last, because the thread uses all other members
};

}  // namespace incipit
