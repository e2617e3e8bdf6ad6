// One streaming call's way out: at most one write in flight, what arrives meanwhile goes with the
// next one. A slow client gets fewer, larger messages and costs no more memory than its answer.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>
#include <incipit/v1/inference.pb.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/types.h"

namespace grpc {
class CallbackServerContext;
}

namespace incipit {

// Owned by gRPC (from Open to OnDone) and by whoever writes to it, in any order of letting go.
// Thread-safe. No lock is held while gRPC or a hook is called.
class GenerateStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  // `context` and `clock` outlive the call.
  static std::shared_ptr<GenerateStream> Open(grpc::CallbackServerContext& context,
                                              const Clock& clock);

  // What to call on cancellation; calls it now if that has happened. At most once.
  void OnCancelCall(std::function<void()> on_cancel);
  // What to call before gRPC is given the status, and when it is through with the call: once each.
  // REQUIRES: before anything is written and the handler returns.
  void OnFinishCall(std::function<void()> on_finish) { on_finish_ = std::move(on_finish); }
  void OnDoneCall(std::function<void()> on_done) { on_done_ = std::move(on_done); }

  // Merged with what waits to be sent. Ignored after End or a cancellation.
  void Write(v1::GenerateResponse&& part);
  // After what was written. The first one counts.
  void End(absl::Status status);
  // Drops what waits to be sent and ends.
  void Abandon(absl::Status status);
  // Ends the call without waiting for the client to take anything.
  void Reset();

  bool cancelled() const;
  // Why a call that arrived then, with that deadline, was cancelled. A passed deadline comes as a
  // cancellation too: gRPC ends the call by itself, and so does the client, a little earlier than
  // this side would, since both count from their own begin and gRPC rounds what it sends up by as
  // much as one percent.
  FinishReason CancelReason(Time arrival, Time deadline) const;
  // Since when the write in flight has been waiting for the client.
  std::optional<Time> write_begin() const;

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  enum class Action { kNone, kWrite, kFinish };

  GenerateStream(grpc::CallbackServerContext& context, const Clock& clock)
      : context_(context), clock_(clock) {}

  // Decides what gRPC is asked next and marks it as under way; Act does it, without the lock.
  Action Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Act(Action action);

  grpc::CallbackServerContext& context_;
  const Clock& clock_;
  std::function<void()> on_finish_, on_done_;
  std::shared_ptr<GenerateStream> self_;  // until OnDone
  v1::GenerateResponse message_;          // owned by the write in flight
  grpc::ByteBuffer bytes_;                // the same, serialised

  mutable Mutex mutex_;
  std::deque<v1::GenerateResponse> pending_ ABSL_GUARDED_BY(mutex_);
  size_t last_size_ ABSL_GUARDED_BY(mutex_) = 0;  // bytes of pending_.back(), estimated
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> on_cancel_ ABSL_GUARDED_BY(mutex_);
  std::optional<Time> write_begin_ ABSL_GUARDED_BY(mutex_);  // set while a write is in flight
  std::optional<Time> cancel_time_ ABSL_GUARDED_BY(mutex_);
  bool is_resetting_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;  // gRPC has been given the status
};

}  // namespace incipit
