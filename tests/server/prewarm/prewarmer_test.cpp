// Tests that a server computes the prompts of --prewarm before it is ready.
#include "server/prewarm/prewarmer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "tests/server/health.grpc.pb.h"
#include "tests/server/test_server.h"

namespace incipit {
namespace {

using grpc::health::v1::HealthCheckResponse;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int32_t kTokens = 64;  // 4 blocks

std::vector<TokenId> TokensFrom(TokenId first, int32_t num_tokens = kTokens) {
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < num_tokens; ++i) tokens.push_back(kFirstByte + (first + i) % 200);
  return tokens;
}

PrewarmPrompt PromptOf(int32_t line, std::vector<TokenId> tokens) {
  PrewarmPrompt prompt;
  prompt.line = line;
  prompt.tenant = "default";
  prompt.prompt = std::move(tokens);
  return prompt;
}

TestServerConfig ConfigOf(std::vector<PrewarmPrompt> prompts) {
  TestServerConfig config;
  config.prewarm = std::move(prompts);
  return config;
}

HealthCheckResponse::ServingStatus HealthOf(TestServer& server, const std::string& service) {
  const auto stub = grpc::health::v1::Health::NewStub(server.channel());
  grpc::ClientContext context;
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  HealthCheckResponse response;
  EXPECT_TRUE(stub->Check(&context, request, &response).ok());
  return response.status();
}

// Returns a future that is ready when the server is ready.
// The time at which the server is ready.
using ReadyTime = std::future<std::chrono::steady_clock::time_point>;

ReadyTime ReadyOf(TestServer& server) {
  const auto ready = std::make_shared<std::promise<std::chrono::steady_clock::time_point>>();
  server.server().WhenReady([ready] { ready->set_value(std::chrono::steady_clock::now()); });
  return ready->get_future();
}

bool IsReadyWithin(const ReadyTime& ready, milliseconds limit) {
  return ready.wait_for(limit) == std::future_status::ready;
}

uint32_t CachedTokens(TestServer& server, const std::vector<TokenId>& prompt,
                      const std::string& tenant = "", const std::string& salt = "") {
  v1::GenerateRequest request = Greedy(prompt, 1);
  request.mutable_cache()->set_salt(salt);
  const Reply reply = Ask(server.inference(), request, tenant);
  EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
  return reply.usage.cached_tokens();
}

TEST(PrewarmerTest, AServerWithoutPromptsIsReadyAtOnce) {
  TestServer server;
  EXPECT_TRUE(IsReadyWithin(ReadyOf(server), milliseconds(0)));
  EXPECT_EQ(HealthOf(server, ""), HealthCheckResponse::SERVING);
}

TEST(PrewarmerTest, TheServerIsReadyWhenThePromptsAreInTheCache) {
  TestServerConfig config = ConfigOf({PromptOf(1, TokensFrom(0)), PromptOf(2, TokensFrom(100))});
  PrewarmPrompt text;
  text.line = 3;
  text.tenant = "default";
  text.prompt = std::string(kTokens, 'x');
  config.prewarm.push_back(text);
  config.starts_closed = true;
  TestServer server(std::move(config));
  const ReadyTime ready = ReadyOf(server);
  server.gate().AwaitWaiting();
  EXPECT_EQ(HealthOf(server, ""), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(HealthOf(server, "incipit.v1.Inference"), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(HealthOf(server, "incipit.v1.Admin"), HealthCheckResponse::SERVING);
  EXPECT_FALSE(IsReadyWithin(ready, milliseconds(20)));
  server.gate().Open();
  ASSERT_TRUE(IsReadyWithin(ready, seconds(20)));
  EXPECT_EQ(HealthOf(server, ""), HealthCheckResponse::SERVING);
  EXPECT_EQ(CachedTokens(server, TokensFrom(0)), kTokens - 1);
  EXPECT_EQ(CachedTokens(server, TokensFrom(100)), kTokens - 1);
  EXPECT_EQ(CachedTokens(server, BytesAsTokens(std::string(kTokens, 'x'))), kTokens - 1);
  EXPECT_EQ(CachedTokens(server, TokensFrom(50)), 0u);
}

TEST(PrewarmerTest, APromptIsCachedForItsTenantAndSalt) {
  TestServerConfig config = ConfigOf({PromptOf(1, TokensFrom(0)), PromptOf(2, TokensFrom(100))});
  config.prewarm[0].tenant = "a";
  config.prewarm[1].salt = "s";
  TestServer server(std::move(config));
  ASSERT_TRUE(IsReadyWithin(ReadyOf(server), seconds(20)));
  EXPECT_EQ(CachedTokens(server, TokensFrom(0)), 0u);
  EXPECT_EQ(CachedTokens(server, TokensFrom(0), "a"), kTokens - 1);
  EXPECT_EQ(CachedTokens(server, TokensFrom(100)), 0u);
  EXPECT_EQ(CachedTokens(server, TokensFrom(100), "", "s"), kTokens - 1);
}

TEST(PrewarmerTest, PromptsThatAreRefusedDoNotStopTheOthers) {
  TestServerConfig config = ConfigOf(
      {PromptOf(1, TokensFrom(0, 2000)), PromptOf(2, {kByteVocab}), PromptOf(3, TokensFrom(0))});
  TestServer server(std::move(config));
  ASSERT_TRUE(IsReadyWithin(ReadyOf(server), seconds(20)));
  EXPECT_EQ(HealthOf(server, ""), HealthCheckResponse::SERVING);
  EXPECT_EQ(CachedTokens(server, TokensFrom(0)), kTokens - 1);
}

// At most one of the prompts may wait.
TEST(PrewarmerTest, PromptsForWhichTheQueueHasNoRoomAreSubmittedAgain) {
  TestServerConfig config = ConfigOf({});
  for (int32_t i = 0; i < 12; ++i) {
    config.prewarm.push_back(PromptOf(i + 1, TokensFrom(i * 10)));
  }
  config.options.waiting_prompt_tokens_max = kTokens + 1;
  TestServer server(std::move(config));
  ASSERT_TRUE(IsReadyWithin(ReadyOf(server), seconds(20)));
  for (int32_t i = 0; i < 12; ++i) {
    EXPECT_EQ(CachedTokens(server, TokensFrom(i * 10)), kTokens - 1) << i;
  }
}

// Returns a configuration with more prompts than run at the same time. The step with the first
// prompts is blocked until the test opens the gate.
TestServerConfig BlockedConfig() {
  TestServerConfig config = ConfigOf({});
  for (int32_t i = 0; i < 2 * kPrewarmRunningMax; ++i) {
    config.prewarm.push_back(PromptOf(i + 1, TokensFrom(i * 10)));
  }
  config.starts_closed = true;
  return config;
}

TEST(PrewarmerTest, TheServerIsReadyAfterTheTimeLimit) {
  TestServerConfig config = BlockedConfig();
  config.options.prewarm_timeout = milliseconds(300);
  const auto begin = std::chrono::steady_clock::now();
  TestServer server(std::move(config));
  ReadyTime ready = ReadyOf(server);
  ASSERT_TRUE(IsReadyWithin(ready, seconds(20)));
  EXPECT_GE(ready.get() - begin, milliseconds(300));
  EXPECT_EQ(HealthOf(server, ""), HealthCheckResponse::SERVING);
  server.gate().Open();
  server.AwaitLoad([](const v1::GetLoadResponse& load) {
    return load.running() == 0 && load.waiting() == 0 && load.used_blocks() == 0;
  });
  EXPECT_EQ(CachedTokens(server, TokensFrom(190)), 0u) << "the prompt should not be started";
}

TEST(PrewarmerTest, ClientsAreServedMeanwhile) {
  TestServerConfig config = ConfigOf({PromptOf(1, TokensFrom(0))});
  config.starts_closed = true;
  TestServer server(std::move(config));
  server.gate().AwaitWaiting();
  grpc::ClientContext context;
  const auto reader = server.inference().Generate(&context, Greedy({10, 11, 12}, 4));
  server.gate().Open();
  EXPECT_EQ(Collect(*reader).choices.at(0).ids, Expected({10, 11, 12}, 4));
}

TEST(PrewarmerTest, AServerThatStopsCancelsThePromptsAndIsNotReady) {
  TestServerConfig config = ConfigOf({});
  // So many prompts that the server stops before it has computed all of them.
  for (int32_t i = 0; i < 3000; ++i) config.prewarm.push_back(PromptOf(i + 1, TokensFrom(i, 900)));
  config.starts_closed = true;
  TestServer server(std::move(config));
  const auto is_ready = std::make_shared<std::atomic<bool>>(false);
  server.server().WhenReady([is_ready] { *is_ready = true; });
  server.gate().AwaitWaiting();
  server.Stop();
  EXPECT_FALSE(*is_ready);
}

// Waits until the metrics count a cancelled request. The thread that delivers outputs counts the
// request, possibly after the engine has ended the request. Returns false after 20 s.
bool AwaitCancelledRequest(TestServer& server) {
  const auto deadline = std::chrono::steady_clock::now() + seconds(20);
  while (server.Metric("incipit_requests_total{outcome=\"cancelled\",finish_reason=\"none\"}") <
         1) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

// The step with the first prompts is blocked, so no prompt can end before its cancellation. A text
// thread first submits a request to the engine. Then the text thread makes the cancellation of the
// session cancel the request. The test waits until the engine has all requests, so that the text
// threads have completed both steps for most of the requests.
TEST(PrewarmerTest, ADrainCancelsThePrompts) {
  TestServer server(BlockedConfig());
  const ReadyTime ready = ReadyOf(server);
  server.gate().AwaitWaiting();
  server.AwaitLoad([](const v1::GetLoadResponse& load) {
    return load.running() + load.waiting() == kPrewarmRunningMax;
  });
  server.server().BeginDrain();
  ASSERT_TRUE(IsReadyWithin(ready, seconds(20)));
  EXPECT_EQ(HealthOf(server, ""), HealthCheckResponse::NOT_SERVING);
  server.gate().Open();
  EXPECT_TRUE(AwaitCancelledRequest(server));
}

TEST(PrewarmerTest, PromptsAfterTheBeginOfADrainAreNotStarted) {
  TestServer server(BlockedConfig());
  const ReadyTime ready = ReadyOf(server);
  server.gate().AwaitWaiting();
  server.server().BeginDrain();
  server.gate().Open();
  ASSERT_TRUE(IsReadyWithin(ready, seconds(20)));
  EXPECT_EQ(HealthOf(server, ""), HealthCheckResponse::NOT_SERVING);
}

}  // namespace
}  // namespace incipit
