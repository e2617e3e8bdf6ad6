// Tests the waiting times in the usage of a response.
#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "tests/server/test_server.h"

namespace incipit {
namespace {

const std::vector<TokenId> kFirst(100, 10);
const std::vector<TokenId> kOther(100, 20);

// Sends a request on its own thread.
class Call {
 public:
  Call(TestServer& server, const v1::GenerateRequest& request)
      : thread_([this, &server, request] { reply_ = Ask(server.inference(), request); }) {}
  // Waits for the end of the response, and returns its usage.
  v1::Usage End() {
    thread_.join();
    EXPECT_TRUE(reply_.status.ok()) << reply_.status.error_message();
    return reply_.usage;
  }

 private:
  Reply reply_;
  std::thread thread_;
};

// Returns the usage of a request for `prompt`. The request arrives while the first step of another
// request is computed, and waits at least until the second step is planned.
v1::Usage UsageOfSecond(TestServerConfig config, const std::vector<TokenId>& prompt) {
  TestServer server(std::move(config));
  server.gate().Close();
  Call first(server, Greedy(kFirst, 20));
  server.gate().AwaitWaiting();
  Call second(server, Greedy(prompt, 2));
  server.AwaitLoad([](const auto& load) { return load.running() + load.waiting() == 2; });
  server.gate().Open();
  first.End();
  v1::Usage usage = second.End();
  EXPECT_NEAR(usage.share_wait_seconds() + usage.room_wait_seconds() + usage.prefix_wait_seconds() +
                  usage.load_wait_seconds(),
              usage.queue_seconds(), 1e-6);
  return usage;
}

TEST(WaitUsageTest, ARequestWithoutASlotWaitsForItsShare) {
  TestServerConfig config;
  config.options.running_max = 1;
  const v1::Usage usage = UsageOfSecond(std::move(config), kOther);
  EXPECT_GT(usage.share_wait_seconds(), 0);
  EXPECT_TRUE(usage.has_room_wait_seconds());
  EXPECT_EQ(usage.room_wait_seconds(), 0);
  EXPECT_TRUE(usage.has_prefix_wait_seconds());
  EXPECT_EQ(usage.prefix_wait_seconds(), 0);
}

// The cache has 8 blocks, and each prompt needs 7 blocks.
TEST(WaitUsageTest, ARequestThatDoesNotFitWaitsForRoom) {
  TestServerConfig config;
  config.num_blocks = 8;
  config.max_model_len = 128;
  const v1::Usage usage = UsageOfSecond(std::move(config), kOther);
  EXPECT_GT(usage.room_wait_seconds(), 0);
  EXPECT_EQ(usage.prefix_wait_seconds(), 0);
}

// Each step computes 16 tokens. The second prompt has few tokens, so the second step tries to start
// its request.
TEST(WaitUsageTest, ARequestWithTheSameBeginningWaitsForThePrefix) {
  TestServerConfig config;
  config.step_tokens_max = 16;
  const v1::Usage usage = UsageOfSecond(std::move(config), std::vector<TokenId>(50, 10));
  EXPECT_GT(usage.prefix_wait_seconds(), 0);
  EXPECT_EQ(usage.room_wait_seconds(), 0);
}

}  // namespace
}  // namespace incipit
