// Reports the health of the server through the health service of gRPC (grpc.health.v1).
#pragma once

#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace grpc {
class HealthCheckServiceInterface;
}

namespace incipit {

// Reports the health of each gRPC service to clients. incipit.v1.Inference is NOT_SERVING while the
// server drains or the engine hangs, and after Stop. incipit.v1.Admin is always SERVING.
// Thread-safe.
class Health {
 public:
  // Sets the health state in each element of `services` from now on. REQUIRES: the elements of
  // `services` exist until Stop returns.
  void Start(std::vector<grpc::HealthCheckServiceInterface*> services);
  void SetHanging(bool hanging);
  void SetDraining(bool draining);
  // Returns true if the engine hangs, or if Stop was called.
  bool is_broken() const;
  bool is_draining() const;
  // Sets the health state of all gRPC services except Admin to NOT_SERVING. Later calls do not
  // access the health services of gRPC.
  void Stop();

 private:
  void Publish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::vector<grpc::HealthCheckServiceInterface*> services_ ABSL_GUARDED_BY(mutex_);
  bool hanging_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace incipit
