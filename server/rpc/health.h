// Whether this server wants traffic, as grpc.health.v1 tells load balancers, and the watchdog that
// changes its mind when the engine hangs.
#pragma once

#include <condition_variable>
#include <functional>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace grpc {
class HealthCheckServiceInterface;
}

namespace incipit {

// Thread-safe. SERVING while the server neither drains nor hangs. NOT_SERVING for good after Stop,
// but for incipit.v1.Admin: that is SERVING as long
// as there is a process that answers, for probes that have it restarted where there is none.
class Health {
 public:
  // SERVING from now on. `services` are those of the gRPC servers, which outlive the call of Stop.
  void Start(std::vector<grpc::HealthCheckServiceInterface*> services);
  void SetHanging(bool hanging);
  void SetDraining(bool draining);
  void Stop();

 private:
  void Publish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::vector<grpc::HealthCheckServiceInterface*> services_ ABSL_GUARDED_BY(mutex_);
  bool hanging_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

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
