#include "server/session/stall_watch.h"

#include <algorithm>
#include <utility>

#include "server/session/request/request_error.h"

namespace incipit {

absl::Status StallWatch::Refusal() const {
  return Refuse(Reason::kWriteStalled,
                fmt::format("the client read no output for {} s, the limit of write-stall-timeout",
                            ToSeconds(timeout_)));
}

void StallWatch::AddEnded(std::shared_ptr<Session> session, bool is_abandoned) {
  ended_.push_back({std::move(session), is_abandoned});
  if (ended_.size() > ended_max_) DropTaken();
}

void StallWatch::CheckEnded(Time now) {
  DropTaken();
  for (EndedSession& ended : ended_) {
    if (Stalls(*ended.session, now, 2)) {
      ended.session->Reset();
    } else if (!ended.is_abandoned && IsStalled(*ended.session, now)) {
      ended.Abandon(Refusal());
    } else if (!ended.is_abandoned && now >= ended.session->deadline()) {
      ended.Abandon(Refuse(Reason::kDeadline,
                           "the deadline passed before the client had read the whole output"));
    }
  }
}

bool StallWatch::Stalls(const Session& session, Time now, int num_timeouts) const {
  const auto begin = session.write_begin();
  return begin && now - *begin >= num_timeouts * timeout_;
}

// Removes the sessions whose client has read all output. AddEnded calls DropTaken only when the
// number of sessions has doubled since the previous call, so the average time per session is
// constant.
void StallWatch::DropTaken() {
  std::erase_if(
      ended_, [](const EndedSession& ended) { return !ended.session->write_begin().has_value(); });
  ended_max_ = std::max<size_t>(64, 2 * ended_.size());
}

}  // namespace incipit
