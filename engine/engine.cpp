#include "engine/engine.h"

#include <atomic>
#include <condition_variable>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "base/check.h"
#include "base/mutex.h"
#include "base/status.h"
#include "engine/batch.h"

namespace incipit {
namespace {

constexpr int32_t kAllChoices = -1;

struct CancelOrder {
  RequestId id{};
  int32_t choice = kAllChoices;
};

struct PreviewOrder {
  std::unique_ptr<SequenceGroup> group;
  std::function<void(const AdmissionPreview&)> done;
};

// What other threads ask of the loop between two steps.
struct Inbox {
  std::vector<std::unique_ptr<SequenceGroup>> submitted;
  std::vector<CancelOrder> cancelled;
  std::vector<std::function<void(bool)>> resets;
  std::vector<PreviewOrder> previews;

  bool empty() const {
    return submitted.empty() && cancelled.empty() && resets.empty() && previews.empty();
  }
  void Clear() {
    submitted.clear();
    cancelled.clear();
    resets.clear();
    previews.clear();
  }
};

absl::Status CheckRequest(const Request& request, const KvCacheManager& cache) {
  if (request.prompt.empty()) return InvalidArgument("prompt has no tokens; it needs at least 1");
  if (request.answer_tokens_max < 1) {
    return InvalidArgument("answer_tokens_max is {}; it must be at least 1",
                           request.answer_tokens_max);
  }
  if (request.num_choices < 1 || request.num_choices > kChoicesMax) {
    return InvalidArgument("num_choices is {}; it must be from 1 to {}", request.num_choices,
                           kChoicesMax);
  }
  const int64_t num_tokens =
      static_cast<int64_t>(request.prompt.size()) + request.answer_tokens_max;
  if (!cache.Fits(num_tokens)) {
    return InvalidArgument(
        "a prompt of {} tokens and an answer of up to {} need {} tokens of KV cache, which holds "
        "{}",
        request.prompt.size(), request.answer_tokens_max, num_tokens, cache.capacity_tokens());
  }
  return absl::OkStatus();
}

}  // namespace

// Threading: what other threads reach is guarded by mutex_; the rest belongs to the engine thread,
// except constants. No lock is held while the runner or the listener is called.
class Engine::Loop {
 public:
  Loop(const EngineOptions& options, std::unique_ptr<ModelRunner> runner, EngineListener& listener,
       const Clock& clock);
  ~Loop();

  absl::Status Submit(Request request);
  void Cancel(CancelOrder order);
  void ResetPrefixCache(std::function<void(bool)> done);
  absl::Status PreviewAdmission(Request request, std::function<void(const AdmissionPreview&)> done);
  bool Drain(Time deadline);
  EngineLoad Load() const;
  Time heartbeat() const;

 private:
  // A request from Submit to its last event. `queued`: in the inbox or in the scheduler.
  struct Live {
    uint32_t cancelled_choices = 0;  // a bit each, so that the inbox stays bounded
    bool queued = false;
  };

  absl::Status Reserve(const Request& request, Time now) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Refusal() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void Run();
  bool TakeInbox() ABSL_LOCKS_EXCLUDED(mutex_);
  void ApplyInbox();
  void Step();
  absl::Status TryStep();
  void Fail(const absl::Status& status);
  void EndEverything(FinishReason reason);
  void Publish(bool stepped);
  void Tell(bool stepped);
  void RecordLoad() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const EngineOptions options_;
  const Clock& clock_;
  EngineListener& listener_;

  KvCacheManager cache_;
  Scheduler scheduler_;
  std::unique_ptr<ModelRunner> runner_;
  BatchBuilder batch_;
  StepPlan plan_;
  StepResult result_;
  const Logprobs no_logprobs_;  // of what ends outside a step
  StepStats stats_;
  Inbox taken_;
  bool failed_ = false;

  mutable Mutex mutex_;
  std::condition_variable_any work_arrived_, drained_;
  Inbox inbox_ ABSL_GUARDED_BY(mutex_);
  int64_t inbox_prompt_tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<RequestId, Live> live_ ABSL_GUARDED_BY(mutex_);
  EngineLoad load_ ABSL_GUARDED_BY(mutex_);
  HitRatioWindows hit_ratios_ ABSL_GUARDED_BY(mutex_);
  bool publishing_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status fatal_ ABSL_GUARDED_BY(mutex_);
  std::atomic<Time> progress_;  // written before `idle_` turns false
  std::atomic<bool> idle_ = true;

  std::thread thread_;  // last: it uses all of the above
};

Engine::Loop::Loop(const EngineOptions& options, std::unique_ptr<ModelRunner> runner,
                   EngineListener& listener, const Clock& clock)
    : options_(options),
      clock_(clock),
      listener_(listener),
      cache_(options.cache),
      scheduler_(options.scheduler, cache_),
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

absl::Status Engine::Loop::Submit(Request request) {
  INCIPIT_RETURN_IF_ERROR(CheckRequest(request, cache_));
  INCIPIT_RETURN_IF_ERROR(Reserve(request, clock_.Now()));
  const RequestId id = request.id;
  const auto num_prompt_tokens = static_cast<int64_t>(request.prompt.size());
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
  for (int32_t choice = 0; choice < kChoicesMax; ++choice) {
    if (live.cancelled_choices >> choice & 1) {
      inbox_.cancelled.push_back({.id = id, .choice = choice});
    }
  }
  work_arrived_.notify_one();
  return absl::OkStatus();
}

// Takes a place for the request, before the work of hashing its prompt.
absl::Status Engine::Loop::Reserve(const Request& request, Time now) {
  const auto num_prompt_tokens = static_cast<int64_t>(request.prompt.size());
  MutexLock lock(mutex_);
  if (!fatal_.ok() || stopping_ || load_.draining) return Refusal();
  if (request.deadline <= now) return DeadlineExceeded("the deadline has passed before the start");
  if (live_.contains(request.id)) {
    return AlreadyExists("request id {} is in use", static_cast<uint64_t>(request.id));
  }
  if (live_.size() >= static_cast<size_t>(options_.requests_max)) {
    return ResourceExhausted("{} requests are waiting or running; the limit is {}", live_.size(),
                             options_.requests_max);
  }
  const int64_t num_waiting = inbox_prompt_tokens_ + load_.num_waiting_prompt_tokens;
  if (num_waiting > 0 && num_waiting + num_prompt_tokens > options_.waiting_prompt_tokens_max) {
    return ResourceExhausted("{} prompt tokens are waiting and this prompt has {}; the limit is {}",
                             num_waiting, num_prompt_tokens, options_.waiting_prompt_tokens_max);
  }
  inbox_prompt_tokens_ += num_prompt_tokens;
  live_.emplace(request.id, Live{});
  return absl::OkStatus();
}

absl::Status Engine::Loop::Refusal() const {
  if (!fatal_.ok()) return Unavailable("the engine has failed: {}", MessageOf(fatal_));
  if (stopping_) return Unavailable("the engine is stopping");
  return Unavailable("the engine is draining and takes no new requests");
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

void Engine::Loop::ResetPrefixCache(std::function<void(bool)> done) {
  MutexLock lock(mutex_);
  inbox_.resets.push_back(std::move(done));
  work_arrived_.notify_one();
}

absl::Status Engine::Loop::PreviewAdmission(Request request,
                                            std::function<void(const AdmissionPreview&)> done) {
  INCIPIT_RETURN_IF_ERROR(CheckRequest(request, cache_));
  auto group = MakeSequenceGroup(std::move(request), cache_);
  MutexLock lock(mutex_);
  if (stopping_) return Unavailable("the engine is stopping");
  if (inbox_.previews.size() >= kPreviewsMax) {
    return ResourceExhausted("{} previews are under way; the limit is {}", inbox_.previews.size(),
                             kPreviewsMax);
  }
  inbox_.previews.push_back({.group = std::move(group), .done = std::move(done)});
  work_arrived_.notify_one();
  return absl::OkStatus();
}

bool Engine::Loop::Drain(Time deadline) {
  // The caller's clock may be one that tests advance; the wait is in real time.
  const Time real_deadline = deadline == kNoDeadline
                                 ? kNoDeadline
                                 : std::chrono::steady_clock::now() + (deadline - clock_.Now());
  MutexLock lock(mutex_);
  load_.draining = true;
  while (!live_.empty() || publishing_) {
    if (real_deadline == kNoDeadline) {
      drained_.wait(mutex_);
    } else if (drained_.wait_until(mutex_, real_deadline) == std::cv_status::timeout) {
      return live_.empty() && !publishing_;
    }
  }
  return true;
}

EngineLoad Engine::Loop::Load() const {
  MutexLock lock(mutex_);
  EngineLoad load = load_;
  load.num_waiting += static_cast<int32_t>(inbox_.submitted.size());
  load.num_waiting_prompt_tokens += inbox_prompt_tokens_;
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
  }
  ApplyInbox();
  EndEverything(FinishReason::kCancelled);
}

// Waits for something to do. False: the engine is to stop.
bool Engine::Loop::TakeInbox() {
  MutexLock lock(mutex_);
  idle_ = true;
  while (!stopping_ && inbox_.empty() && scheduler_.idle()) work_arrived_.wait(mutex_);
  std::swap(taken_, inbox_);
  for (const auto& group : taken_.submitted) inbox_prompt_tokens_ -= group->num_prompt;
  load_.num_waiting += static_cast<int32_t>(taken_.submitted.size());
  for (const auto& group : taken_.submitted) load_.num_waiting_prompt_tokens += group->num_prompt;
  return !stopping_;
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
  for (const auto& done : taken_.resets) {
    const bool was_reset = !failed_ && cache_.ResetPrefixCache();
    // No step may follow that would tell of it.
    if (was_reset) {
      stats_ = {};
      stats_.begin = clock_.Now();
      Tell(false);
    }
    done(was_reset);
  }
  for (const PreviewOrder& order : taken_.previews) order.done(scheduler_.Preview(*order.group));
  taken_.Clear();
}

void Engine::Loop::Step() {
  stats_ = {};
  stats_.begin = clock_.Now();
  absl::Status status = TryStep();
  if (status.code() == absl::StatusCode::kAborted) status = TryStep();  // once
  if (!status.ok()) {
    Fail(status);
    return;
  }
  Publish(!plan_.items.empty());
}

// Plan, launch, wait, commit. After an error the plan has been taken back.
absl::Status Engine::Loop::TryStep() {
  const Time planned_at = clock_.Now();
  scheduler_.Plan(planned_at, plan_);
  stats_.num_preemptions += plan_.num_preemptions;
  if (plan_.items.empty()) return absl::OkStatus();
  const StepBatch batch = batch_.Build(plan_);
  const Time launched_at = clock_.Now();
  stats_.plan += launched_at - planned_at;

  absl::Status status = runner_->Launch(batch);
  if (status.ok()) status = runner_->Wait(result_);
  const Time done_at = clock_.Now();
  stats_.run += done_at - launched_at;
  if (!status.ok()) {
    scheduler_.Abort(plan_);
    return status;
  }
  scheduler_.Commit(
      plan_,
      {.tokens = result_.tokens, .status = result_.status, .score_status = result_.score_status});
  stats_.commit = clock_.Now() - done_at;
  stats_.num_tokens = plan_.num_tokens;
  stats_.num_decode_tokens = plan_.num_decode_tokens;
  stats_.num_prefill_tokens = plan_.num_tokens - plan_.num_decode_tokens;
  return absl::OkStatus();
}

// Nothing can be computed any more: every request ends, those that arrive meanwhile included.
void Engine::Loop::Fail(const absl::Status& status) {
  failed_ = true;
  {
    MutexLock lock(mutex_);
    fatal_ = status;
    std::swap(taken_, inbox_);
  }
  ApplyInbox();
  EndEverything(FinishReason::kError);
  listener_.OnFatal(status);
}

void Engine::Loop::EndEverything(FinishReason reason) {
  stats_ = {};
  stats_.begin = clock_.Now();
  scheduler_.EndAll(reason);
  Publish(false);
}

void Engine::Loop::Publish(bool stepped) {
  if (stepped || !scheduler_.events().tokens.empty()) Tell(stepped);
}

void Engine::Loop::Tell(bool stepped) {
  const SchedulerEvents& events = scheduler_.events();
  stats_.num_running = scheduler_.num_running();
  stats_.num_waiting = scheduler_.num_waiting();
  stats_.num_blocks = cache_.num_blocks();
  stats_.num_used_blocks = cache_.num_used();
  stats_.num_cached_blocks = cache_.num_cached();
  stats_.num_retained_blocks = cache_.pool().num_retained();
  stats_.cache = cache_.TakeStats();
  {
    // Whoever hears of an end may submit again at once, so the place is free before.
    MutexLock lock(mutex_);
    for (const RequestId id : events.ended) live_.erase(id);
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
  load_.num_running = scheduler_.num_running();
  load_.num_waiting = scheduler_.num_waiting();
  load_.num_waiting_prompt_tokens = scheduler_.num_waiting_prompt_tokens();
  load_.num_blocks = cache_.num_blocks();
  load_.num_used_blocks = cache_.num_used();
  load_.num_cached_blocks = cache_.num_cached();
  load_.num_retained_blocks = cache_.pool().num_retained();
  load_.block_size = cache_.block_size();
}

Engine::Engine(EngineOptions options, std::unique_ptr<ModelRunner> runner, EngineListener& listener,
               const Clock& clock)
    : loop_(std::make_unique<Loop>(options, std::move(runner), listener, clock)) {}
Engine::~Engine() = default;

absl::Status Engine::Submit(Request request) { return loop_->Submit(std::move(request)); }
void Engine::Cancel(RequestId id) { loop_->Cancel({.id = id}); }
void Engine::CancelChoice(RequestId id, int32_t choice) {
  if (choice < 0 || choice >= kChoicesMax) return;
  loop_->Cancel({.id = id, .choice = choice});
}
void Engine::ResetPrefixCache(std::function<void(bool)> done) {
  loop_->ResetPrefixCache(std::move(done));
}
absl::Status Engine::PreviewAdmission(Request request,
                                      std::function<void(const AdmissionPreview&)> done) {
  return loop_->PreviewAdmission(std::move(request), std::move(done));
}
bool Engine::Drain(Time deadline) { return loop_->Drain(deadline); }
EngineLoad Engine::Load() const { return loop_->Load(); }
Time Engine::heartbeat() const { return loop_->heartbeat(); }

}  // namespace incipit
