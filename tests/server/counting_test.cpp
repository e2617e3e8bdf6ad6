// Compares the counters in /metrics with the results that clients received.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/server/test_server.h"

namespace incipit {
namespace {

using grpc::StatusCode;

const std::vector<TokenId> kCountedPrompt = {10, 11, 12, 13, 14, 15, 16, 17};

double Ended(const TestServer& server, const std::string& outcome) {
  return server.Metric("incipit_requests_total{outcome=\"" + outcome +
                       "\",finish_reason=\"none\"}");
}

double Refused(const TestServer& server, const std::string& reason) {
  return server.Metric("incipit_requests_rejected_total{reason=\"" + reason + "\"}");
}

// Waits until `num_requests` requests have ended by a deadline or a cancellation. Allows only one
// step per query of the metrics, so that no request completes before the server detects that its
// client has left.
void AwaitEnds(TestServer& server, int num_requests) {
  while (Ended(server, "deadline_exceeded") + Ended(server, "cancelled") < num_requests) {
    server.gate().Allow(1);
  }
}

// Sends 8 calls whose deadlines pass while one call runs and the other calls wait. Expects that the
// server counts 8 deadlines. Returns false, and expects nothing, if a call takes so long to reach
// the server that the server may count the call as cancelled (Session::CancelReason).
bool CountsDeadlines(std::chrono::milliseconds timeout) {
  constexpr int kNumCalls = 8;
  // The server computes the deadline of a call when the call arrives. So the deadline of the server
  // is later than the deadline of the client, by at most the time until the arrival.
  const auto arrival_max = std::chrono::milliseconds(10) + timeout / 200;
  TestServerConfig config;
  config.options.running_max = 1;  // other requests wait in the queue
  TestServer server(std::move(config));
  server.gate().Close();
  EXPECT_TRUE(server.channel()->WaitForConnected(std::chrono::system_clock::time_point::max()));
  EXPECT_EQ(server.Load().running(), 0u);  // connects to the Admin service
  std::array<grpc::ClientContext, kNumCalls> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>>> readers;
  bool is_late = false;
  for (grpc::ClientContext& context : contexts) {
    if (is_late) break;
    const auto begin = std::chrono::steady_clock::now();
    context.set_deadline(std::chrono::system_clock::now() + timeout);
    readers.push_back(server.inference().Generate(&context, Greedy(kCountedPrompt, 500)));
    bool has_arrived = false;
    while (!has_arrived && !is_late) {
      const v1::GetLoadResponse load = server.Load();
      has_arrived = load.running() + load.waiting() == readers.size();
      is_late = std::chrono::steady_clock::now() - begin > arrival_max;
    }
  }
  if (is_late) {
    for (grpc::ClientContext& context : contexts) context.TryCancel();
  }
  for (const auto& reader : readers) {
    const StatusCode code = Collect(*reader).status.error_code();
    EXPECT_TRUE(is_late || code == StatusCode::DEADLINE_EXCEEDED) << code;
  }
  if (is_late) return false;
  AwaitEnds(server, kNumCalls);
  EXPECT_EQ(Ended(server, "deadline_exceeded"), kNumCalls);
  return true;
}

TEST(CountingTest, ADeadlineThatPassesCountsAsOneWhereverItIsNoticed) {
  // On a busy machine, calls reach the server late. A longer timeout allows a later arrival.
  std::chrono::milliseconds timeout(200);
  while (!CountsDeadlines(timeout)) {
    timeout *= 2;
    ASSERT_LT(timeout, std::chrono::seconds(100));
  }
}

TEST(CountingTest, ACallCancelledLongBeforeItsDeadlineCountsAsCancelled) {
  TestServer server;
  server.gate().Close();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::hours(1));
  const auto reader = server.inference().Generate(&context, Greedy(kCountedPrompt, 500));
  server.gate().AwaitWaiting();
  context.TryCancel();
  EXPECT_EQ(Collect(*reader).status.error_code(), StatusCode::CANCELLED);
  AwaitEnds(server, 1);
  EXPECT_EQ(Ended(server, "cancelled"), 1);
}

TEST(CountingTest, ADeviceThatFailsEndsRunningAndWaitingRequestsWithAnError) {
  TestServerConfig config;
  config.options.running_max = 1;
  TestServer server(std::move(config));
  server.gate().Close();
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&server] {
      const Reply reply = Ask(server.inference(), Greedy(kCountedPrompt, 500));
      EXPECT_EQ(reply.status.error_code(), StatusCode::INTERNAL);
      EXPECT_EQ(ReasonOf(reply.status), "ENGINE_FAILED");
    });
  }
  server.AwaitLoad([](const auto& load) { return load.running() + load.waiting() == 4; });
  server.gate().FailNext(absl::InternalError("the device is gone"));
  server.gate().Open();
  for (std::thread& client : clients) client.join();
  EXPECT_FALSE(server.AwaitFatal().ok());
  EXPECT_EQ(Ended(server, "error"), 4);
  for (const char* const gauge : {"incipit_requests_running", "incipit_requests_waiting",
                                  "incipit_waiting_prompt_tokens", "incipit_kv_usage_ratio"}) {
    EXPECT_EQ(server.Metric(gauge), 0) << gauge;
  }
  const grpc::Status late = Ask(server.inference(), Greedy(kCountedPrompt, 1)).status;
  EXPECT_EQ(late.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReasonOf(late), "ENGINE_FAILED");
  EXPECT_GE(RetrySecondsOf(late), 1);
  EXPECT_EQ(Refused(server, "unavailable"), 1);
}

TEST(CountingTest, GeneratedTokensAreThoseOfUsage) {
  TestServer server;
  double num_tokens = 0;
  for (int i = 0; i < 20; ++i) {
    v1::GenerateRequest request = Greedy({10, 11, 12 + i}, 300);
    request.mutable_output()->add_stop("a");
    request.mutable_output()->set_n(4);
    const Reply reply = Ask(server.inference(), request);
    ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
    num_tokens += reply.usage.completion_tokens();
  }
  server.AwaitLoad([](const auto& load) { return load.running() == 0; });
  EXPECT_EQ(server.Metric("incipit_tokens_total{kind=\"generated\"}"), num_tokens);
}

TEST(CountingTest, ACallCancelledBeforeItsMessageCameCountsAsCancelled) {
  TestServer server;
  constexpr int kCalls = 20;
  grpc::GenericStub stub(server.channel());
  for (int i = 0; i < kCalls; ++i) {
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    const auto call = stub.PrepareCall(&context, "/incipit.v1.Inference/Generate", &queue);
    void* tag = nullptr;
    bool ok = false;
    call->StartCall(nullptr);
    queue.Next(&tag, &ok);
    context.TryCancel();
    grpc::Status status;
    call->Finish(&status, nullptr);
    queue.Next(&tag, &ok);
    EXPECT_EQ(status.error_code(), StatusCode::CANCELLED);
    queue.Shutdown();
    while (queue.Next(&tag, &ok)) {
    }
  }
  while (Ended(server, "cancelled") + Refused(server, "invalid_argument") < kCalls) {
  }
  EXPECT_EQ(Ended(server, "cancelled"), kCalls);
}

TEST(CountingTest, CallsCancelledAtOnceAreNoBadOnes) {
  TestServer server;
  for (int i = 0; i < 100; ++i) {
    grpc::ClientContext context;
    const auto reader = server.inference().Generate(&context, Greedy(kCountedPrompt, 300));
    context.TryCancel();
    Collect(*reader);
  }
  EXPECT_TRUE(Ask(server.inference(), Greedy(kCountedPrompt, 5)).status.ok());
  for (const char* const reason : {"invalid_argument", "prompt_too_long", "internal", "other"}) {
    EXPECT_EQ(Refused(server, reason), 0) << reason;
  }
}

}  // namespace
}  // namespace incipit
