// Connects one request to its client: a Session passes output to the client, and a cancellation by
// the client to the engine.
#pragma once

#include <cstddef>
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

// Sends the output of one request to a sink. At most one part of the output is in flight at a time.
// The session merges later output and sends the merged output next. Thread-safe. The session holds
// no lock while calling the sink or the cancellation callback.
class Session {
 public:
  // `clock` must outlive the session.
  Session(std::shared_ptr<OutputSink> sink, const Clock& clock, Time arrival, Time deadline)
      : arrival_(arrival), deadline_(deadline), clock_(clock), sink_(std::move(sink)) {}

  Time arrival() const { return arrival_; }
  Time deadline() const { return deadline_; }
  // The name of the request: `request_id` of the client, or a label that the server generated.
  // set_label must be called before the first Write.
  const std::string& label() const { return label_; }
  void set_label(std::string label) { label_ = std::move(label); }

  // Keeps `slot` until ReleaseSlot or the destructor. While a session keeps a slot, its request
  // counts against --requests-max.
  void KeepSlot(RequestCounter::Slot slot);
  void ReleaseSlot();

  // Sets the callback for a cancellation. If the client has already cancelled, calls `on_cancel`
  // now. `on_cancel` is called at most once.
  void OnCancelCall(std::function<void()> on_cancel);
  // Merges `part` with the output that waits to be sent. Does nothing after End or a cancellation.
  // Returns the estimated number of bytes that `part` adds to the waiting output. Returns 0 if
  // Write does nothing or passes a part to the sink.
  size_t Write(OutputPart part);
  // Ends the call with `status` after all written output is sent. Later calls of End have no
  // effect.
  void End(absl::Status status);
  // Discards the output that waits to be sent, and ends the call with `status`.
  void Abandon(absl::Status status);
  // Ends the call without waiting for the client to read the part in flight.
  void Reset();

  // Returns the estimated size of the output that waits behind the part in flight, in bytes.
  size_t num_waiting_bytes() const;
  bool cancelled() const;
  // Returns CANCELLED if the client has cancelled or disconnected, DEADLINE_EXCEEDED if the
  // deadline has passed, otherwise OK.
  absl::Status CheckWanted() const;
  // Returns kDeadline if the call was cancelled close to its deadline, otherwise kCancelled. gRPC
  // and the client cancel a call whose deadline has passed. The cancellation may arrive slightly
  // before `deadline()`, because client and server start to count at different times. In addition,
  // gRPC rounds timeouts up by as much as one percent.
  FinishReason CancelReason() const;
  // Returns the time at which the part in flight was passed to the sink; nullopt if no part is in
  // flight.
  std::optional<Time> write_begin() const;

  // Called by the sink when the client has read the part in flight. `ok` is false if the client has
  // disconnected.
  void OnDelivered(bool ok);
  // Called by the sink when the client has disconnected or the protocol has ended the call.
  void OnCancelled();

 private:
  enum class Action { kNone, kDeliver, kEnd };

  // Returns the next action for the sink, and records that the action has started. The caller must
  // then release the lock and call Act.
  Action Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Calls the function of the sink for `action`.
  void Act(Action action);

  const Time arrival_, deadline_;
  const Clock& clock_;
  const std::shared_ptr<OutputSink> sink_;
  std::string label_;
  OutputPart in_flight_;  // part for the sink; set by Advance, moved out by Act

  mutable Mutex mutex_;
  RequestCounter::Slot slot_ ABSL_GUARDED_BY(mutex_);
  OutputMerger pending_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> on_cancel_ ABSL_GUARDED_BY(mutex_);
  // Time at which the part in flight was passed to the sink. Absent if no part is in flight.
  std::optional<Time> write_begin_ ABSL_GUARDED_BY(mutex_);
  std::optional<Time> cancel_time_ ABSL_GUARDED_BY(mutex_);
  bool is_resetting_ ABSL_GUARDED_BY(mutex_) = false;
  // True if the sink has received the final status, or receives the status now.
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace incipit
