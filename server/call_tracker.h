// How many calls are in progress: the limit on them, and the wait for the last one when the server
// drains.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace incipit {

// Thread-safe. Callbacks run without a lock.
class CallTracker {
 public:
  explicit CallTracker(int32_t calls_max) : calls_max_(calls_max) {}

  // False if as many calls as are allowed are in progress; otherwise End follows, once.
  [[nodiscard]] bool Begin();
  void End();

  // Calls `on_idle` once, when no call is in progress: now, or from the End that makes it so.
  // Returns what Forget takes.
  uint64_t WhenIdle(std::function<void()> on_idle);
  void Forget(uint64_t ticket);

  int32_t num_calls() const;

 private:
  const int32_t calls_max_;
  mutable Mutex mutex_;
  int32_t num_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t next_ticket_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<uint64_t, std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace incipit
