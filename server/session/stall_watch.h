// Ends the calls of clients that stop reading output (--write-stall-timeout).
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "server/session/session.h"

namespace incipit {

// A session stalls if its client has not read the part in flight for the timeout. The call of a
// stalled session is abandoned: the rest of the output is discarded. If the part is still in flight
// after a second timeout, the call is reset. Not thread-safe.
class StallWatch {
 public:
  struct EndedSession {
    std::shared_ptr<Session> session;
    bool is_abandoned = false;
  };

  explicit StallWatch(Duration timeout) : timeout_(timeout) {}

  // Returns true if the part in flight of `session` has waited for the timeout.
  bool IsStalled(const Session& session, Time now) const { return Stalls(session, now, 1); }
  // Returns the status for a call that is abandoned.
  absl::Status Refusal() const;

  // Adds a session that has ended. The StallWatch checks `session` until its client has read the
  // last part.
  void AddEnded(std::shared_ptr<Session> session, bool is_abandoned);
  bool empty() const { return ended_.empty(); }
  // Abandons or resets the stalled sessions among the sessions of AddEnded. Also abandons sessions
  // whose deadline has passed.
  void CheckEnded(Time now);
  // Returns the sessions of AddEnded whose client may not have read the last part.
  std::vector<EndedSession>& ended() { return ended_; }

 private:
  // Returns true if the part in flight of `session` has waited for `num_timeouts` times the
  // timeout.
  bool Stalls(const Session& session, Time now, int num_timeouts) const;
  void DropTaken();

  const Duration timeout_;
  std::vector<EndedSession> ended_;
  size_t ended_max_ = 64;  // number of sessions in `ended_` above which DropTaken runs
};

}  // namespace incipit
