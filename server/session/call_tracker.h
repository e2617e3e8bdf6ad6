// Counts the calls in progress, applies limits to the counts, and reports when no call is in
// progress.
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
  int32_t calls_max = 0;             // maximum number of calls in progress
  int32_t connection_calls_max = 0;  // maximum number of calls in progress on one connection
};

// A call counts against the limits until Release, when gRPC has received the status of the call. A
// client that reads nothing can delay the end of the call (End) for a long time. Thread-safe.
// Callbacks run without a lock.
class CallTracker {
 public:
  enum class Verdict { kAdmitted, kTooMany, kTooManyOfConnection };

  explicit CallTracker(CallLimits limits) : limits_(limits) {}

  // Counts a new call, unless a limit is reached. `connection` identifies the connection of the
  // client. If the call is admitted, the caller must call Release once and then End once.
  [[nodiscard]] Verdict Begin(const std::string& connection);
  // Stops counting one call of `connection` against the limits.
  void Release(const std::string& connection);
  // Marks one call as ended. If no other call is in progress, runs the callbacks of WhenIdle.
  void End();

  // Calls `on_idle` once when no call is in progress: either immediately, or from the End of the
  // last call. Returns a ticket for Forget.
  uint64_t WhenIdle(std::function<void()> on_idle);
  // Removes the callback of `ticket` if the callback has not been called yet.
  void Forget(uint64_t ticket);

 private:
  const CallLimits limits_;
  Mutex mutex_;
  int32_t num_calls_ ABSL_GUARDED_BY(mutex_) = 0;    // number of calls between Begin and End
  int32_t num_counted_ ABSL_GUARDED_BY(mutex_) = 0;  // number of calls between Begin and Release
  // Number of calls between Begin and Release, by connection.
  std::unordered_map<std::string, int32_t> by_connection_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_ticket_ ABSL_GUARDED_BY(mutex_) = 1;
  // Callbacks of WhenIdle that have not been called, by ticket.
  std::map<uint64_t, std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace incipit
