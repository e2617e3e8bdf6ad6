#include "engine/engine.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "base/check.h"
#include "base/limit.h"
#include "base/mutex.h"
#include "base/status.h"
#include "engine/batch.h"
#include "engine/cache_reporter.h"
#include "engine/inbox.h"
#include "engine/published_load.h"
#include "engine/request_check.h"

namespace incipit {

// Runs the engine thread. mutex_ guards the members that other threads access, except constants and
// atomics. The engine thread does not hold mutex_ while it calls the model runner or the listener.
class Engine::Loop {
 public:
  Loop(const EngineOptions& options, std::unique_ptr<ModelRunner> runner, EngineListener& listener,
       const Clock& clock);
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
  absl::Status Refusal() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  SequenceGroups TakeEnded() ABSL_LOCKS_EXCLUDED(mutex_);

  void Run();
  bool TakeInbox() ABSL_LOCKS_EXCLUDED(mutex_);
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
  void RecordLoad() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const EngineOptions options_;
  const Clock& clock_;
  EngineListener& listener_;

  KvCacheManager cache_;
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
  StepResult result_;
  // Empty log probabilities, for events that are emitted without a step.
  const Logprobs no_logprobs_;
  StepStats stats_;
  EngineInbox taken_;
  // For each waiting cache reset: the function to call with its result.
  std::vector<std::function<void(bool)>> resets_;
  bool failed_ = false;

  mutable Mutex mutex_;
  std::condition_variable_any work_arrived_, drained_;
  EngineInbox inbox_ ABSL_GUARDED_BY(mutex_);
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
  absl::Status fatal_ ABSL_GUARDED_BY(mutex_);
  // Time when the engine loop last made progress. Stored before idle_ becomes false.
  std::atomic<Time> progress_;
  std::atomic<bool> idle_ = true;

  std::thread thread_;  // declared last, because the thread uses all other members
};

Engine::Loop::Loop(const EngineOptions& options, std::unique_ptr<ModelRunner> runner,
                   EngineListener& listener, const Clock& clock)
    : options_(options),
      clock_(clock),
      listener_(listener),
      cache_(options.cache),
      scheduler_(options.scheduler, cache_),
      reporter_(cache_),
      runner_(std::move(runner)),
      progress_(clock.Now()) {
  {
    MutexLock lock(mutex_);
    RecordLoad();
  }
  thread_ = std::thread([this] { Run(); });
}

Engine::Loop::~Loop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    work_arrived_.notify_one();
  }
  thread_.join();
}

absl::Status Engine::Loop::Submit(std::shared_ptr<const Request> request) {
  // `ended` holds requests that have ended. Their memory is freed at the end of Submit, after the
  // new request is queued.
  const SequenceGroups ended = TakeEnded();
  INCIPIT_RETURN_IF_ERROR(CheckRequest(*request, cache_));
  INCIPIT_RETURN_IF_ERROR(Reserve(*request, clock_.Now()));
  const RequestId id = request->id;
  const int32_t num_prompt_tokens = request->num_prompt();
  auto group = MakeSequenceGroup(std::move(request), cache_);

  MutexLock lock(mutex_);
  if (!fatal_.ok() || stopping_) {
    inbox_prompt_tokens_ -= num_prompt_tokens;
    live_.erase(id);
    return Refusal();
  }
  Live& live = live_[id];
  live.queued = true;
  inbox_.submitted.push_back(std::move(group));
  wait_.AddRequest(num_prompt_tokens);
  for (int32_t choice = 0; choice < kChoicesMax; ++choice) {
    if (live.cancelled_choices >> choice & 1) {
      inbox_.cancelled.push_back({.id = id, .choice = choice});
    }
  }
  work_arrived_.notify_one();
  return absl::OkStatus();
}

// Checks the limits of EngineOptions for `request`, and adds the request to live_. Submit calls
// Reserve before Submit hashes the prompt.
absl::Status Engine::Loop::Reserve(const Request& request, Time now) {
  const auto num_prompt_tokens = static_cast<int64_t>(request.prompt.size());
  MutexLock lock(mutex_);
  if (!fatal_.ok() || stopping_ || load_.draining) return Refusal();
  if (request.deadline <= now)
    return DeadlineExceeded("the deadline of the request has already passed");
  if (live_.contains(request.id)) {
    return AlreadyExists("request id {} is already in use", static_cast<uint64_t>(request.id));
  }
  if (live_.size() >= static_cast<size_t>(options_.requests_max)) {
    return LimitReached(options_.requests_max, "too many requests: {} are waiting or running",
                        live_.size());
  }
  const int64_t num_waiting = inbox_prompt_tokens_ + load_.num_waiting_prompt_tokens;
  if (num_waiting > 0 && num_waiting + num_prompt_tokens > options_.waiting_prompt_tokens_max) {
    return LimitReached(
        options_.waiting_prompt_tokens_max,
        "too many waiting prompt tokens: {} of earlier requests and {} of this request",
        num_waiting, num_prompt_tokens);
  }
  inbox_prompt_tokens_ += num_prompt_tokens;
  live_.emplace(request.id, Live{});
  return absl::OkStatus();
}

SequenceGroups Engine::Loop::TakeEnded() {
  MutexLock lock(mutex_);
  return std::exchange(ended_, {});
}

absl::Status Engine::Loop::Refusal() const {
  if (!fatal_.ok()) return Unavailable("the engine has failed: {}", MessageOf(fatal_));
  if (stopping_) return Unavailable("the engine is stopping");
  return Unavailable("the engine is draining and accepts no new requests");
}

void Engine::Loop::Cancel(CancelOrder order) {
  static_assert(kChoicesMax < 32);
  const uint32_t choices =
      order.choice == kAllChoices ? (1u << kChoicesMax) - 1 : 1u << order.choice;
  MutexLock lock(mutex_);
  const auto it = live_.find(order.id);
  if (it == live_.end()) return;
  Live& live = it->second;
  if ((live.cancelled_choices & choices) == choices) return;
  live.cancelled_choices |= choices;
  if (!live.queued) return;
  inbox_.cancelled.push_back(order);
  work_arrived_.notify_one();
}

absl::Status Engine::Loop::ResetPrefixCache(std::function<void(bool)> done) {
  MutexLock lock(mutex_);
  if (stopping_) return Unavailable("the engine is stopping");
  if (num_resets_ >= kResetsMax) {
    return LimitReached(kResetsMax, "{} cache resets are waiting", num_resets_);
  }
  ++num_resets_;
  inbox_.resets.push_back(std::move(done));
  work_arrived_.notify_one();
  return absl::OkStatus();
}

absl::Status Engine::Loop::PreviewAdmission(std::shared_ptr<const Request> request,
                                            std::function<void(const AdmissionPreview&)> done) {
  const SequenceGroups ended = TakeEnded();
  INCIPIT_RETURN_IF_ERROR(CheckRequest(*request, cache_));
  {
    // Limit the number of waiting previews (predictions of the blocks that a request needs) before
    // MakeSequenceGroup hashes the prompt, because hashing may take long.
    MutexLock lock(mutex_);
    if (num_previews_ >= kPreviewsMax) {
      return LimitReached(kPreviewsMax, "{} admission previews are waiting", num_previews_);
    }
    ++num_previews_;
  }
  auto group = MakeSequenceGroup(std::move(request), cache_);
  MutexLock lock(mutex_);
  if (stopping_) {
    --num_previews_;
    return Unavailable("the engine is stopping");
  }
  inbox_.previews.push_back({.group = std::move(group), .done = std::move(done)});
  work_arrived_.notify_one();
  return absl::OkStatus();
}

void Engine::Loop::Order(const CacheOrders& orders) {
  MutexLock lock(mutex_);
  if (orders.listener) inbox_.cache.listener = orders.listener;
  inbox_.cache.reports_cached |= orders.reports_cached;
  work_arrived_.notify_one();
}

bool Engine::Loop::Drain(Time deadline) {
  // Convert `deadline` from clock_ to real time. The wait uses real time, but tests may control
  // clock_.
  const Time real_deadline = deadline == kNoDeadline
                                 ? kNoDeadline
                                 : std::chrono::steady_clock::now() + (deadline - clock_.Now());
  MutexLock lock(mutex_);
  load_.draining = true;
  while (!live_.empty() || publishing_ || computing_) {
    if (real_deadline == kNoDeadline) {
      drained_.wait(mutex_);
    } else if (drained_.wait_until(mutex_, real_deadline) == std::cv_status::timeout) {
      return live_.empty() && !publishing_ && !computing_;
    }
  }
  return true;
}

absl::Status Engine::Loop::Resume() {
  MutexLock lock(mutex_);
  if (!fatal_.ok()) return FailedPrecondition("the engine has failed: {}", MessageOf(fatal_));
  if (stopping_) return FailedPrecondition("the engine is stopping");
  load_.draining = false;
  return absl::OkStatus();
}

EngineLoad Engine::Loop::Load() const {
  MutexLock lock(mutex_);
  EngineLoad load = load_;
  load.num_waiting += static_cast<int32_t>(inbox_.submitted.size());
  load.num_waiting_prompt_tokens += inbox_prompt_tokens_;
  load.expected_wait = wait_.value();
  load.failed = !fatal_.ok();
  load.hit_ratios = hit_ratios_.Read(clock_.Now());
  return load;
}

Time Engine::Loop::heartbeat() const {
  if (idle_) return clock_.Now();
  return progress_;
}

void Engine::Loop::Run() {
  while (TakeInbox()) {
    progress_ = clock_.Now();
    idle_ = false;
    ApplyInbox();
    Step();
    reporter_.Report();
  }
  TakeBack(0);
  ApplyInbox();
  EndEverything(FinishReason::kCancelled);
}

// Waits until the engine loop has work, and then moves the contents of inbox_ to taken_. Returns
// false if the engine must stop.
bool Engine::Loop::TakeInbox() {
  MutexLock lock(mutex_);
  idle_ = true;
  if (computing_ && scheduler_.num_in_flight() == 0) {
    computing_ = false;
    RecordLoad();
    drained_.notify_all();
  }
  while (!stopping_ && inbox_.empty() && resets_.empty() && scheduler_.idle()) {
    work_arrived_.wait(mutex_);
  }
  EmptyInbox();
  return !stopping_;
}

void Engine::Loop::EmptyInbox() {
  std::swap(taken_, inbox_);
  // Reduce num_previews_ before the callers receive their results, so that a caller can call
  // PreviewAdmission again immediately.
  num_previews_ -= taken_.previews.size();
  load_.num_waiting += static_cast<int32_t>(taken_.submitted.size());
  for (const auto& group : taken_.submitted) {
    inbox_prompt_tokens_ -= group->request->num_prompt();
    load_.num_waiting_prompt_tokens += group->request->num_prompt();
  }
}

void Engine::Loop::ApplyInbox() {
  for (auto& group : taken_.submitted) scheduler_.Add(std::move(group));
  for (const CancelOrder& order : taken_.cancelled) {
    if (order.choice == kAllChoices) {
      scheduler_.Cancel(order.id);
    } else {
      scheduler_.CancelChoice(order.id, order.choice);
    }
  }
  for (auto& done : taken_.resets) resets_.push_back(std::move(done));
  ReplyToResets();
  ReplyToPreviews();
  reporter_.Apply(taken_.cache);
  taken_.Clear();
}

void Engine::Loop::ReplyToPreviews() {
  if (taken_.previews.empty()) return;
  for (const PreviewOrder& order : taken_.previews) order.done(scheduler_.Preview(*order.group));
  MutexLock lock(mutex_);
  for (PreviewOrder& order : taken_.previews) ended_.push_back(std::move(order.group));
}

void Engine::Loop::ReplyToResets() {
  // If all requests have ended, wait until no step is in flight. A step in flight may still use
  // blocks of ended requests. The cache reset fails if a block is in use.
  if (scheduler_.all_ended() && scheduler_.num_in_flight() > 0) return;
  if (resets_.empty()) return;
  {
    MutexLock lock(mutex_);
    num_resets_ -= resets_.size();
  }
  for (const auto& done : resets_) {
    const bool was_reset = !failed_ && cache_.ResetPrefixCache();
    // Emit the statistics of the cache reset immediately, because there may be no later step.
    if (was_reset) {
      stats_ = {};
      stats_.begin = clock_.Now();
      EmitEvents(false);
    }
    done(was_reset);
  }
  resets_.clear();
}

void Engine::Loop::Step() {
  stats_ = {};
  stats_.begin = clock_.Now();
  bool stepped = false;
  absl::Status status = TryStep(stepped);
  // If the step was aborted, plan and run the step a second time.
  if (status.code() == absl::StatusCode::kAborted) status = TryStep(stepped);
  if (!status.ok()) {
    Fail(status);
    return;
  }
  EmitIfAny(stepped);
}

// Launches steps until the maximum number of steps is in flight. Then waits for the oldest step and
// commits it. If a step fails, rolls back the failed step and all later steps.
absl::Status Engine::Loop::TryStep(bool& stepped) {
  while (scheduler_.num_in_flight() < options_.scheduler.steps_in_flight_max) {
    const int32_t num_before = scheduler_.num_in_flight();
    INCIPIT_RETURN_IF_ERROR(BeginStep());
    if (scheduler_.num_in_flight() == num_before) break;  // the scheduler has no tokens to compute
  }
  if (scheduler_.num_in_flight() == 0) return absl::OkStatus();
  INCIPIT_RETURN_IF_ERROR(EndStep());
  stepped = true;
  return absl::OkStatus();
}

absl::Status Engine::Loop::BeginStep() {
  const Time begin = clock_.Now();
  StepInFlight& step = StepAt(scheduler_.num_in_flight());
  scheduler_.Plan(begin, step.plan);
  if (step.plan.items.empty()) return absl::OkStatus();
  const auto batch = step.batch.Build(step.plan);
  step.launched_at = clock_.Now();
  step.stats = std::exchange(taken_back_, {});
  if (step.stats.begin == Time{}) step.stats.begin = begin;
  step.stats.plan += step.launched_at - begin;
  absl::Status status = runner_->Launch(batch);
  if (!status.ok()) {
    scheduler_.Abort(step.plan);
    taken_back_ = step.stats;
  }
  return status;
}

absl::Status Engine::Loop::EndStep() {
  StepInFlight& step = StepAt(0);
  const absl::Status status = runner_->Wait(result_);
  // The device begins a step when the previous step ends or when the step is launched, whichever is
  // later.
  const Time started_at = std::max(step.launched_at, std::exchange(done_at_, clock_.Now()));
  step.stats.duration = done_at_ - started_at;
  step.stats.run += step.stats.duration;
  if (!status.ok()) {
    TakeBack(1);
    return status;
  }
  oldest_ = (oldest_ + 1) % steps_.size();
  scheduler_.Commit(step.plan, {.tokens = result_.tokens,
                                .status = result_.status,
                                .score_status = result_.score_status,
                                .duration = step.stats.duration});
  stats_ = step.stats;
  stats_.commit = clock_.Now() - done_at_;
  FillTokens(step.plan, stats_);
  return absl::OkStatus();
}

// Waits for the steps in flight, except the oldest `num_waited` steps, for which the caller has
// already waited. Then rolls back all steps in flight.
void Engine::Loop::TakeBack(int32_t num_waited) {
  for (int32_t i = num_waited; i < scheduler_.num_in_flight(); ++i) {
    runner_->Wait(result_).IgnoreError();  // the result of a rolled-back step is not used
  }
  while (scheduler_.num_in_flight() > 0) {
    StepInFlight& newest = StepAt(scheduler_.num_in_flight() - 1);
    scheduler_.Abort(newest.plan);
    taken_back_ = newest.stats;
  }
}

// Ends all requests after the fatal error `status`, including the requests in the inbox.
void Engine::Loop::Fail(const absl::Status& status) {
  TakeBack(0);
  failed_ = true;
  {
    MutexLock lock(mutex_);
    fatal_ = status;
    EmptyInbox();
  }
  ApplyInbox();
  EndEverything(FinishReason::kError);
  listener_.OnFatal(status);
}

void Engine::Loop::EndEverything(FinishReason reason) {
  stats_ = {};
  stats_.begin = clock_.Now();
  scheduler_.EndAll(reason);
  EmitIfAny(false);
}

void Engine::Loop::EmitIfAny(bool stepped) {
  if (stepped || !scheduler_.events().tokens.empty()) EmitEvents(stepped);
}

void Engine::Loop::EmitEvents(bool stepped) {
  const SchedulerEvents& events = scheduler_.events();
  FillState(scheduler_, cache_, stats_);
  {
    // Remove ended requests from live_ before the listener receives their last events. A client may
    // submit a new request immediately after these events.
    MutexLock lock(mutex_);
    for (const RequestId id : events.ended) live_.erase(id);
    scheduler_.TakeEnded(ended_);
    computing_ = scheduler_.num_in_flight() > 0;
    RecordLoad();
    if (stats_.cache.query_tokens > 0) {
      hit_ratios_.Add(clock_.Now(), {.query_tokens = stats_.cache.query_tokens,
                                     .hit_tokens = stats_.cache.hit_tokens});
    }
    publishing_ = true;
  }
  listener_.OnStep({.admissions = events.admissions,
                    .prompt_logprobs_events = events.prompt_logprobs,
                    .tokens = events.tokens,
                    .logprobs = stepped ? result_.logprobs : no_logprobs_,
                    .prompt_logprobs = stepped ? result_.prompt_logprobs : no_logprobs_,
                    .stats = stats_});
  scheduler_.ClearEvents();
  progress_ = clock_.Now();
  MutexLock lock(mutex_);
  publishing_ = false;
  drained_.notify_all();
}

void Engine::Loop::RecordLoad() {
  FillLoad(scheduler_, cache_, load_);
  wait_.Set(scheduler_.ForecastWait(), load_.num_waiting + std::ssize(inbox_.submitted),
            load_.num_waiting_prompt_tokens + inbox_prompt_tokens_);
}

Engine::Engine(EngineOptions options, std::unique_ptr<ModelRunner> runner, EngineListener& listener,
               const Clock& clock)
    : loop_(std::make_unique<Loop>(options, std::move(runner), listener, clock)) {}
Engine::~Engine() = default;

absl::Status Engine::Submit(std::shared_ptr<const Request> request) {
  return loop_->Submit(std::move(request));
}
void Engine::Cancel(RequestId id) { loop_->Cancel({.id = id}); }
void Engine::CancelChoice(RequestId id, int32_t choice) {
  if (choice < 0 || choice >= kChoicesMax) return;
  loop_->Cancel({.id = id, .choice = choice});
}
absl::Status Engine::ResetPrefixCache(std::function<void(bool)> done) {
  return loop_->ResetPrefixCache(std::move(done));
}
absl::Status Engine::PreviewAdmission(std::shared_ptr<const Request> request,
                                      std::function<void(const AdmissionPreview&)> done) {
  return loop_->PreviewAdmission(std::move(request), std::move(done));
}
void Engine::ListenToCache(KvEventListener* listener) { loop_->Order({.listener = listener}); }
void Engine::ReportCached() { loop_->Order({.reports_cached = true}); }
bool Engine::Drain(Time deadline) { return loop_->Drain(deadline); }
absl::Status Engine::Resume() { return loop_->Resume(); }
EngineLoad Engine::Load() const { return loop_->Load(); }
std::optional<Duration> Engine::expected_wait() const { return loop_->expected_wait(); }
Time Engine::heartbeat() const { return loop_->heartbeat(); }

}  // namespace incipit
