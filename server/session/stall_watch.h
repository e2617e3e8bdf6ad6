// Ends the calls of clients that read nothing (--write-stall-timeout).
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "server/session/session.h"

namespace incipit {

// A client stalls if it has not taken the part in flight for `timeout`. Its call is then abandoned:
// the rest of the output is dropped. A call that still cannot end after another `timeout` is reset.
// Not thread-safe.
class StallWatch {
 public:
  struct EndedSession {
    std::shared_ptr<Session> session;
    bool is_abandoned = false;
  };

  explicit StallWatch(Duration timeout) : timeout_(timeout) {}

  bool IsStalled(const Session& session, Time now) const { return Stalls(session, now, 1); }
  // Returns the status of a call that is abandoned.
  absl::Status Refusal() const;

  // Watches a session that has ended, until its client has taken the last part.
  void AddEnded(std::shared_ptr<Session> session, bool is_abandoned);
  bool empty() const { return ended_.empty(); }
  // Abandons or resets the sessions of AddEnded that stall, and abandons those whose deadline has
  // passed: a client that takes a part now and then would hold the rest of the output for hours.
  void CheckEnded(Time now);
  // The sessions of AddEnded whose client may not have taken the last part.
  std::vector<EndedSession>& ended() { return ended_; }

 private:
  bool Stalls(const Session& session, Time now, int num_timeouts) const;
  void DropTaken();

  const Duration timeout_;
  std::vector<EndedSession> ended_;
  size_t ended_max_ = 64;  // sessions in ended_ before the next DropTaken
};

}  // namespace incipit
