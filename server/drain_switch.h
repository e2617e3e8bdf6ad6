// Starts and ends draining. While the server drains, the engine refuses requests, and the health
// state is NOT_SERVING.
#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "engine/engine.h"
#include "server/rpc/health.h"

namespace incipit {

// Makes the engine refuse or accept requests, and sets the health state to NOT_SERVING or SERVING.
// Thread-safe.
class DrainSwitch {
 public:
  // REQUIRES: `engine`, `health` and `clock` outlive the DrainSwitch.
  DrainSwitch(Engine& engine, Health& health, const Clock& clock)
      : engine_(engine), health_(health), clock_(clock) {}

  // Makes the engine refuse new requests and changes the health state to NOT_SERVING.
  void Drain() {
    MutexLock lock(mutex_);
    DrainLocked();
  }
  // Makes the engine refuse new requests until the process ends: all later calls of Resume fail.
  void Stop() {
    MutexLock lock(mutex_);
    is_stopping_ = true;
    DrainLocked();
  }
  // Ends the effect of Drain: the engine accepts requests again, and the health state is SERVING.
  // Returns FAILED_PRECONDITION after Stop, or if the engine has failed.
  absl::Status Resume() {
    MutexLock lock(mutex_);
    if (is_stopping_) return FailedPrecondition("the server is stopping");
    INCIPIT_RETURN_IF_ERROR(engine_.Resume());
    health_.SetDraining(false);
    return absl::OkStatus();
  }

 private:
  void DrainLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    health_.SetDraining(true);
    engine_.Drain(clock_.Now());  // deadline now: Engine::Drain does not wait for requests
  }

  Engine& engine_;
  Health& health_;
  const Clock& clock_;
  Mutex mutex_;
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace incipit
