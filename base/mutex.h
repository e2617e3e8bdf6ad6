// Declares a std::mutex with annotations for the option -Wthread-safety of clang. absl::Mutex is
// not used, because ThreadSanitizer reports false races for the version of absl::Mutex in the Linux
// package.
#pragma once

#include <mutex>

#include "absl/base/thread_annotations.h"

namespace incipit {

// A mutual-exclusion lock. To wait for a condition while holding this lock, use
// std::condition_variable_any.
class ABSL_LOCKABLE Mutex {
 public:
  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace incipit
