// Tests the expected wait that GetLoad reports, and the retry delays that depend on this wait. The
// model of step time learns from durations that the tests set. No step runs before a test has read
// the results.
#include <gtest/gtest.h>

#include <thread>
#include <utility>

#include "server/session/retry_delay.h"
#include "tests/server/test_server.h"

namespace incipit {
namespace {

using std::chrono::milliseconds;

const std::vector<TokenId> kTenTokens = {10, 11, 12, 13, 14, 15, 16, 17, 18, 19};

// A server whose first step waits, and `num_requests` requests with prompts of 10 tokens.
class BusyServer {
 public:
  BusyServer(TestServerConfig config, uint32_t num_requests) : server(std::move(config)) {
    server.gate().Close();
    for (uint32_t i = 0; i < num_requests; ++i) {
      clients_.emplace_back(
          [this] { EXPECT_TRUE(Ask(server.inference(), Greedy(kTenTokens, 2)).status.ok()); });
    }
    server.AwaitLoad(
        [&](const auto& load) { return load.running() + load.waiting() == num_requests; });
  }
  ~BusyServer() {
    server.gate().Open();
    for (std::thread& client : clients_) client.join();
  }

  TestServer server;

 private:
  std::vector<std::thread> clients_;
};

TEST(ExpectedWaitTest, IsAbsentUntilStepsAreMeasured) {
  TestServer server;
  EXPECT_FALSE(server.Load().has_expected_wait_seconds());
  server.gate().Close();
  EXPECT_FALSE(server.Load().has_expected_wait_seconds());
  server.gate().Open();
  for (TokenId first = 0; first < 20; ++first) {
    ASSERT_TRUE(Ask(server.inference(), Greedy({first, 11, 12}, 1)).status.ok());
  }
  EXPECT_TRUE(server.Load().has_expected_wait_seconds());
  EXPECT_GT(server.Load().expected_wait_seconds(), 0);
}

TEST(ExpectedWaitTest, GrowsWithThePromptsThatWait) {
  TestServerConfig config;
  config.measured_steps = StepsOf(milliseconds(100));
  const TestServerConfig same = config;
  TestServer idle(std::move(config));
  EXPECT_LT(idle.Load().expected_wait_seconds(), 0.2);
  for (const uint32_t num_requests : {1, 5}) {
    BusyServer busy(same, num_requests);
    EXPECT_NEAR(busy.server.Load().expected_wait_seconds(), num_requests, 0.25);
  }
}

TEST(RetryDelayTest, IsAQuarterOfTheExpectedWait) {
  TestServerConfig config;
  config.options.requests_max = 4;
  config.measured_steps = StepsOf(milliseconds(1000));
  BusyServer busy(std::move(config), 4);
  const double wait = busy.server.Load().expected_wait_seconds();
  EXPECT_NEAR(wait, 40, 4);
  const grpc::Status refused = Ask(busy.server.inference(), Greedy(kTenTokens, 2)).status;
  EXPECT_EQ(ReasonOf(refused), "QUEUE_FULL");
  EXPECT_NEAR(RetrySecondsOf(refused), wait / 4, 0.01);
}

TEST(RetryDelayTest, IsFromOneSecondToOneMinute) {
  EXPECT_EQ(RetryDelayFor(std::nullopt), kRetryDelayMin);
  EXPECT_EQ(RetryDelayFor(milliseconds(3900)), kRetryDelayMin);
  EXPECT_EQ(RetryDelayFor(milliseconds(20'000)), milliseconds(5000));
  EXPECT_EQ(RetryDelayFor(std::chrono::hours(1)), kRetryDelayMax);
  EXPECT_EQ(kRetryDelayMin, std::chrono::seconds(1));
  EXPECT_EQ(kRetryDelayMax, std::chrono::minutes(1));
}

}  // namespace
}  // namespace incipit
