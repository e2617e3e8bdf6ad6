// Tests how a server starts, reports its state, drains and stops.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "server/rpc/health.h"
#include "server/session/call_tracker.h"
#include "tests/server/health.grpc.pb.h"
#include "tests/server/test_server.h"
#include "tests/support/temp_path.h"

namespace incipit {
namespace {

using grpc::StatusCode;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<TokenId> kPrompt = {10, 11, 12, 13};
constexpr const char* kServices[] = {"", "incipit.v1.Inference", "incipit.v1.Admin"};

HealthCheckResponse::ServingStatus HealthOf(const std::shared_ptr<grpc::Channel>& channel,
                                            const std::string& service) {
  const auto stub = grpc::health::v1::Health::NewStub(channel);
  grpc::ClientContext context;
  HealthCheckRequest request;
  request.set_service(service);
  HealthCheckResponse response;
  EXPECT_TRUE(stub->Check(&context, request, &response).ok());
  return response.status();
}

class OpenCall {
 public:
  OpenCall(TestServer& server, uint32_t num_tokens) {
    reader_ = server.inference().Generate(&context_, Greedy(kPrompt, num_tokens));
    server.gate().AwaitWaiting();
  }
  Reply End() { return Collect(*reader_); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader_;
};

// Watches the health of one service until the destructor.
class HealthWatch {
 public:
  HealthWatch(TestServer& server, const std::string& service) {
    HealthCheckRequest request;
    request.set_service(service);
    reader_ = grpc::health::v1::Health::NewStub(server.channel())->Watch(&context_, request);
  }
  ~HealthWatch() { context_.TryCancel(); }
  // Waits for the next state of the service.
  HealthCheckResponse::ServingStatus Next() {
    HealthCheckResponse response;
    EXPECT_TRUE(reader_->Read(&response));
    return response.status();
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> reader_;
};

TEST(LifecycleTest, EveryServiceIsServing) {
  TestServer server;
  for (const char* const service : kServices) {
    EXPECT_EQ(HealthOf(server.channel(), service), HealthCheckResponse::SERVING);
  }
}

TEST(LifecycleTest, ADrainingServerSaysSoAndFinishesWhatRuns) {
  TestServer server;
  server.gate().Close();
  OpenCall running(server, 20);
  HealthWatch server_health(server, ""), inference_health(server, "incipit.v1.Inference");
  for (HealthWatch* const watch : {&server_health, &inference_health}) {
    EXPECT_EQ(watch->Next(), HealthCheckResponse::SERVING);
  }

  grpc::ClientContext drain_context;
  std::thread drain([&] {
    v1::DrainResponse response;
    const grpc::Status status = server.admin().Drain(&drain_context, {}, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(server.Load().running(), 0u);
  });
  // The server changes the state of one service after the other.
  for (HealthWatch* const watch : {&server_health, &inference_health}) {
    EXPECT_EQ(watch->Next(), HealthCheckResponse::NOT_SERVING);
  }
  for (const char* const service : {"", "incipit.v1.Inference"}) {
    EXPECT_EQ(HealthOf(server.channel(), service), HealthCheckResponse::NOT_SERVING);
  }
  // The service Admin must stay SERVING while the server drains. Otherwise, a liveness probe could
  // end the process before the running requests end.
  EXPECT_EQ(HealthOf(server.channel(), "incipit.v1.Admin"), HealthCheckResponse::SERVING);
  EXPECT_TRUE(server.Load().draining());
  const Reply refused = Ask(server.inference(), Greedy(kPrompt, 1));
  EXPECT_EQ(refused.status.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReasonOf(refused.status), "DRAINING");
  EXPECT_GE(RetrySecondsOf(refused.status), 1);
  server.gate().Open();
  const Reply reply = running.End();
  EXPECT_TRUE(reply.status.ok());
  EXPECT_THAT(reply.choices.at(0).ids, ElementsAreArray(Expected(kPrompt, 20)));
  drain.join();
}

TEST(LifecycleTest, ADrainThatTakesTooLongRepliesAtItsDeadline) {
  TestServer server;
  server.gate().Close();
  OpenCall running(server, 20);
  // On a busy machine, the deadline may pass before the call reaches the server. The next call then
  // has more time.
  for (std::chrono::milliseconds timeout(50); !server.Load().draining(); timeout *= 2) {
    ASSERT_LT(timeout, std::chrono::minutes(1));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + timeout);
    v1::DrainResponse response;
    EXPECT_EQ(server.admin().Drain(&context, {}, &response).error_code(),
              StatusCode::DEADLINE_EXCEEDED);
  }
  server.gate().Open();
  EXPECT_TRUE(running.End().status.ok());
}

TEST(LifecycleTest, AServerThatGoesEndsItsCallsWithUnavailable) {
  auto server = std::make_unique<TestServer>();
  server->gate().Close();
  OpenCall running(*server, 900);
  std::thread stop([&] { server->Stop(); });
  const Reply reply = running.End();
  stop.join();
  // A fast model may have sent all output before the stop.
  if (!reply.status.ok()) {
    EXPECT_EQ(reply.status.error_code(), StatusCode::UNAVAILABLE);
    EXPECT_EQ(ReasonOf(reply.status), "DRAINING");
  }
}

TEST(LifecycleTest, ADeviceThatFailsFailsEveryRequestAndTheServer) {
  TestServer server;
  server.gate().Close();
  OpenCall running(server, 900);
  server.gate().FailNext(absl::InternalError("the device is gone"));
  server.gate().Open();
  const Reply reply = running.End();
  EXPECT_EQ(reply.status.error_code(), StatusCode::INTERNAL);
  EXPECT_EQ(ReasonOf(reply.status), "ENGINE_FAILED");
  EXPECT_EQ(server.AwaitFatal().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(HealthOf(server.channel(), ""), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Ask(server.inference(), Greedy(kPrompt, 1)).status.error_code(),
            StatusCode::UNAVAILABLE);
}

// The process also drains when it ends after a failure.
TEST(LifecycleTest, ADrainAfterOrBeforeAFailureDoesNotHideIt) {
  for (const bool drains_first : {false, true}) {
    TestServer server;
    server.gate().Close();
    OpenCall running(server, 900);
    if (drains_first) server.server().BeginDrain();
    server.gate().FailNext(absl::InternalError("the device is gone"));
    server.gate().Open();
    EXPECT_EQ(ReasonOf(running.End().status), "ENGINE_FAILED");
    EXPECT_FALSE(server.AwaitFatal().ok());
    if (!drains_first) server.server().BeginDrain();
    const Reply late = Ask(server.inference(), Greedy(kPrompt, 1));
    EXPECT_EQ(late.status.error_code(), StatusCode::UNAVAILABLE);
    EXPECT_EQ(ReasonOf(late.status), "ENGINE_FAILED") << late.status.error_message();
    EXPECT_GE(RetrySecondsOf(late.status), 1);
    EXPECT_EQ(server.Metric("incipit_requests_rejected_total{reason=\"unavailable\"}"), 1);
  }
}

TEST(LifecycleTest, ValuesThatAreNotFiniteEndOneRequest) {
  TestServer server;
  server.gate().Close();
  OpenCall bad(server, 900);
  server.gate().PoisonNext(0);
  server.gate().Allow(2);
  const Reply reply = bad.End();
  EXPECT_EQ(reply.status.error_code(), StatusCode::INTERNAL);
  server.gate().Open();
  EXPECT_THAT(Ask(server.inference(), Greedy(kPrompt, 30)).choices.at(0).ids,
              ElementsAreArray(Expected(kPrompt, 30)));
  EXPECT_EQ(HealthOf(server.channel(), ""), HealthCheckResponse::SERVING);
}

TEST(LifecycleTest, AdminMayHaveAnAddressOfItsOwn) {
  TestServerConfig config;
  config.options.admin_address = {"127.0.0.1", 0};
  TestServer server(std::move(config));
  EXPECT_NE(server.server().admin_port(), server.server().grpc_port());
  EXPECT_EQ(server.Load().blocks(), 256u);
  const auto elsewhere = v1::Admin::NewStub(server.channel());
  grpc::ClientContext context;
  v1::GetLoadResponse response;
  EXPECT_EQ(elsewhere->GetLoad(&context, {}, &response).error_code(), StatusCode::UNIMPLEMENTED);
}

TEST(AdminTest, TheModelAndTheServerAreDescribed) {
  TestServerConfig config;
  config.options.running_max = 77;
  config.eos_ids = {1, 3};
  TestServer server(std::move(config));
  grpc::ClientContext first, second;
  v1::GetModelInfoResponse model;
  ASSERT_TRUE(server.admin().GetModelInfo(&first, {}, &model).ok());
  EXPECT_EQ(model.name(), "fake");
  EXPECT_EQ(model.vocab_size(), static_cast<uint32_t>(kByteVocab));
  EXPECT_EQ(model.max_model_len(), 1024u);
  EXPECT_TRUE(model.has_tokenizer());
  EXPECT_FALSE(model.has_chat_template());
  EXPECT_THAT(model.eos_token_ids(), ElementsAreArray({1, 3}));
  v1::GetServerInfoResponse info;
  ASSERT_TRUE(server.admin().GetServerInfo(&second, {}, &info).ok());
  EXPECT_EQ(info.backend(), "fake");
  EXPECT_EQ(info.options().at("running-max"), "77");
  EXPECT_EQ(info.options().at("isolate-tenants"), "on");
  EXPECT_EQ(info.options().at("step-tokens"), "auto");
  EXPECT_EQ(info.resolved().at("step-tokens"), "64");
  EXPECT_EQ(info.resolved().at("kv-blocks"), "256");
  EXPECT_EQ(info.resolved().at("max-model-len"), "1024");
  EXPECT_EQ(info.resolved().at("model-name"), "fake");
  for (const auto& [name, value] : info.resolved()) EXPECT_TRUE(info.options().contains(name));
}

TEST(AdminTest, NoPathAndNoSeedIsShown) {
  TestServerConfig config;
  config.options.model = "/secret/model";
  config.options.config = "/secret/config";
  config.options.port_file = TempPath("secret_ports");
  config.options.chat_template = {FileChoice::Kind::kFile, "/secret/template"};
  config.options.gpu_tuning_file = {FileChoice::Kind::kFile, "/secret/tuning"};
  config.options.prefix_cache_seed = "secret seed";
  TestServer server(std::move(config));
  grpc::ClientContext context;
  v1::GetServerInfoResponse info;
  ASSERT_TRUE(server.admin().GetServerInfo(&context, {}, &info).ok());
  EXPECT_THAT(info.DebugString(), Not(HasSubstr("secret")));
}

TEST(AdminTest, ResumeTakesADrainBack) {
  TestServer server;
  grpc::ClientContext drain, resume;
  v1::DrainResponse drained;
  ASSERT_TRUE(server.admin().Drain(&drain, {}, &drained).ok());
  EXPECT_EQ(HealthOf(server.channel(), ""), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Ask(server.inference(), Greedy(kPrompt, 3)).status.error_code(),
            StatusCode::UNAVAILABLE);
  v1::ResumeResponse resumed;
  ASSERT_TRUE(server.admin().Resume(&resume, {}, &resumed).ok());
  EXPECT_EQ(HealthOf(server.channel(), ""), HealthCheckResponse::SERVING);
  EXPECT_TRUE(Ask(server.inference(), Greedy(kPrompt, 3)).status.ok());
}

TEST(AdminTest, OfADrainAndAResumeAtOnceOneIsInForce) {
  TestServer server;
  for (int round = 0; round < 200; ++round) {
    std::thread drain([&] {
      grpc::ClientContext context;
      v1::DrainResponse drained;
      EXPECT_TRUE(server.admin().Drain(&context, {}, &drained).ok());
    });
    grpc::ClientContext context;
    v1::ResumeResponse resumed;
    EXPECT_TRUE(server.admin().Resume(&context, {}, &resumed).ok());
    drain.join();
    const bool is_serving = HealthOf(server.channel(), "") == HealthCheckResponse::SERVING;
    EXPECT_NE(is_serving, server.Load().draining());
  }
}

TEST(AdminTest, AServerThatStopsOrHasFailedIsNotResumed) {
  TestServer stopping, failed;
  stopping.server().BeginDrain();
  failed.gate().FailNext(absl::InternalError("no device"));
  Ask(failed.inference(), Greedy(kPrompt, 3));
  failed.AwaitFatal().IgnoreError();
  for (TestServer* const server : {&stopping, &failed}) {
    grpc::ClientContext context;
    v1::ResumeResponse resumed;
    const grpc::Status status = server->admin().Resume(&context, {}, &resumed);
    EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION);
    EXPECT_EQ(ReasonOf(status), "CANNOT_RESUME");
    EXPECT_EQ(HealthOf(server->channel(), ""), HealthCheckResponse::NOT_SERVING);
  }
}

// Returns an IPv4 address of this machine that is not a loopback address. Returns an empty text if
// there is no such address.
std::string OtherAddress() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  std::string found;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    if ((one->ifa_flags & IFF_UP) == 0 || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    char text[INET_ADDRSTRLEN];
    const auto* const address = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
    if (inet_ntop(AF_INET, &address->sin_addr, text, sizeof(text)) != nullptr) found = text;
  }
  freeifaddrs(all);
  return found;
}

// Returns the status codes of Drain, Resume, SetLogLevel, ResetPrefixCache and GetLoad, in this
// order.
std::vector<StatusCode> AdminCodes(v1::Admin::Stub& admin) {
  grpc::ClientContext contexts[5];
  v1::SetLogLevelRequest level;
  level.set_level("info");
  v1::DrainResponse drained;
  v1::ResumeResponse resumed;
  v1::SetLogLevelResponse set;
  v1::ResetPrefixCacheResponse reset;
  v1::GetLoadResponse load;
  return {admin.Drain(&contexts[0], {}, &drained).error_code(),
          admin.Resume(&contexts[1], {}, &resumed).error_code(),
          admin.SetLogLevel(&contexts[2], level, &set).error_code(),
          admin.ResetPrefixCache(&contexts[3], {}, &reset).error_code(),
          admin.GetLoad(&contexts[4], {}, &load).error_code()};
}

TEST(AdminTest, OtherMachinesMayAskButNotChangeUnlessAdminHasAnAddress) {
  const std::string host = OtherAddress();
  if (host.empty()) GTEST_SKIP() << "this machine has only loopback addresses";
  constexpr auto kDenied = StatusCode::PERMISSION_DENIED;
  constexpr auto kOk = StatusCode::OK;
  TestServerConfig config;
  config.address = {"0.0.0.0", 0};
  TestServer shared(config);
  const auto from_elsewhere = [&](int32_t port) {
    return v1::Admin::NewStub(
        grpc::CreateChannel(host + ":" + std::to_string(port), grpc::InsecureChannelCredentials()));
  };
  EXPECT_THAT(AdminCodes(*from_elsewhere(shared.server().grpc_port())),
              ElementsAre(kDenied, kDenied, kDenied, kDenied, kOk));
  EXPECT_FALSE(shared.Load().draining());
  config.options.admin_address = {"0.0.0.0", 0};
  TestServer own(config);
  EXPECT_THAT(AdminCodes(*from_elsewhere(own.server().admin_port())),
              ElementsAre(kOk, kOk, kOk, kOk, kOk));
}

TEST(AdminTest, TheCacheIsResetOnlyWhenNoRequestUsesIt) {
  TestServer server;
  const v1::GenerateRequest request = Greedy(std::vector<TokenId>(100, 9), 2);
  Ask(server.inference(), request);
  server.AwaitLoad([](const auto& load) { return load.used_blocks() == 0; });
  EXPECT_GT(server.Load().cached_blocks(), 0u);
  v1::ResetPrefixCacheResponse response;
  grpc::ClientContext first, second;
  EXPECT_TRUE(server.admin().ResetPrefixCache(&first, {}, &response).ok());
  EXPECT_EQ(Ask(server.inference(), request).usage.cached_tokens(), 0u);

  server.gate().Close();
  OpenCall running(server, 900);
  std::atomic<bool> replied = false;
  std::thread reset([&] {
    const grpc::Status status = server.admin().ResetPrefixCache(&second, {}, &response);
    EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION);
    EXPECT_EQ(ReasonOf(status), "BLOCKS_IN_USE");
    replied = true;
  });
  // The engine handles the reset only between two steps, so the test lets steps run.
  while (!replied) {
    server.Load();
    server.gate().Allow(1);
  }
  reset.join();
  server.gate().Open();
  EXPECT_TRUE(running.End().status.ok());
}

TEST(AdminTest, AnUnknownLogLevelIsRefused) {
  TestServer server;
  v1::SetLogLevelRequest request;
  v1::SetLogLevelResponse response;
  grpc::ClientContext first, second, third;
  request.set_level("loud");
  const grpc::Status status = server.admin().SetLogLevel(&first, request, &response);
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(FieldOf(status), "level");
  request.set_level("warn");
  ASSERT_TRUE(server.admin().SetLogLevel(&second, request, &response).ok());
  request.set_level(response.previous_level());
  ASSERT_TRUE(server.admin().SetLogLevel(&third, request, &response).ok());
  EXPECT_EQ(response.previous_level(), "warn");
}

TEST(CallTrackerTest, TheLastCallOutWakesThoseThatWait) {
  CallTracker calls({.calls_max = 2, .connection_calls_max = 2});
  int num_idle = 0;
  calls.WhenIdle([&] { ++num_idle; });
  EXPECT_EQ(num_idle, 1);
  EXPECT_EQ(calls.Begin("a"), CallTracker::Verdict::kAdmitted);
  EXPECT_EQ(calls.Begin("b"), CallTracker::Verdict::kAdmitted);
  calls.Release("a");
  calls.Release("b");
  calls.WhenIdle([&] { ++num_idle; });
  calls.Forget(calls.WhenIdle([&] { num_idle += 100; }));
  calls.End();
  EXPECT_EQ(num_idle, 1);
  calls.End();
  EXPECT_EQ(num_idle, 2);
}

TEST(CallTrackerTest, CallsAreLimitedAltogetherAndByConnectionUntilTheirStatusIsGiven) {
  CallTracker calls({.calls_max = 3, .connection_calls_max = 2});
  EXPECT_EQ(calls.Begin("a"), CallTracker::Verdict::kAdmitted);
  EXPECT_EQ(calls.Begin("a"), CallTracker::Verdict::kAdmitted);
  EXPECT_EQ(calls.Begin("a"), CallTracker::Verdict::kTooManyOfConnection);
  EXPECT_EQ(calls.Begin("b"), CallTracker::Verdict::kAdmitted);
  EXPECT_EQ(calls.Begin("b"), CallTracker::Verdict::kTooMany);
  calls.Release("a");
  EXPECT_EQ(calls.Begin("a"), CallTracker::Verdict::kAdmitted);
  EXPECT_EQ(calls.Begin("b"), CallTracker::Verdict::kTooMany);
}

}  // namespace
}  // namespace incipit
