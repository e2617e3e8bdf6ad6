#include "server/call_tracker.h"

#include <utility>

#include "base/check.h"

namespace incipit {

bool CallTracker::Begin() {
  MutexLock lock(mutex_);
  if (num_calls_ >= calls_max_) return false;
  ++num_calls_;
  return true;
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

int32_t CallTracker::num_calls() const {
  MutexLock lock(mutex_);
  return num_calls_;
}

}  // namespace incipit
