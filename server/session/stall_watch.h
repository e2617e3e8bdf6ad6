// Ends the calls of clients that have read no output for the time of the flag
// --write-stall-timeout.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "server/session/session.h"

namespace incipit {

// Finds clients that read too slowly. If a client has not read a sent part of the output within
// --write-stall-timeout, discards the output that waits for the client. If a client has not read
// the part within twice this time, ends the call of the client. Not thread-safe.
class StallWatch {
 public:
  struct EndedSession {
    std::shared_ptr<Session> session;
    bool is_abandoned = false;

    // Discards the output that has not been sent yet, and ends the call with `status`.
    void Abandon(absl::Status status) {
      is_abandoned = true;
      session->Abandon(std::move(status));
    }
  };

  explicit StallWatch(Duration timeout) : timeout_(timeout) {}

  // Returns true if the client of `session` has not read a sent part of the output for at least the
  // time `timeout_`.
  bool IsStalled(const Session& session, Time now) const { return Stalls(session, now, 1); }
  // Returns the error status for the call of a client that reads too slowly.
  absl::Status Refusal() const;

  // Adds a session whose request has ended. CheckEnded checks the session until the client has read
  // all output.
  void AddEnded(std::shared_ptr<Session> session, bool is_abandoned);
  bool empty() const { return ended_.empty(); }
  // Checks the sessions that AddEnded has added. Discards the waiting output of a session if the
  // client has read nothing for `timeout_`, or if the deadline of the call has passed. Ends a call
  // if the client has read nothing for twice the time `timeout_`.
  void CheckEnded(Time now);
  // Returns the sessions whose request has ended but whose client may not have read all output.
  std::vector<EndedSession>& ended() { return ended_; }

 private:
  // Returns true if the client of `session` has not read a sent part of the output for at least
  // `num_timeouts` times `timeout_`.
  bool Stalls(const Session& session, Time now, int num_timeouts) const;
  void DropTaken();

  const Duration timeout_;
  std::vector<EndedSession> ended_;
  // Number of elements of `ended_` above which AddEnded removes the sessions whose client has read
  // all output.
  size_t ended_max_ = 64;
};

}  // namespace incipit
