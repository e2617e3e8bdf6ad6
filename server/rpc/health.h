// Reports the health of the server to clients through the gRPC service grpc.health.v1.Health.
#pragma once

#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace grpc {
class HealthCheckServiceInterface;
}

namespace incipit {

// Reports the health of each gRPC service to clients. The health of incipit.v1.Inference is
// NOT_SERVING while the server computes the prompts of --prewarm, while the server drains, while
// the engine hangs, and after Stop. The health of incipit.v1.Admin is always SERVING. Thread-safe.
class Health {
 public:
  // Writes the health state to each health service in `services`, now and after each change.
  // REQUIRES: the elements of `services` exist until Stop returns.
  void Start(std::vector<grpc::HealthCheckServiceInterface*> services);
  void SetHanging(bool hanging);
  void SetDraining(bool draining);
  // True: the server computes or loads the prompts of --prewarm, and is not ready.
  void SetPrewarming(bool prewarming);
  // Returns true if the engine hangs, or if Stop has been called.
  bool is_broken() const;
  bool is_draining() const;
  bool is_prewarming() const;
  // Sets the health of all gRPC services except Admin to NOT_SERVING. After Stop, the functions of
  // this class do not access the health services of gRPC.
  void Stop();

 private:
  void Publish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::vector<grpc::HealthCheckServiceInterface*> services_ ABSL_GUARDED_BY(mutex_);
  bool hanging_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool prewarming_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace incipit
