// Connects the thread that finishes the start of the server with the thread that waits for it.
#pragma once

#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace incipit {

// Calls a function once, as soon as both Set and Call have been called. Thread-safe. Holds no lock
// during the call.
class ReadySignal {
 public:
  void Set() {
    {
      MutexLock lock(mutex_);
      is_set_ = true;
    }
    CallIfReady();
  }
  // Calls `on_ready` now or in Set. REQUIRES: called at most once.
  void Call(std::function<void()> on_ready) {
    {
      MutexLock lock(mutex_);
      on_ready_ = std::move(on_ready);
    }
    CallIfReady();
  }

 private:
  void CallIfReady() {
    std::function<void()> on_ready;
    {
      MutexLock lock(mutex_);
      if (is_set_) on_ready = std::exchange(on_ready_, nullptr);
    }
    if (on_ready) on_ready();
  }

  Mutex mutex_;
  bool is_set_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> on_ready_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace incipit
