#include "server/rpc/health.h"

#include <grpcpp/health_check_service_interface.h>

#include <algorithm>
#include <utility>

namespace incipit {
namespace {

// What takes no requests while the server drains or its engine hangs; "" is the server.
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

void Health::Stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  Publish();
}

// Under the lock, so that the last change is the one that clients see: gRPC does not call back.
void Health::Publish() {
  const bool serving = !hanging_ && !draining_ && !stopped_;
  for (auto* const service : services_) {
    for (const char* const name : kServices) service->SetServingStatus(name, serving);
  }
}

Watchdog::~Watchdog() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::Start() {
  thread_ = std::thread([this] { Work(); });
}

void Watchdog::Look(Duration elapsed) {
  const Time beat = hooks_.heartbeat();
  silence_ = beat == std::exchange(last_beat_, beat) ? silence_ + std::min(elapsed, 2 * kPeriod)
                                                     : Duration::zero();
  const Duration allowed = std::clamp(kSteps * hooks_.step_longest(), kSilenceMin, kSilenceMax);
  if (const bool hangs = silence_ > allowed; hangs != std::exchange(hangs_, hangs)) {
    hooks_.on_change(!hangs);
  }
  if (silence_ > allowed + kGrace && !std::exchange(is_stuck_, true)) hooks_.on_stuck();
}

void Watchdog::Work() {
  Time last_look = std::chrono::steady_clock::now();
  while (true) {
    {
      MutexLock lock(mutex_);
      if (!stopping_) changed_.wait_for(mutex_, kPeriod);
      if (stopping_) return;
    }
    const Time now = std::chrono::steady_clock::now();
    Look(now - std::exchange(last_look, now));
  }
}

}  // namespace incipit
