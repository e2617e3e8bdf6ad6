// Starts and ends draining. While the server drains, the engine refuses new requests, and the
// health state of the server is NOT_SERVING.
#pragma once

#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "engine/engine.h"
#include "server/rpc/health.h"

namespace incipit {

// A switch for draining. Makes the engine refuse or accept new requests, and sets the health state
// of the server to NOT_SERVING or SERVING. Thread-safe.
class DrainSwitch {
 public:
  // REQUIRES: `engine`, `health` and `clock` outlive the DrainSwitch.
  DrainSwitch(Engine& engine, Health& health, const Clock& clock)
      : engine_(engine), health_(health), clock_(clock) {}

  // Makes the engine refuse new requests, and sets the health state of the server to NOT_SERVING.
  void Drain() {
    MutexLock lock(mutex_);
    DrainLocked();
  }
  // Drains the server until the process ends: all later calls of Resume fail.
  void Stop() {
    MutexLock lock(mutex_);
    is_stopping_ = true;
    DrainLocked();
  }
  // Ends the effect of Drain: the engine accepts new requests again, and the health state is
  // SERVING. Returns FAILED_PRECONDITION after Stop, or if the engine has failed.
  absl::Status Resume() {
    MutexLock lock(mutex_);
    if (is_stopping_) return FailedPrecondition("the server is stopping");
    INCIPIT_RETURN_IF_ERROR(engine_.Resume());
    health_.SetDraining(false);
    is_draining_ = false;
    return absl::OkStatus();
  }
  // Makes Drain and Stop call `on_drain`. If the server drains already, calls `on_drain` now. If
  // `on_drain` is null, Drain and Stop call no function. After the return of SetOnDrain, no thread
  // calls the previous function. `on_drain` must not call the DrainSwitch.
  void SetOnDrain(std::function<void()> on_drain) {
    MutexLock lock(mutex_);
    on_drain_ = std::move(on_drain);
    if (is_draining_ && on_drain_) on_drain_();
  }

 private:
  void DrainLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    // A client that has read NOT_SERVING relies on the refusal of new requests. So the engine
    // refuses them first. The deadline is the present time, so Engine::Drain does not wait for
    // running requests.
    engine_.Drain(clock_.Now());
    health_.SetDraining(true);
    is_draining_ = true;
    if (on_drain_) on_drain_();
  }

  Engine& engine_;
  Health& health_;
  const Clock& clock_;
  Mutex mutex_;
  bool is_draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> on_drain_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace incipit
