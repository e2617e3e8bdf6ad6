#include "server/rpc/health.h"

#include <grpcpp/health_check_service_interface.h>

#include <utility>

namespace incipit {
namespace {

// Names of the gRPC services whose health is NOT_SERVING while the server drains, while the engine
// hangs, and after Health::Stop. The empty name stands for the whole server.
constexpr const char* kServices[] = {"", "incipit.v1.Inference"};
constexpr const char* kAdminService = "incipit.v1.Admin";

}  // namespace

void Health::Start(std::vector<grpc::HealthCheckServiceInterface*> services) {
  MutexLock lock(mutex_);
  services_ = std::move(services);
  for (auto* const service : services_) service->SetServingStatus(kAdminService, true);
  Publish();
}

void Health::SetHanging(bool hanging) {
  MutexLock lock(mutex_);
  hanging_ = hanging;
  Publish();
}

void Health::SetDraining(bool draining) {
  MutexLock lock(mutex_);
  draining_ = draining;
  Publish();
}

void Health::SetPrewarming(bool prewarming) {
  MutexLock lock(mutex_);
  prewarming_ = prewarming;
  Publish();
}

bool Health::is_broken() const {
  MutexLock lock(mutex_);
  return hanging_ || stopped_;
}

bool Health::is_draining() const {
  MutexLock lock(mutex_);
  return draining_;
}

bool Health::is_prewarming() const {
  MutexLock lock(mutex_);
  return prewarming_;
}

void Health::Stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  Publish();
  services_.clear();
}

// Writes the current health state to the health services of all gRPC servers. The caller holds
// `mutex_`, so that concurrent changes are written in their order.
void Health::Publish() {
  const bool serving = !hanging_ && !draining_ && !prewarming_ && !stopped_;
  for (auto* const service : services_) {
    for (const char* const name : kServices) service->SetServingStatus(name, serving);
  }
}

}  // namespace incipit
