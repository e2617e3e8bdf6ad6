// An interface through which a session sends its output: implemented by the gRPC calls and by
// tests.
#pragma once

#include "absl/status/status.h"
#include "server/session/output.h"

namespace incipit {

// Receives the output of one session. A session calls one function of its OutputSink at a time, on
// any thread and without a lock, and calls no function after End.
class OutputSink {
 public:
  virtual ~OutputSink() = default;

  // Sends `part` to the client. The OutputSink must call Session::OnDelivered, during Deliver or
  // later, when the next part can be sent.
  virtual void Deliver(OutputPart part) = 0;
  // Ends the call with `status`. ErrorOf(status) returns the details of an error.
  virtual void End(const absl::Status& status) = 0;
  // Ends the call immediately, even if the client has not read all delivered output. The OutputSink
  // must then call Session::OnCancelled. If a part of the output is being sent, the OutputSink must
  // also call Session::OnDelivered.
  virtual void Reset() = 0;
};

}  // namespace incipit
