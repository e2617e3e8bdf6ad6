// Tests RPCs of a gateway that end early, and a server that drains or stops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/gateway/gateway_client.h"

namespace incipit {
namespace {

namespace api = vllm::grpc::engine;
using grpc::StatusCode;
using ::testing::ElementsAreArray;

const std::vector<TokenId> kShortPrompt = {10, 11, 12, 13};

GatewayPrompt Named(const std::string& name, uint32_t num_tokens = 900, bool streams = true) {
  GatewayPrompt request = GatewayGreedy(kShortPrompt, num_tokens, streams);
  request.set_request_id(name);
  return request;
}

grpc::Status Abort(TestServer& server, const std::vector<std::string>& names) {
  grpc::ClientContext context;
  api::AbortRequest request;
  for (const std::string& name : names) request.add_request_ids(name);
  api::AbortResponse response;
  return VllmEngine::NewStub(server.channel())->Abort(&context, request, &response);
}

void AwaitIdle(TestServer& server) {
  server.AwaitLoad([](const v1::GetLoadResponse& load) {
    return load.running() == 0 && load.waiting() == 0 && load.used_blocks() == 0;
  });
}

// Returns when `num_requests` requests are in the engine. The server has then parsed these
// requests.
void AwaitRequests(TestServer& server, uint32_t num_requests) {
  server.AwaitLoad([=](const v1::GetLoadResponse& load) {
    return load.running() + load.waiting() == num_requests;
  });
}

TEST(GatewayLifecycleTest, AbortEndsARequestWithinAStep) {
  for (const bool streams : {false, true}) {
    TestServer server;
    server.gate().Close();
    GatewayCall call(server, Named("a", 900, streams));
    AwaitRequests(server, 1);
    server.gate().Allow(5);
    EXPECT_TRUE(Abort(server, {"a"}).ok());
    const GatewayReply reply = call.End();
    EXPECT_EQ(reply.status.error_code(), StatusCode::CANCELLED);
    EXPECT_TRUE(reply.completes.empty());
    server.gate().Allow(10);
    AwaitIdle(server);
  }
}

TEST(GatewayLifecycleTest, AbortEndsOnlyRequestsWithTheWholeName) {
  TestServer server;
  server.gate().Close();
  GatewayCall stays(server, Named("abc", 20));
  GatewayCall first(server, Named("ab"));
  GatewayCall second(server, Named("ab"));
  AwaitRequests(server, 3);
  EXPECT_TRUE(Abort(server, {"a", "unknown", "", "bc", "abcd"}).ok());
  AwaitRequests(server, 3);
  EXPECT_TRUE(Abort(server, {"ab"}).ok());
  EXPECT_EQ(first.End().status.error_code(), StatusCode::CANCELLED);
  EXPECT_EQ(second.End().status.error_code(), StatusCode::CANCELLED);
  server.gate().Open();
  EXPECT_THAT(stays.End().Tokens(), ElementsAreArray(Expected(kShortPrompt, 20)));
}

TEST(GatewayLifecycleTest, AbortDoesNotEndRequestsOfOtherServices) {
  TestServer server;
  server.gate().Close();
  v1::GenerateRequest request = Greedy(kShortPrompt, 20);
  request.set_request_id("a");
  grpc::ClientContext context;
  const auto reader = server.inference().Generate(&context, request);
  AwaitRequests(server, 1);
  EXPECT_TRUE(Abort(server, {"a"}).ok());
  server.gate().Open();
  const Reply reply = Collect(*reader);
  EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_THAT(reply.choices.at(0).ids, ElementsAreArray(Expected(kShortPrompt, 20)));
}

TEST(GatewayLifecycleTest, WithoutAnApiKeyNothingIsAbortedOrFlushed) {
  TestServerConfig config;
  config.api_keys = "secret\n";
  TestServer server(std::move(config));
  const auto stub = VllmEngine::NewStub(server.channel());
  const std::vector<TokenId> prompt(64, 9);
  const auto ask = [&](uint32_t num_tokens) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer secret");
    return CollectGateway(*stub->Generate(&context, GatewayGreedy(prompt, num_tokens, false)));
  };
  ASSERT_TRUE(ask(2).status.ok());
  grpc::ClientContext context;
  smg::grpc::common::FlushCacheResponse response;
  EXPECT_EQ(stub->FlushCache(&context, {}, &response).error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_GT(ask(2).completes.at(0).cached_tokens(), 0u) << "the cache was flushed";
  server.gate().Close();
  GatewayReply reply;
  std::thread asking([&] { reply = ask(20); });
  server.gate().AwaitWaiting();
  EXPECT_EQ(Abort(server, {"gateway-request"}).error_code(), StatusCode::UNAUTHENTICATED);
  server.gate().Open();
  asking.join();
  EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
}

TEST(GatewayLifecycleTest, ALongAbortWorksToo) {
  TestServer server;
  server.gate().Close();
  GatewayCall call(server, Named("wanted"));
  AwaitRequests(server, 1);
  std::vector<std::string> names(100'000, "someone-else");
  names.push_back("wanted");
  EXPECT_TRUE(Abort(server, names).ok());
  EXPECT_EQ(call.End().status.error_code(), StatusCode::CANCELLED);
}

TEST(GatewayLifecycleTest, AClientThatCancelsEndsItsRequest) {
  TestServer server;
  server.gate().Close();
  GatewayCall call(server, Named("a"));
  AwaitRequests(server, 1);
  call.Cancel();
  EXPECT_EQ(call.End().status.error_code(), StatusCode::CANCELLED);
  // The cancellation may reach the server only after several more steps.
  server.AwaitLoad([&](const v1::GetLoadResponse& load) {
    server.gate().Allow(1);
    return load.running() == 0 && load.waiting() == 0 && load.used_blocks() == 0;
  });
  server.gate().Open();
  EXPECT_EQ(server.Metric("incipit_requests_total{outcome=\"cancelled\",finish_reason=\"none\"}"),
            1);
}

TEST(GatewayLifecycleTest, NoHeadersAreSentBeforeTheFirstToken) {
  TestServer server;
  server.gate().Close();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(100));
  const auto stub = VllmEngine::NewStub(server.channel());
  const auto reader = stub->Generate(&context, Named("a"));
  reader->WaitForInitialMetadata();
  EXPECT_EQ(context.GetServerInitialMetadata().size(), 0u);
  EXPECT_EQ(CollectGateway(*reader).status.error_code(), StatusCode::DEADLINE_EXCEEDED);
}

TEST(GatewayLifecycleTest, ADrainingServerIsUnavailableAndFinishesItsRequests) {
  TestServer server;
  server.gate().Close();
  GatewayCall running(server, Named("a", 20));
  AwaitRequests(server, 1);
  server.server().BeginDrain();
  const GatewayReply refused = AskGateway(server, Named("b", 5));
  EXPECT_EQ(refused.status.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReasonOf(refused.status), "DRAINING");
  grpc::ClientContext context;
  api::HealthCheckResponse health;
  EXPECT_TRUE(VllmEngine::NewStub(server.channel())->HealthCheck(&context, {}, &health).ok());
  EXPECT_FALSE(health.healthy());
  EXPECT_EQ(health.message(), "the server is draining");
  server.gate().Open();
  EXPECT_THAT(running.End().Tokens(), ElementsAreArray(Expected(kShortPrompt, 20)));
}

TEST(GatewayLifecycleTest, AStoppingServerEndsItsCalls) {
  TestServerConfig config;
  config.max_model_len = 1'000'000;
  config.num_blocks = 70'000;
  TestServer server(std::move(config));
  server.gate().Close();
  GatewayCall running(server, Named("a", 900'000));
  AwaitRequests(server, 1);
  server.Stop();
  EXPECT_EQ(running.End().status.error_code(), StatusCode::UNAVAILABLE);
}

TEST(GatewayLifecycleTest, AFailedEngineIsNotHealthy) {
  TestServer server;
  server.gate().FailNext(absl::InternalError("broken"));
  EXPECT_FALSE(AskGateway(server, Named("a", 5)).status.ok());
  EXPECT_FALSE(server.AwaitFatal().ok());
  grpc::ClientContext context;
  api::HealthCheckResponse health;
  EXPECT_TRUE(VllmEngine::NewStub(server.channel())->HealthCheck(&context, {}, &health).ok());
  EXPECT_FALSE(health.healthy());
}

}  // namespace
}  // namespace incipit
