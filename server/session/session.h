// Connects a request to its client: passes output to the client, and a cancellation by the client
// to the engine.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/types.h"
#include "server/session/output_merger.h"
#include "server/session/output_sink.h"
#include "server/session/request_counter.h"

namespace incipit {

// Sends the output of one request to an OutputSink, part by part. While the client reads one part,
// the session merges new output into the next part. Thread-safe; the session calls the OutputSink
// and callbacks without a lock.
class Session {
 public:
  // `clock` must outlive the session.
  Session(std::shared_ptr<OutputSink> sink, const Clock& clock, Time arrival, Time deadline)
      : arrival_(arrival), deadline_(deadline), clock_(clock), sink_(std::move(sink)) {}
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Time arrival() const { return arrival_; }
  Time deadline() const { return deadline_; }
  // Returns the name of the request: `request_id` of the client, or a name that the server
  // generated.
  const std::string& label() const { return label_; }
  void set_label(std::string label) { label_ = std::move(label); }

  // Stores `slot` until ReleaseSlot or the destructor. Until then, the request of the session
  // counts against --requests-max (the maximum number of requests).
  void KeepSlot(RequestCounter::Slot slot);
  void ReleaseSlot();

  // Adds `num_waiting_bytes()` of this session to `*total`, and keeps the sum up to date from now
  // on. REQUIRES: called at most once, and before Write.
  void CountWaitingBytes(std::shared_ptr<std::atomic<int64_t>> total);

  // Sets a callback that is called once if the client cancels. If the client has already cancelled,
  // calls `on_cancel` immediately.
  void OnCancelCall(std::function<void()> on_cancel);
  // Queues `part` for the client. After End or a cancellation, discards `part`.
  void Write(OutputPart part);
  // Ends the call with `status` after the client has read all output. If End was called before,
  // does nothing.
  void End(absl::Status status);
  // Discards the output that waits in the session, and ends the call with `status`. A part that is
  // being sent is not discarded.
  void Abandon(absl::Status status);
  // Ends the call immediately, even if the client has not read the part of the output that is being
  // sent.
  void Reset();

  // Returns the estimated size in bytes of the output that is not being sent yet, because the
  // client has not read earlier output.
  size_t num_waiting_bytes() const;
  bool cancelled() const;
  // Returns CANCELLED if the client has cancelled or disconnected, and DEADLINE_EXCEEDED if the
  // deadline has passed. Otherwise returns OK.
  absl::Status CheckWanted() const;
  // Returns kDeadline if the call was cancelled after its deadline or shortly before (up to 10 ms,
  // plus 1 % of the time from the arrival to the deadline). Otherwise returns kCancelled.
  FinishReason CancelReason() const;
  // Returns the time at which the newest part of the output was sent, or nullopt if the client has
  // read the newest part.
  std::optional<Time> write_begin() const;

  // Sends the next part, or ends the call if the final status is known. The OutputSink calls
  // OnDelivered when the client has read the part that Deliver sent. `ok` is false if the client
  // has disconnected.
  void OnDelivered(bool ok);
  // Discards the output that waits in the session, and calls the callback of OnCancelCall. The
  // OutputSink calls OnCancelled when the client has disconnected or the call has ended for another
  // reason.
  void OnCancelled();

 private:
  enum class Action { kNone, kDeliver, kEnd };

  // Returns the function of the OutputSink that must be called next, and updates the state of the
  // session accordingly. The caller must release the lock and then call Act.
  Action Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Does the same as Advance, but does not update `total_bytes_`.
  Action NextAction() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Calls the function of the OutputSink that `action` selects.
  void Act(Action action);

  const Time arrival_, deadline_;
  const Clock& clock_;
  const std::shared_ptr<OutputSink> sink_;
  std::string label_;
  // Part of the output that Advance selected for sending; Act moves the part out.
  OutputPart in_flight_;

  mutable Mutex mutex_;
  RequestCounter::Slot slot_ ABSL_GUARDED_BY(mutex_);
  OutputMerger pending_ ABSL_GUARDED_BY(mutex_);
  // Sum of `num_waiting_bytes()` over several sessions, in bytes. Null if CountWaitingBytes was not
  // called.
  std::shared_ptr<std::atomic<int64_t>> total_bytes_ ABSL_GUARDED_BY(mutex_);
  // Number of bytes that this session has added to `*total_bytes_`.
  int64_t num_counted_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> on_cancel_ ABSL_GUARDED_BY(mutex_);
  // Time at which the newest part of the output was sent. Absent if the client has read the newest
  // part.
  std::optional<Time> write_begin_ ABSL_GUARDED_BY(mutex_);
  std::optional<Time> cancel_time_ ABSL_GUARDED_BY(mutex_);
  bool is_resetting_ ABSL_GUARDED_BY(mutex_) = false;
  // True after Advance has decided to pass the final status to the OutputSink.
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace incipit
