// Detects an engine that hangs.
#pragma once

#include <condition_variable>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace incipit {

// Checks once a second whether the engine makes progress. The watchdog counts at most two seconds
// per check, so a process that was stopped and continued does not count as hanging.
class Watchdog {
 public:
  struct Hooks {
    // Returns a time that changes while the engine is idle or makes progress.
    std::function<Time()> heartbeat;
    // Returns the maximum time that a step is expected to take.
    std::function<Duration()> step_longest;
    // Called with false when the engine begins to hang, and with true when the engine makes
    // progress again.
    std::function<void(bool)> on_change;
    // Called once, when the engine has been hanging for kGrace.
    std::function<void()> on_stuck;
  };
  static constexpr Duration kPeriod = std::chrono::seconds(1);  // time between two checks
  // The watchdog reports a hang after a time without progress of kSteps times `step_longest`, but
  // at least kSilenceMin and at most kSilenceMax.
  static constexpr Duration kSilenceMin = std::chrono::seconds(5);
  static constexpr Duration kSilenceMax = std::chrono::minutes(2);
  static constexpr int kSteps = 20;
  // Time from the beginning of a hang to the call of `on_stuck`.
  static constexpr Duration kGrace = std::chrono::seconds(30);

  explicit Watchdog(Hooks hooks) : hooks_(std::move(hooks)) {}
  ~Watchdog();

  // Starts the checks on a separate thread.
  void Start();
  // Runs one check; `elapsed` is the time since the previous check. REQUIRES: Start has not been
  // called.
  void Look(Duration elapsed);

 private:
  void Work();

  const Hooks hooks_;
  // After Start, `last_beat_`, `silence_`, `hangs_` and `is_stuck_` are used by `thread_` only.
  std::optional<Time> last_beat_;  // heartbeat of the previous check
  Duration silence_{};             // time since the last progress of the engine
  bool hangs_ = false, is_stuck_ = false;

  Mutex mutex_;
  std::condition_variable_any changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace incipit
