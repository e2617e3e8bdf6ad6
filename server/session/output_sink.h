// Where a session's output goes: a call of some protocol, or a test's memory.
#pragma once

#include "absl/status/status.h"
#include "server/session/output.h"

namespace incipit {

// The session calls one function at a time, on any thread and without a lock, and none after End.
class OutputSink {
 public:
  virtual ~OutputSink() = default;

  // Sends `part`. The sink calls Session::OnDelivered once it can take the next part, perhaps
  // before Deliver returns.
  virtual void Deliver(OutputPart part) = 0;
  // Ends the call: OK, or an error that ErrorOf reads.
  virtual void End(const absl::Status& status) = 0;
  // Ends the call without waiting for the client to take what was delivered. The sink calls
  // Session::OnCancelled as if the client had left, and OnDelivered if a part is in flight.
  virtual void Reset() = 0;
};

}  // namespace incipit
