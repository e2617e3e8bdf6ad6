// The state that the health service of gRPC (grpc.health.v1) reports to load balancers and probes.
#pragma once

#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace grpc {
class HealthCheckServiceInterface;
}

namespace incipit {

// Reports the health of the gRPC services to clients. incipit.v1.Inference is NOT_SERVING while the
// server drains, while the engine hangs, and after Stop. incipit.v1.Admin is always SERVING.
// Thread-safe.
class Health {
 public:
  // Starts to write the health state to `services`, the health services of the gRPC servers.
  // REQUIRES: `services` exist until Stop returns.
  void Start(std::vector<grpc::HealthCheckServiceInterface*> services);
  void SetHanging(bool hanging);
  void SetDraining(bool draining);
  // Returns true after Stop, or if the engine hangs.
  bool is_broken() const;
  bool is_draining() const;
  // Writes NOT_SERVING to the health services for all gRPC services except Admin. Later calls do
  // not access the health services.
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
