// The state of grpc.health.v1, from which load balancers learn whether this server takes requests.
#pragma once

#include <vector>

#include "absl/base/thread_annotations.h"
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
