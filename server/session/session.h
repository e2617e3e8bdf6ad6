// The client's side of one request, from arrival to the last token: its output on the way to the
// client, and the client's cancellation on the way to the engine.
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

// At most one part is in flight. Output that is written meanwhile is merged and sent next.
// Thread-safe; no lock is held while the sink or a hook is called.
class Session {
 public:
  // `clock` outlives the session.
  Session(std::shared_ptr<OutputSink> sink, const Clock& clock, Time arrival, Time deadline)
      : arrival_(arrival), deadline_(deadline), clock_(clock), sink_(std::move(sink)) {}

  Time arrival() const { return arrival_; }
  Time deadline() const { return deadline_; }
  // The client's name for the request, or one of the server's. Set before the first Write.
  const std::string& label() const { return label_; }
  void set_label(std::string label) { label_ = std::move(label); }

  // Keeps a slot among the requests that --requests-max bounds, until ReleaseSlot or destruction.
  void KeepSlot(RequestCounter::Slot slot);
  void ReleaseSlot();

  // Sets what to call on cancellation; calls it now if the client has left. At most once.
  void OnCancelCall(std::function<void()> on_cancel);
  // Merges `part` with what waits to be sent. Ignored after End or a cancellation. Returns the
  // estimated bytes that `part` adds to the output that waits.
  size_t Write(OutputPart part);
  // Ends the call after what was written. The first call counts.
  void End(absl::Status status);
  // Drops what waits to be sent and ends.
  void Abandon(absl::Status status);
  // Ends the call without waiting for the client to take anything.
  void Reset();

  // Estimated bytes of the output that waits behind the part in flight.
  size_t num_waiting_bytes() const;
  bool cancelled() const;
  // CANCELLED if the client has left, DEADLINE_EXCEEDED if the deadline has passed.
  absl::Status CheckWanted() const;
  // Why a client's call was cancelled. A passed deadline comes as a cancellation too: the protocol
  // ends the call by itself, and so does the client, a little earlier than this side would, since
  // both count from their own begin and gRPC rounds its timeouts up by as much as one percent.
  FinishReason CancelReason() const;
  // Since when the part in flight has been waiting for the client.
  std::optional<Time> write_begin() const;

  // The sink's: the part in flight was taken; `ok` is false if the client is gone.
  void OnDelivered(bool ok);
  // The sink's: the client has left, or the protocol ended the call.
  void OnCancelled();

 private:
  enum class Action { kNone, kDeliver, kEnd };

  // Decides what the sink is asked next and marks it as under way; Act asks it, without the lock.
  Action Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Act(Action action);

  const Time arrival_, deadline_;
  const Clock& clock_;
  const std::shared_ptr<OutputSink> sink_;
  std::string label_;
  OutputPart in_flight_;  // written by Advance, taken by the Act that follows

  mutable Mutex mutex_;
  RequestCounter::Slot slot_ ABSL_GUARDED_BY(mutex_);
  OutputMerger pending_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> on_cancel_ ABSL_GUARDED_BY(mutex_);
  std::optional<Time> write_begin_ ABSL_GUARDED_BY(mutex_);  // set while a part is in flight
  std::optional<Time> cancel_time_ ABSL_GUARDED_BY(mutex_);
  bool is_resetting_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // the sink has the status
};

}  // namespace incipit
