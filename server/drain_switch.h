// Whether the server takes requests: the engine and health, changed as one.
#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "engine/engine.h"
#include "server/rpc/health.h"

namespace incipit {

// Thread-safe. Neither the engine nor health calls back, so the lock is held while they are called:
// of a Drain and a Resume at the same time, one is in force for both.
class DrainSwitch {
 public:
  // Everything outlives the switch.
  DrainSwitch(Engine& engine, Health& health, const Clock& clock)
      : engine_(engine), health_(health), clock_(clock) {}

  // Refuses new requests; health turns NOT_SERVING.
  void Drain() {
    MutexLock lock(mutex_);
    DrainLocked();
  }
  // Drains for good: Resume fails from now on.
  void Stop() {
    MutexLock lock(mutex_);
    is_stopping_ = true;
    DrainLocked();
  }
  // Takes new requests again. FAILED_PRECONDITION after Stop, or if the engine has failed.
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
    engine_.Drain(clock_.Now());  // a deadline that has come: does not wait
  }

  Engine& engine_;
  Health& health_;
  const Clock& clock_;
  Mutex mutex_;
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace incipit
