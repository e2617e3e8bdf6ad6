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

// Looks once a second whether the engine still makes progress. It counts only time in which it
// could look itself, so that a process that was stopped and continued is not taken for one that
// hangs.
class Watchdog {
 public:
  struct Hooks {
    std::function<Time()> heartbeat;         // changes while the engine is idle or makes progress
    std::function<Duration()> step_longest;  // the longest step to expect
    std::function<void(bool)> on_change;     // false: it hangs; true: it goes on
    std::function<void()> on_stuck;          // once: it has hung for another kGrace
  };
  static constexpr Duration kPeriod = std::chrono::seconds(1);
  static constexpr Duration kSilenceMin = std::chrono::seconds(5);
  static constexpr Duration kSilenceMax = std::chrono::minutes(2);
  static constexpr int kSteps = 20;  // silence allowed, in longest steps, between the two bounds
  static constexpr Duration kGrace = std::chrono::seconds(30);

  explicit Watchdog(Hooks hooks) : hooks_(std::move(hooks)) {}
  ~Watchdog();

  void Start();  // looks from now on, on a thread of its own
  // One look, `elapsed` after the one before. REQUIRES: not started.
  void Look(Duration elapsed);

 private:
  void Work();

  const Hooks hooks_;
  std::optional<Time> last_beat_;  // from here on the thread's own
  Duration silence_{};
  bool hangs_ = false, is_stuck_ = false;

  Mutex mutex_;
  std::condition_variable_any changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace incipit
