#include "server/drain_switch.h"

#include <grpcpp/health_check_service_interface.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/engine/engine_fixture.h"

namespace incipit {
namespace {

// Records whether the engine refused new requests when the health state became NOT_SERVING.
class HealthRecorder final : public grpc::HealthCheckServiceInterface {
 public:
  explicit HealthRecorder(const Engine& engine) : engine_(engine) {}

  void SetServingStatus(const std::string& service, bool serving) override {
    if (service != "incipit.v1.Inference" || serving) return;
    is_seen_ = true;
    is_refusing_ = engine_.Load().draining;
  }
  void SetServingStatus(bool serving) override {
    SetServingStatus("incipit.v1.Inference", serving);
  }

  bool is_seen() const { return is_seen_; }
  bool is_refusing() const { return is_refusing_; }

 private:
  const Engine& engine_;
  bool is_seen_ = false, is_refusing_ = false;
};

TEST(DrainSwitchTest, TheEngineRefusesRequestsBeforeTheHealthChanges) {
  EngineFixture fixture;
  HealthRecorder recorder(*fixture.engine);
  Health health;
  health.Start({&recorder});
  DrainSwitch drain(*fixture.engine, health, fixture.clock);
  EXPECT_FALSE(recorder.is_seen());
  drain.Drain();
  EXPECT_TRUE(recorder.is_seen());
  EXPECT_TRUE(recorder.is_refusing());
  health.Stop();
}

}  // namespace
}  // namespace incipit
