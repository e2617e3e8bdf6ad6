// The receiver of the output of a session: a call of some protocol, or a test.
#pragma once

#include "absl/status/status.h"
#include "server/session/output.h"

namespace incipit {

// The session calls one function of the sink at a time, on any thread and without holding a lock.
// The session calls no function of the sink after End.
class OutputSink {
 public:
  virtual ~OutputSink() = default;

  // Sends `part`. The sink must call Session::OnDelivered when the sink is ready for the next part.
  // The call of OnDelivered may happen before Deliver returns.
  virtual void Deliver(OutputPart part) = 0;
  // Ends the call with `status`. If `status` is an error, ErrorOf returns its details.
  virtual void End(const absl::Status& status) = 0;
  // Ends the call without waiting for the client to read the delivered parts. The sink must call
  // Session::OnCancelled, as if the client had disconnected. If a part is in flight, the sink must
  // also call Session::OnDelivered.
  virtual void Reset() = 0;
};

}  // namespace incipit
