#include "server/session/session.h"

#include <utility>

#include "server/session/request/request_error.h"

namespace incipit {
namespace {

// Assumed maximum travel time of a call from the client to the server. The deadline that the server
// computes is later than the client's deadline by at most this time.
constexpr Duration kDeadlineTravel = std::chrono::milliseconds(10);

absl::Status ClientIsGone() {
  return Refuse(Reason::kCancelled, "the client has cancelled the call or disconnected");
}

}  // namespace

Session::~Session() {
  if (total_bytes_ != nullptr) *total_bytes_ -= num_counted_bytes_;
}

void Session::CountWaitingBytes(std::shared_ptr<std::atomic<int64_t>> total) {
  MutexLock lock(mutex_);
  total_bytes_ = std::move(total);
}

void Session::KeepSlot(RequestCounter::Slot slot) {
  MutexLock lock(mutex_);
  slot_ = std::move(slot);
}

void Session::ReleaseSlot() { KeepSlot({}); }

void Session::OnCancelCall(std::function<void()> on_cancel) {
  {
    MutexLock lock(mutex_);
    if (!cancel_time_) {
      on_cancel_ = std::move(on_cancel);
      return;
    }
  }
  on_cancel();
}

void Session::Write(OutputPart part) {
  Action action;
  {
    MutexLock lock(mutex_);
    if (end_ || cancel_time_) return;
    pending_.Add(std::move(part));
    action = Advance();
  }
  Act(action);
}

void Session::End(absl::Status status) {
  Action action;
  {
    MutexLock lock(mutex_);
    if (end_) return;
    end_ = std::move(status);
    action = Advance();
  }
  Act(action);
}

void Session::Abandon(absl::Status status) {
  Action action;
  {
    MutexLock lock(mutex_);
    pending_.Clear();
    if (!ended_) end_ = std::move(status);
    action = Advance();
  }
  Act(action);
}

void Session::Reset() {
  {
    MutexLock lock(mutex_);
    if (ended_ || is_resetting_) return;
    // While `is_resetting_` is true, Advance does not end the call. This keeps the call alive until
    // `sink_->Reset()` has returned.
    is_resetting_ = true;
    pending_.Clear();
    if (!end_) end_ = Refuse(Reason::kCancelled, "the client read no output");
  }
  sink_->Reset();
  Action action;
  {
    MutexLock lock(mutex_);
    is_resetting_ = false;
    action = Advance();
  }
  Act(action);
}

size_t Session::num_waiting_bytes() const {
  MutexLock lock(mutex_);
  return pending_.num_bytes();
}

bool Session::cancelled() const {
  MutexLock lock(mutex_);
  return cancel_time_.has_value();
}

absl::Status Session::CheckWanted() const {
  if (cancelled()) return ClientIsGone();
  if (clock_.Now() < deadline_) return absl::OkStatus();
  return Refuse(Reason::kDeadline, "the deadline passed before the request was submitted");
}

FinishReason Session::CancelReason() const {
  MutexLock lock(mutex_);
  if (!cancel_time_) return FinishReason::kCancelled;
  const Duration early = kDeadlineTravel + (deadline_ - arrival_) / 100;
  return *cancel_time_ >= deadline_ - early ? FinishReason::kDeadline : FinishReason::kCancelled;
}

std::optional<Time> Session::write_begin() const {
  MutexLock lock(mutex_);
  return write_begin_;
}

void Session::OnDelivered(bool ok) {
  Action action;
  {
    MutexLock lock(mutex_);
    write_begin_.reset();
    if (!ok) {
      pending_.Clear();
      if (!end_) end_ = ClientIsGone();
    }
    action = Advance();
  }
  Act(action);
}

void Session::OnCancelled() {
  Action action;
  std::function<void()> on_cancel;
  {
    MutexLock lock(mutex_);
    cancel_time_ = clock_.Now();
    pending_.Clear();
    if (!end_) end_ = ClientIsGone();
    on_cancel = std::exchange(on_cancel_, nullptr);
    action = Advance();
  }
  if (on_cancel) on_cancel();
  Act(action);
}

Session::Action Session::Advance() {
  const Action action = NextAction();
  const auto num_bytes = static_cast<int64_t>(pending_.num_bytes());
  // Changes the shared counter `*total_bytes_` only if the number of waiting bytes has changed. For
  // a client that reads fast, this number stays 0.
  if (total_bytes_ != nullptr && num_bytes != num_counted_bytes_) {
    *total_bytes_ += num_bytes - std::exchange(num_counted_bytes_, num_bytes);
  }
  return action;
}

Session::Action Session::NextAction() {
  if (write_begin_ || ended_ || is_resetting_) return Action::kNone;
  if (!pending_.empty()) {
    in_flight_ = pending_.Take();
    write_begin_ = clock_.Now();
    return Action::kDeliver;
  }
  // No output waits. If the final status is known, the call ends now. Otherwise, more output may
  // follow.
  if (!end_) return Action::kNone;
  ended_ = true;
  return Action::kEnd;
}

void Session::Act(Action action) {
  switch (action) {
    case Action::kNone:
      return;
    case Action::kDeliver:
      sink_->Deliver(std::move(in_flight_));
      return;
    case Action::kEnd: {
      absl::Status status;
      {
        MutexLock lock(mutex_);
        status = *end_;
      }
      sink_->End(status);
      return;
    }
  }
}

}  // namespace incipit
