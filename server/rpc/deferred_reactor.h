// A gRPC call with one response, which any thread of the server can send later.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "server/rpc/error_details.h"
#include "server/session/request/request_error.h"

namespace incipit {

// A gRPC call with one response, which any thread can send later with Complete. The first call of
// Complete ends the gRPC call. A cancellation by the client also ends the gRPC call.
class DeferredReactor final : public grpc::ServerUnaryReactor {
 public:
  static std::shared_ptr<DeferredReactor> Open() {
    std::shared_ptr<DeferredReactor> reactor(new DeferredReactor);
    reactor->self_ = reactor;
    return reactor;
  }

  // Calls `fill`, which writes the response, and ends the gRPC call with `status`. If the gRPC call
  // has already ended, does nothing, because the response may have been destroyed.
  void Complete(
      const absl::Status& status, const std::function<void()>& fill = [] {}) {
    {
      MutexLock lock(mutex_);
      if (completed_) return;
      completed_ = true;
    }
    fill();
    Finish(ToGrpcStatus(status));
  }

  // Sets the callback that is called if the client cancels the gRPC call. If the client has already
  // cancelled, calls `on_cancel` immediately.
  void OnCancelCall(std::function<void()> on_cancel) {
    {
      MutexLock lock(mutex_);
      if (!is_cancelled_) {
        on_cancel_ = std::move(on_cancel);
        return;
      }
    }
    on_cancel();
  }

  // Sets the callback that is called on a gRPC thread after the end of the gRPC call. If the gRPC
  // call has already ended, calls `on_done` immediately on the present thread.
  void OnDoneCall(std::function<void()> on_done) {
    {
      MutexLock lock(mutex_);
      if (!is_done_) {
        on_done_ = std::move(on_done);
        return;
      }
    }
    on_done();
  }

  bool is_completed() {
    MutexLock lock(mutex_);
    return completed_;
  }

  void OnCancel() override {
    std::function<void()> on_cancel;
    {
      MutexLock lock(mutex_);
      is_cancelled_ = true;
      on_cancel = std::move(on_cancel_);
    }
    if (on_cancel) on_cancel();
    Complete(Refuse(Reason::kCancelled, "the call was cancelled"));
  }
  void OnDone() override {
    const std::shared_ptr<DeferredReactor> self = std::move(self_);
    std::function<void()> on_done;
    {
      MutexLock lock(mutex_);
      is_done_ = true;
      on_done = std::move(on_done_);
    }
    if (on_done) on_done();
  }

 private:
  DeferredReactor() = default;

  // Pointer of the DeferredReactor to itself, so that the object exists until OnDone clears
  // `self_`.
  std::shared_ptr<DeferredReactor> self_;
  Mutex mutex_;
  bool completed_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_done_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> on_cancel_ ABSL_GUARDED_BY(mutex_), on_done_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace incipit
