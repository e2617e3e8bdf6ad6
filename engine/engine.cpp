// The functions of the engine that any thread may call.
#include "engine/engine.h"

#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/limit.h"
#include "base/status.h"
#include "engine/engine_loop.h"
#include "engine/request_check.h"

namespace incipit {

namespace {

KvCacheOptions CacheOptionsOf(const EngineOptions& options, const PrefixTier* tier) {
  KvCacheOptions cache = options.cache;
  cache.keeps_chain_origins = tier != nullptr && options.tier_drain_max > Duration::zero();
  return cache;
}

}  // namespace

Engine::Loop::Loop(const EngineOptions& options, std::unique_ptr<ModelRunner> runner,
                   EngineListener& listener, const Clock& clock, PrefixTier* tier)
    : options_(options),
      clock_(clock),
      listener_(listener),
      cache_(CacheOptionsOf(options, tier)),
      tier_(tier),
      scheduler_(options.scheduler, cache_, tier),
      reporter_(cache_),
      runner_(std::move(runner)),
      pause_(options.arrival_pause_max),
      progress_(clock.Now()) {
  {
    MutexLock lock(mutex_);
    RecordLoad();
  }
  if (tier_ != nullptr) {
    tier_->SetWake([this] { Wake(); });
    Wake();  // the state of the tier may have changed before the call of SetWake
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
  if (tier_ != nullptr) tier_->SetWake(nullptr);
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
  pause_.AddArrival(clock_.Now());
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

// Converts a time of clock_ to real time. Waits use real time, but tests may control clock_.
Time Engine::Loop::RealTimeOf(Time time) const {
  if (time == kNoDeadline) return time;
  return std::chrono::steady_clock::now() + (time - clock_.Now());
}

bool Engine::Loop::Drain(Time deadline) {
  const Time real_deadline = RealTimeOf(deadline);
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

Engine::Engine(EngineOptions options, std::unique_ptr<ModelRunner> runner, EngineListener& listener,
               const Clock& clock, PrefixTier* tier)
    : loop_(std::make_unique<Loop>(options, std::move(runner), listener, clock, tier)) {}
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
