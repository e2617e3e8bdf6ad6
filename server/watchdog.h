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

// Checks once per second whether the engine makes progress. Each check adds at most two seconds to
// the time without progress, even if the process was suspended for longer.
class Watchdog {
 public:
  struct Hooks {
    // Returns the time when the engine last made progress, or the present time if the engine is
    // idle. If the engine hangs, consecutive calls return the same time.
    std::function<Time()> heartbeat;
    // Returns the maximum expected time of a step (batch) of the engine.
    std::function<Duration()> step_longest;
    // Called with false when a hang of the engine is reported, and with true when the engine makes
    // progress again.
    std::function<void(bool)> on_change;
    // Called once, when the engine still hangs after the time kGrace since the report of the hang.
    std::function<void()> on_stuck;
  };
  // Time between two checks of the engine.
  static constexpr Duration kPeriod = std::chrono::seconds(1);
  // A hang is reported after kSteps * `step_longest` without progress of the engine, but at the
  // earliest after kSilenceMin and at the latest after kSilenceMax.
  static constexpr Duration kSilenceMin = std::chrono::seconds(5);
  static constexpr Duration kSilenceMax = std::chrono::minutes(2);
  static constexpr int kSteps = 20;
  // Time from the report of a hang to the call of `on_stuck`.
  static constexpr Duration kGrace = std::chrono::seconds(30);

  explicit Watchdog(Hooks hooks) : hooks_(std::move(hooks)) {}
  ~Watchdog();

  // Starts a thread that checks the engine every kPeriod.
  void Start();
  // Checks the engine once. `elapsed` is the time since the previous check. REQUIRES: Start has not
  // been called.
  void Look(Duration elapsed);

 private:
  void Work();

  const Hooks hooks_;
  // After Start, only `thread_` uses `last_beat_`, `silence_`, `hangs_` and `is_stuck_`.
  std::optional<Time> last_beat_;  // value that `heartbeat` returned at the previous check
  Duration silence_{};             // time for which the engine has made no progress
  bool hangs_ = false, is_stuck_ = false;

  Mutex mutex_;
  std::condition_variable_any changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace incipit
