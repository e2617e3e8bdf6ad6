#include "server/rpc/generate_stream.h"

#include <grpcpp/server_context.h>

#include <utility>

#include "server/rpc/error_details.h"
#include "server/rpc/wire.h"

namespace incipit {
namespace {

// Far below the 4 MiB that clients accept by default, so that what is merged always arrives.
constexpr size_t kMessageBytes = 256 << 10;
// How much later than its client's the deadline of a call may be, beside rounding.
constexpr Duration kDeadlineTravel = std::chrono::milliseconds(10);

v1::Delta& DeltaOf(uint32_t choice, v1::GenerateResponse& message) {
  for (v1::Delta& delta : *message.mutable_deltas()) {
    if (delta.choice() == choice) return delta;
  }
  v1::Delta& delta = *message.add_deltas();
  delta.set_choice(choice);
  return delta;
}

// Deltas of one choice become one; MergeFrom would replace the text.
void Merge(v1::GenerateResponse&& part, v1::GenerateResponse& into) {
  for (v1::Delta& delta : *part.mutable_deltas()) {
    v1::Delta& target = DeltaOf(delta.choice(), into);
    const std::string text = std::move(*delta.mutable_text());
    delta.clear_text();
    target.MergeFrom(delta);
    target.mutable_text()->append(text);
  }
  part.clear_deltas();
  into.MergeFrom(part);
}

}  // namespace

std::shared_ptr<GenerateStream> GenerateStream::Open(grpc::CallbackServerContext& context,
                                                     const Clock& clock) {
  std::shared_ptr<GenerateStream> stream(new GenerateStream(context, clock));
  stream->self_ = stream;
  return stream;
}

void GenerateStream::OnCancelCall(std::function<void()> on_cancel) {
  {
    MutexLock lock(mutex_);
    if (!cancel_time_) {
      on_cancel_ = std::move(on_cancel);
      return;
    }
  }
  on_cancel();
}

void GenerateStream::Write(v1::GenerateResponse&& part) {
  Action action;
  {
    MutexLock lock(mutex_);
    if (end_ || cancel_time_) return;
    const size_t size = part.ByteSizeLong();
    if (pending_.empty() || last_size_ + size > kMessageBytes) {
      pending_.push_back(std::move(part));
      last_size_ = size;
    } else {
      Merge(std::move(part), pending_.back());
      last_size_ += size;
    }
    action = Advance();
  }
  Act(action);
}

void GenerateStream::End(absl::Status status) {
  Action action;
  {
    MutexLock lock(mutex_);
    if (end_) return;
    end_ = std::move(status);
    action = Advance();
  }
  Act(action);
}

void GenerateStream::Abandon(absl::Status status) {
  Action action;
  {
    MutexLock lock(mutex_);
    pending_.clear();
    if (!finished_) end_ = std::move(status);
    action = Advance();
  }
  Act(action);
}

void GenerateStream::Reset() {
  {
    MutexLock lock(mutex_);
    if (finished_ || is_resetting_) return;
    is_resetting_ = true;  // keeps Advance from finishing, hence the context alive
    pending_.clear();
    if (!end_) end_ = absl::CancelledError("the client took nothing");
  }
  context_.TryCancel();
  Action action;
  {
    MutexLock lock(mutex_);
    is_resetting_ = false;
    action = Advance();
  }
  Act(action);
}

bool GenerateStream::cancelled() const {
  MutexLock lock(mutex_);
  return cancel_time_.has_value();
}

FinishReason GenerateStream::CancelReason(Time arrival, Time deadline) const {
  MutexLock lock(mutex_);
  if (!cancel_time_) return FinishReason::kCancelled;
  const Duration early = kDeadlineTravel + (deadline - arrival) / 100;
  return *cancel_time_ >= deadline - early ? FinishReason::kDeadline : FinishReason::kCancelled;
}

std::optional<Time> GenerateStream::write_begin() const {
  MutexLock lock(mutex_);
  return write_begin_;
}

void GenerateStream::OnWriteDone(bool ok) {
  Action action;
  {
    MutexLock lock(mutex_);
    write_begin_.reset();
    if (!ok) {
      pending_.clear();
      if (!end_) end_ = absl::CancelledError("the client is gone");
    }
    action = Advance();
  }
  Act(action);
}

void GenerateStream::OnCancel() {
  Action action;
  std::function<void()> on_cancel;
  {
    MutexLock lock(mutex_);
    cancel_time_ = clock_.Now();
    pending_.clear();
    if (!end_) end_ = absl::CancelledError("the client is gone");
    on_cancel = std::exchange(on_cancel_, nullptr);
    action = Advance();
  }
  if (on_cancel) on_cancel();
  Act(action);
}

void GenerateStream::OnDone() {
  if (on_done_) on_done_();
  self_.reset();
}

GenerateStream::Action GenerateStream::Advance() {
  if (write_begin_ || finished_ || is_resetting_) return Action::kNone;
  if (!pending_.empty()) {
    message_ = std::move(pending_.front());
    pending_.pop_front();
    write_begin_ = clock_.Now();
    return Action::kWrite;
  }
  // The status follows the last write rather than going with it, so that a call whose client takes
  // nothing can still be reset.
  if (!end_) return Action::kNone;
  finished_ = true;
  return Action::kFinish;
}

void GenerateStream::Act(Action action) {
  if (action == Action::kNone) return;
  if (action == Action::kWrite) {
    ToBytes(message_, bytes_);
    StartWrite(&bytes_);
    return;
  }
  grpc::Status status;
  {
    MutexLock lock(mutex_);
    status = ToGrpcStatus(*end_);
  }
  if (on_finish_) on_finish_();
  Finish(std::move(status));
}

}  // namespace incipit
