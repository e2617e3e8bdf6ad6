// How many calls are in progress: the limits on them, and the wait for the last one when the server
// drains.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace incipit {

struct CallLimits {
  int32_t calls_max = 0;
  int32_t connection_calls_max = 0;
};

// A call counts against the limits until its status has been given to gRPC, since a client that
// takes nothing can hold back the end of the call itself for long. Thread-safe. Callbacks run
// without a lock.
class CallTracker {
 public:
  enum class Verdict { kAdmitted, kTooMany, kTooManyOfConnection };

  explicit CallTracker(CallLimits limits) : limits_(limits) {}

  // `connection` tells a client's connection from others. If the call is admitted, Release and then
  // End follow, once each.
  [[nodiscard]] Verdict Begin(const std::string& connection);
  void Release(const std::string& connection);
  void End();

  // Calls `on_idle` once, when no call is in progress: now, or from the End that makes it so.
  // Returns what Forget takes.
  uint64_t WhenIdle(std::function<void()> on_idle);
  void Forget(uint64_t ticket);

 private:
  const CallLimits limits_;
  Mutex mutex_;
  int32_t num_calls_ ABSL_GUARDED_BY(mutex_) = 0;                                   // until End
  int32_t num_counted_ ABSL_GUARDED_BY(mutex_) = 0;                                 // until Release
  std::unordered_map<std::string, int32_t> by_connection_ ABSL_GUARDED_BY(mutex_);  // of them
  uint64_t next_ticket_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<uint64_t, std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace incipit
