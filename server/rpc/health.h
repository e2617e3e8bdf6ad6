// The state of the grpc.health.v1 service, which load balancers and probes read.
#pragma once

#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace grpc {
class HealthCheckServiceInterface;
}

namespace incipit {

// Publishes SERVING for incipit.v1.Inference while the server accepts requests. The state of
// incipit.v1.Inference is NOT_SERVING while the server drains or the engine hangs, and forever
// after Stop. incipit.v1.Admin is always SERVING. A liveness probe of incipit.v1.Admin fails only
// if the process does not reply. Thread-safe.
class Health {
 public:
  // Starts to publish the state in `services`, the health services of the gRPC servers. `services`
  // must exist until Stop returns.
  void Start(std::vector<grpc::HealthCheckServiceInterface*> services);
  void SetHanging(bool hanging);
  void SetDraining(bool draining);
  // Publishes NOT_SERVING for the last time. The services are not used afterwards.
  void Stop();

 private:
  void Publish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::vector<grpc::HealthCheckServiceInterface*> services_ ABSL_GUARDED_BY(mutex_);
  bool hanging_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace incipit
