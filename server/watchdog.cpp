#include "server/watchdog.h"

#include <algorithm>
#include <utility>

namespace incipit {

Watchdog::~Watchdog() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::Start() {
  thread_ = std::thread([this] { Work(); });
}

void Watchdog::Look(Duration elapsed) {
  const Time beat = hooks_.heartbeat();
  silence_ = beat == std::exchange(last_beat_, beat) ? silence_ + std::min(elapsed, 2 * kPeriod)
                                                     : Duration::zero();
  const Duration allowed = std::clamp(kSteps * hooks_.step_longest(), kSilenceMin, kSilenceMax);
  if (const bool hangs = silence_ > allowed; hangs != std::exchange(hangs_, hangs)) {
    hooks_.on_change(!hangs);
  }
  if (silence_ > allowed + kGrace && !std::exchange(is_stuck_, true)) hooks_.on_stuck();
}

void Watchdog::Work() {
  Time last_look = std::chrono::steady_clock::now();
  while (true) {
    {
      MutexLock lock(mutex_);
      if (!stopping_) changed_.wait_for(mutex_, kPeriod);
      if (stopping_) return;
    }
    const Time now = std::chrono::steady_clock::now();
    Look(now - std::exchange(last_look, now));
  }
}

}  // namespace incipit
