// The engine thread: takes messages from the inbox, runs steps, and reports their results.
#include "engine/engine_loop.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/scheduling.h"
#include "base/status.h"
#include "engine/store_chunks.h"
#include "engine/store_rest.h"

namespace incipit {
namespace {

// While all requests wait for loads, the engine polls the tier after this time at the latest, so
// that the tier detects a disk that hangs.
constexpr Duration kTierPollMax = std::chrono::seconds(1);
// At the end of the engine, the engine looks for room in the tier after this time at the latest. No
// event reports that the limit of the write rate has room again.
constexpr Duration kTierRoomPause = std::chrono::milliseconds(5);

}  // namespace

void Engine::Loop::Run() {
  NameThisThread("engine");
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
  DrainToTier();
}

// Stores the cached chunks that the tier lacks, most valuable first, within
// EngineOptions::tier_drain_max. REQUIRES: all requests have ended.
void Engine::Loop::DrainToTier() {
  if (!cache_.options().keeps_chain_origins || failed_) return;
  const Time deadline = clock_.Now() + options_.tier_drain_max;
  tier_->Poll();
  // Do not call Touch here, because Touch marks chunks as used. StoreRest skips the chunks whose
  // write is pending.
  const CachedChunks chunks =
      cache_.EvictChunks(tier_->shape(), [this](const BlockHash& key) { return !tier_->Has(key); });
  StoreRest(
      chunks, *runner_, *tier_, [&] { return clock_.Now() >= deadline; },
      [this] { AwaitTierRoom(); });
}

// Waits until a store has ended, but at most for kTierRoomPause, and polls the tier.
void Engine::Loop::AwaitTierRoom() {
  {
    MutexLock lock(mutex_);
    const Time real_end = std::chrono::steady_clock::now() + kTierRoomPause;
    while (!tier_changed_) {
      if (work_arrived_.wait_until(mutex_, real_end) == std::cv_status::timeout) break;
    }
    tier_changed_ = false;
  }
  tier_->Poll();
}

// Waits until the engine loop has work, and then moves the contents of inbox_ to taken_. Returns
// false if the engine must stop.
bool Engine::Loop::TakeInbox() {
  MutexLock lock(mutex_);
  PauseForArrivals();
  idle_ = true;
  if (computing_ && scheduler_.num_in_flight() == 0) {
    computing_ = false;
    RecordLoad();
    drained_.notify_all();
  }
  WaitForWork();
  EmptyInbox();
  return !stopping_;
}

// Waits for the next requests of clients whose requests have just ended, as ArrivalPause decides.
// Does not wait if all requests have ended, or if the engine accepts no new requests.
void Engine::Loop::PauseForArrivals() {
  const Time begin = clock_.Now();
  if (scheduler_.idle() || load_.draining || !pause_.IsWaiting(begin)) return;
  const Time real_end = RealTimeOf(pause_.end());
  while (!stopping_ && pause_.IsWaiting(clock_.Now())) {
    if (work_arrived_.wait_until(mutex_, real_end) == std::cv_status::timeout) break;
  }
  paused_ += clock_.Now() - begin;
}

// Waits until the inbox has a message, a request can advance, or the engine must stop. If all
// requests wait for loads from the tier, a request can advance when a load ends, or at the time
// Scheduler::next_look. Also returns if a store to the tier has ended, so that Plan polls the tier.
void Engine::Loop::WaitForWork() {
  const Time latest_look = clock_.Now() + kTierPollMax;
  const Time real_look =
      RealTimeOf(waits_for_tier_ ? std::min(scheduler_.next_look(), latest_look) : latest_look);
  const bool can_sleep = waits_for_tier_ || scheduler_.idle();
  while (!stopping_ && inbox_.empty() && resets_.empty() && can_sleep && !tier_changed_) {
    if (!waits_for_tier_) {
      work_arrived_.wait(mutex_);
    } else if (work_arrived_.wait_until(mutex_, real_look) == std::cv_status::timeout) {
      break;
    }
  }
  tier_changed_ = false;
}

void Engine::Loop::Wake() {
  MutexLock lock(mutex_);
  tier_changed_ = true;
  work_arrived_.notify_one();
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
    if (was_reset && tier_ != nullptr) tier_->Clear();
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
  waits_for_tier_ = false;
  while (scheduler_.num_in_flight() < options_.scheduler.steps_in_flight_max) {
    const int32_t num_before = scheduler_.num_in_flight();
    INCIPIT_RETURN_IF_ERROR(BeginStep());
    if (scheduler_.num_in_flight() == num_before) break;  // the scheduler has no tokens to compute
  }
  if (scheduler_.num_in_flight() == 0) {
    waits_for_tier_ = scheduler_.num_loading() > 0;
    return absl::OkStatus();
  }
  INCIPIT_RETURN_IF_ERROR(EndStep());
  stepped = true;
  return absl::OkStatus();
}

absl::Status Engine::Loop::BeginStep() {
  const Time begin = clock_.Now();
  StepInFlight& step = StepAt(scheduler_.num_in_flight());
  scheduler_.Plan(begin, step.plan);
  if (step.plan.items.empty()) return absl::OkStatus();
  const auto batch = step.batch.Build(step.plan, tier_);
  step.launched_at = clock_.Now();
  step.stats = std::exchange(taken_back_, {});
  if (step.stats.begin == Time{}) step.stats.begin = begin;
  step.stats.plan += step.launched_at - begin;
  step.stats.pause += std::exchange(paused_, {});
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
  const Time committed_at = clock_.Now();
  stats_.commit = committed_at - done_at_;
  if (tier_ != nullptr) {
    StoreChunks(scheduler_.events(), *runner_, *tier_);
    stats_.store = clock_.Now() - committed_at;
  }
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
    if (stepped && !events.ended.empty() && HasRoomForArrivals()) {
      pause_.Begin(static_cast<int32_t>(events.ended.size()), scheduler_.DecodeStepTime(),
                   clock_.Now());
    }
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

// Returns false if waiting requests can take the slots or the blocks of ended requests, so that a
// new request cannot start in the next step.
bool Engine::Loop::HasRoomForArrivals() const {
  const int32_t num_sequences = scheduler_.num_running() + scheduler_.num_waiting();
  return scheduler_.head() == nullptr && num_sequences < options_.scheduler.running_max;
}

void Engine::Loop::RecordLoad() {
  FillLoad(scheduler_, cache_, load_);
  wait_.Set(scheduler_.ForecastWait(), load_.num_waiting + std::ssize(inbox_.submitted),
            load_.num_waiting_prompt_tokens + inbox_prompt_tokens_);
}

}  // namespace incipit
