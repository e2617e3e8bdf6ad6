#include "server/rpc/health.h"

#include <grpcpp/health_check_service_interface.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace incipit {
namespace {

class FakeHealthService final : public grpc::HealthCheckServiceInterface {
 public:
  void SetServingStatus(const std::string& name, bool serving) override {
    ++num_calls;
    is_serving[name] = serving;
  }
  void SetServingStatus(bool /*serving*/) override { ++num_calls; }

  int num_calls = 0;
  std::map<std::string, bool> is_serving;
};

// The engine may report a failure after the gRPC servers and their health services were destroyed.
TEST(HealthTest, TheServicesAreNotUsedAfterStop) {
  FakeHealthService service;
  Health health;
  health.Start({&service});
  EXPECT_TRUE(service.is_serving.at(""));
  health.Stop();
  EXPECT_FALSE(service.is_serving.at(""));
  EXPECT_TRUE(service.is_serving.at("incipit.v1.Admin"));
  const int num_calls = service.num_calls;
  health.Stop();
  health.SetHanging(true);
  health.SetDraining(false);
  EXPECT_EQ(service.num_calls, num_calls);
}

// Each reason alone makes the server not ready.
TEST(HealthTest, AServerThatPrewarmsIsNotServing) {
  FakeHealthService service;
  Health health;
  health.SetPrewarming(true);
  health.Start({&service});
  EXPECT_FALSE(service.is_serving.at(""));
  EXPECT_TRUE(service.is_serving.at("incipit.v1.Admin"));
  EXPECT_TRUE(health.is_prewarming());
  EXPECT_FALSE(health.is_broken());
  health.SetDraining(true);
  health.SetPrewarming(false);
  EXPECT_FALSE(service.is_serving.at(""));
  health.SetDraining(false);
  EXPECT_TRUE(service.is_serving.at(""));
  health.Stop();
}

}  // namespace
}  // namespace incipit
