// Counts the calls of clients (such as Generate and Chat) that are in progress, limits their
// number, and reports when no call is in progress.
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

// Counts calls. A call is in progress from Begin() to End(). A call counts toward the limits in
// CallLimits only from Begin() to Release(), and Release() comes before End(). Thread-safe. Holds
// no lock while a callback of WhenIdle() runs.
class CallTracker {
 public:
  enum class Verdict { kAdmitted, kTooMany, kTooManyOfConnection };

  explicit CallTracker(CallLimits limits) : limits_(limits) {}

  // Counts a new call of the connection `connection`, unless a limit is reached. Returns kAdmitted,
  // or the limit that is reached. After kAdmitted, the caller must call Release once and then End
  // once.
  [[nodiscard]] Verdict Begin(const std::string& connection);
  // Stops counting one call of the connection `connection` against the limits. The call may still
  // be in progress.
  void Release(const std::string& connection);
  // Reports the end of one call. If no other call is in progress, calls the callbacks that WhenIdle
  // has stored.
  void End();

  // Calls `on_idle` once: immediately if no call is in progress, otherwise when no call is in
  // progress any more. Returns a ticket (a number) with which Forget removes the callback.
  uint64_t WhenIdle(std::function<void()> on_idle);
  // Removes the callback for which WhenIdle returned `ticket`. Does nothing if the callback was
  // already called.
  void Forget(uint64_t ticket);

 private:
  const CallLimits limits_;
  Mutex mutex_;
  // Number of calls in progress (between Begin and End).
  int32_t num_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  // Number of calls between Begin() and Release(), limited by CallLimits::calls_max.
  int32_t num_counted_ ABSL_GUARDED_BY(mutex_) = 0;
  // Number of calls between Begin and Release on each connection. The key is the name of the
  // connection.
  std::unordered_map<std::string, int32_t> by_connection_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_ticket_ ABSL_GUARDED_BY(mutex_) = 1;
  // Callbacks of WhenIdle that have not been called yet. The key is the ticket that WhenIdle
  // returned.
  std::map<uint64_t, std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace incipit
