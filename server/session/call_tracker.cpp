#include "server/session/call_tracker.h"

#include <utility>

#include "base/check.h"

namespace incipit {

CallTracker::Verdict CallTracker::Begin(const std::string& connection) {
  MutexLock lock(mutex_);
  if (num_counted_ >= limits_.calls_max) return Verdict::kTooMany;
  int32_t& of_connection = by_connection_[connection];
  if (of_connection >= limits_.connection_calls_max) return Verdict::kTooManyOfConnection;
  ++of_connection;
  ++num_counted_;
  ++num_calls_;
  return Verdict::kAdmitted;
}

void CallTracker::Release(const std::string& connection) {
  MutexLock lock(mutex_);
  const auto found = by_connection_.find(connection);
  INCIPIT_CHECK(found != by_connection_.end() && num_counted_ > 0);
  --num_counted_;
  if (--found->second == 0) by_connection_.erase(found);
}

void CallTracker::End() {
  std::map<uint64_t, std::function<void()>> waiting;
  {
    MutexLock lock(mutex_);
    INCIPIT_CHECK(num_calls_ > 0);
    if (--num_calls_ > 0) return;
    waiting.swap(waiting_);
  }
  for (const auto& [ticket, on_idle] : waiting) on_idle();
}

uint64_t CallTracker::WhenIdle(std::function<void()> on_idle) {
  uint64_t ticket = 0;
  {
    MutexLock lock(mutex_);
    ticket = next_ticket_++;
    if (num_calls_ > 0) {
      waiting_.emplace(ticket, std::move(on_idle));
      return ticket;
    }
  }
  on_idle();
  return ticket;
}

void CallTracker::Forget(uint64_t ticket) {
  MutexLock lock(mutex_);
  waiting_.erase(ticket);
}

}  // namespace incipit
