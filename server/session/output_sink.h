// An interface through which a session (the object that handles the output of one request) sends
// the output. The gRPC calls, the HTTP calls and tests implement the interface.
#pragma once

#include "absl/status/status.h"
#include "server/session/output.h"

namespace incipit {

// Receives the output of one session. A session calls one function of its OutputSink at a time, on
// any thread and without a lock, and calls no function after End.
class OutputSink {
 public:
  virtual ~OutputSink() = default;

  // Sends `part` to the client. When the OutputSink can send the next part, it must call
  // Session::OnDelivered (during Deliver or later).
  virtual void Deliver(OutputPart part) = 0;
  // Ends the call of the client with `status`. If `status` is an error, ErrorOf(status) returns the
  // details.
  virtual void End(const absl::Status& status) = 0;
  // Ends the call immediately, even if the client has not read all output. The OutputSink must then
  // call Session::OnCancelled. If a part of the output is being sent, the OutputSink must also call
  // Session::OnDelivered.
  virtual void Reset() = 0;
};

}  // namespace incipit
