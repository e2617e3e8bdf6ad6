// Tests requests that the server refuses, ends early or shortens. Other requests must not be
// affected.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "tests/server/test_server.h"

namespace incipit {
namespace {

using grpc::StatusCode;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<TokenId> kEightTokens = {10, 11, 12, 13, 14, 15, 16, 17};

// A call of Generate whose stream a separate thread reads.
class ReadCall {
 public:
  ReadCall(v1::Inference::Stub& stub, const v1::GenerateRequest& request) {
    reader_ = stub.Generate(&context_, request);
    thread_ = std::thread([this] { reply_ = Collect(*reader_); });
  }
  ~ReadCall() {
    if (thread_.joinable()) thread_.join();
  }
  void Cancel() { context_.TryCancel(); }
  Reply End() {
    thread_.join();
    return reply_;
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader_;
  std::thread thread_;
  Reply reply_;
};

void ExpectRetryLater(const grpc::Status& status, const char* reason) {
  EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(status), reason);
  EXPECT_GE(RetrySecondsOf(status), 1);
}

TEST(RefusalTest, BadRequestsLeaveAnotherStreamAndTheCacheAsTheyWere) {
  TestServer server;
  server.gate().Close();
  ReadCall other(server.inference(), Greedy(kEightTokens, 50));
  server.gate().AwaitWaiting();
  const auto spoil = [](auto change) {
    v1::GenerateRequest request = Greedy(kEightTokens, 10);
    change(request);
    return request;
  };
  const v1::GenerateRequest bad[] = {
      spoil([](auto& r) { r.clear_prompt(); }),
      spoil([](auto& r) { r.set_text(""); }),
      spoil([](auto& r) { r.mutable_token_ids()->add_ids(kByteVocab); }),
      spoil([](auto& r) { r.set_text(std::string(1 << 20, 'x')); }),
      spoil([](auto& r) { r.mutable_sampling()->set_temperature(-1); }),
      spoil([](auto& r) { r.mutable_output()->set_n(1u << 31); }),
      spoil([](auto& r) { r.mutable_output()->add_stop(""); }),
      spoil([](auto& r) { r.set_request_id("canary\n"); }),
  };
  for (int round = 0; round < 6; ++round) {
    for (const v1::GenerateRequest& request : bad) {
      const Reply reply = Ask(server.inference(), request);
      EXPECT_EQ(reply.status.error_code(), StatusCode::INVALID_ARGUMENT);
      EXPECT_NE(FieldOf(reply.status), "");
      EXPECT_THAT(reply.status.error_message(), Not(HasSubstr("canary")));
    }
    server.gate().Allow(7);
  }
  server.gate().Open();
  EXPECT_THAT(other.End().choices.at(0).ids, ElementsAreArray(Expected(kEightTokens, 50)));
  server.AwaitLoad([](const auto& load) { return load.used_blocks() == 0; });
}

TEST(RefusalTest, TenantsAreChecked) {
  TestServer server;
  for (const std::string& tenant : {std::string(129, 't'), std::string("a/b")}) {
    const Reply reply = Ask(server.inference(), Greedy(kEightTokens, 1), tenant);
    EXPECT_EQ(reply.status.error_code(), StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(FieldOf(reply.status), "x-tenant-id");
  }
  grpc::ClientContext context;
  context.AddMetadata("x-tenant-id", "a");
  context.AddMetadata("x-tenant-id", "b");
  const Reply reply = Collect(*server.inference().Generate(&context, Greedy(kEightTokens, 1)));
  EXPECT_EQ(reply.status.error_code(), StatusCode::INVALID_ARGUMENT);
}

TEST(RefusalTest, APromptThatTheCacheCannotHoldIsRefusedAtOnce) {
  TestServerConfig config;
  config.num_blocks = 4;
  TestServer server(std::move(config));
  const Reply reply = Ask(server.inference(), Greedy(std::vector<TokenId>(64, 9), 1));
  EXPECT_EQ(reply.status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ReasonOf(reply.status), "PROMPT_TOO_LONG");
  EXPECT_EQ(
      Ask(server.inference(), Greedy(std::vector<TokenId>(63, 9), 0)).choices.at(0).ids.size(), 1u);
}

TEST(RefusalTest, AFullQueueAsksToRetryLater) {
  TestServerConfig config;
  config.options.requests_max = 2;
  TestServer server(std::move(config));
  server.gate().Close();
  ReadCall first(server.inference(), Greedy(kEightTokens, 5));
  ReadCall second(server.inference(), Greedy(kEightTokens, 5));
  server.AwaitLoad([](const auto& load) { return load.running() + load.waiting() == 2; });
  const Reply third = Ask(server.inference(), Greedy(kEightTokens, 5));
  ExpectRetryLater(third.status, "QUEUE_FULL");
  EXPECT_THAT(third.status.error_message(), HasSubstr("the limit is 2"));
  EXPECT_EQ(BoundOf(third.status), "2");
  EXPECT_LE(RetrySecondsOf(third.status), 60);
  server.gate().Open();
  EXPECT_TRUE(first.End().status.ok());
  EXPECT_TRUE(second.End().status.ok());
  EXPECT_TRUE(Ask(server.inference(), Greedy(kEightTokens, 5)).status.ok());
}

TEST(RefusalTest, ARequestThatAStopStringEndedLeavesItsSlotAtOnce) {
  TestServerConfig config;
  config.options.requests_max = 1;
  TestServer server(std::move(config));
  const std::vector<TokenId> expected = Expected(kEightTokens, 200);
  size_t num_tokens = 0;
  while (num_tokens < expected.size() &&
         (expected[num_tokens] < kFirstByte + 'a' || expected[num_tokens] > kFirstByte + 'z')) {
    ++num_tokens;
  }
  ASSERT_LT(num_tokens, expected.size()) << "the expected output contains no lower-case letter";
  v1::GenerateRequest stopped = Greedy(kEightTokens, 500);
  stopped.mutable_output()->add_stop(
      std::string(1, static_cast<char>(expected[num_tokens] - kFirstByte)));
  server.gate().Close();
  ReadCall first(server.inference(), stopped);
  server.gate().Allow(static_cast<int32_t>(num_tokens) + 1);
  EXPECT_TRUE(first.End().status.ok());
  // The next step waits at the closed gate and still contains the first request.
  ReadCall second(server.inference(), Greedy(kEightTokens, 5));
  constexpr const char* kRejected = "incipit_requests_rejected_total{reason=\"queue_full\"}";
  server.AwaitLoad(
      [&](const auto& load) { return load.waiting() == 1 || server.Metric(kRejected) > 0; });
  server.gate().Open();
  EXPECT_TRUE(second.End().status.ok());
}

TEST(RefusalTest, RefusalsBecauseOfTheLoadAreCountedByTenant) {
  TestServerConfig config;
  config.options.requests_max = 1;
  config.options.tenant_weights = {{"gold", 2}};
  TestServer server(std::move(config));
  server.gate().Close();
  ReadCall running(server.inference(), Greedy(kEightTokens, 5));
  server.AwaitLoad([](const auto& load) { return load.running() + load.waiting() == 1; });
  for (const char* const tenant : {"gold", "gold", "silver"}) {
    ExpectRetryLater(Ask(server.inference(), Greedy(kEightTokens, 1), tenant).status, "QUEUE_FULL");
  }
  const auto refusals = [&](const std::string& tenant) {
    return server.Metric(R"(incipit_tenant_refusals_total{reason="queue_full",tenant=")" + tenant +
                         "\"}");
  };
  EXPECT_EQ(refusals("gold"), 2);
  EXPECT_EQ(refusals("other"), 1);
  server.gate().Open();
  EXPECT_TRUE(running.End().status.ok());
}

TEST(RefusalTest, PromptTokensInTheQueueAreBoundedWhateverTheNumberOfRequests) {
  TestServerConfig config;
  config.options.waiting_prompt_tokens_max = 100;
  config.options.running_max = 1;
  TestServer server(std::move(config));
  server.gate().Close();
  ReadCall running(server.inference(), Greedy(kEightTokens, 5));
  server.gate().Allow(1);
  server.AwaitLoad([](const auto& load) { return load.running() == 1; });
  ReadCall waiting(server.inference(), Greedy(std::vector<TokenId>(80, 9), 1));
  server.AwaitLoad([](const auto& load) { return load.waiting_prompt_tokens() == 80; });
  const Reply refused = Ask(server.inference(), Greedy(std::vector<TokenId>(21, 9), 1));
  ExpectRetryLater(refused.status, "QUEUE_FULL");
  EXPECT_EQ(BoundOf(refused.status), "100");
  server.gate().Open();
  EXPECT_TRUE(waiting.End().status.ok());
}

TEST(RefusalTest, APromptThatTheTemplateMakesTooLongForTheQueueIsRefusedByTheEngine) {
  TestServerConfig config;
  config.options.waiting_prompt_tokens_max = 100;
  config.options.running_max = 1;
  // The template renders each conversation to 60 tokens. Before the rendering, the server expects
  // fewer than 60 tokens.
  config.chat_template = "{{ 'x' * 60 }}";
  TestServer server(std::move(config));
  server.gate().Close();
  ReadCall running(server.inference(), Greedy(kEightTokens, 5));
  server.gate().Allow(1);
  server.AwaitLoad([](const auto& load) { return load.running() == 1; });
  ReadCall waiting(server.inference(), Greedy(std::vector<TokenId>(80, 9), 1));
  server.AwaitLoad([](const auto& load) { return load.waiting_prompt_tokens() == 80; });
  v1::ChatRequest chat;
  chat.add_messages()->set_role("user");
  chat.mutable_messages(0)->set_content("a");
  chat.mutable_output()->set_max_tokens(1);
  grpc::ClientContext context;
  const Reply refused = Collect(*server.inference().Chat(&context, chat));
  ExpectRetryLater(refused.status, "QUEUE_FULL");
  EXPECT_THAT(refused.status.error_message(), HasSubstr("60 of this request"));
  EXPECT_EQ(BoundOf(refused.status), "100");
  server.gate().Open();
  EXPECT_TRUE(waiting.End().status.ok());
}

TEST(RefusalTest, TenTimesMoreThanThereIsRoomForIsRefusedWhileTheEngineStands) {
  TestServerConfig config;
  config.options.requests_max = 8;
  TestServer server(std::move(config));
  server.gate().Close();
  std::vector<std::unique_ptr<ReadCall>> taken, refused;
  for (int i = 0; i < 8; ++i) {
    taken.push_back(std::make_unique<ReadCall>(server.inference(), Greedy(kEightTokens, 20)));
  }
  server.AwaitLoad([](const auto& load) { return load.running() + load.waiting() == 8; });
  for (int i = 0; i < 80; ++i) {
    refused.push_back(std::make_unique<ReadCall>(server.inference(), Greedy(kEightTokens, 20)));
  }
  for (const auto& call : refused) ExpectRetryLater(call->End().status, "QUEUE_FULL");
  EXPECT_EQ(server.Metric("incipit_requests_rejected_total{reason=\"queue_full\"}"), 80);
  server.gate().Open();
  for (const auto& call : taken) {
    EXPECT_THAT(call->End().choices.at(0).ids, ElementsAreArray(Expected(kEightTokens, 20)));
  }
  EXPECT_TRUE(Ask(server.inference(), Greedy(kEightTokens, 5)).status.ok());
  server.AwaitLoad([](const auto& load) { return load.used_blocks() == 0; });
}

TEST(RefusalTest, ConcurrentCallsAreBounded) {
  TestServerConfig config;
  config.options.streams_max = 1;
  TestServer server(std::move(config));
  server.gate().Close();
  ReadCall first(server.inference(), Greedy(kEightTokens, 5));
  server.gate().AwaitWaiting();
  const Reply second = Ask(server.inference(), Greedy(kEightTokens, 5));
  ExpectRetryLater(second.status, "TOO_MANY_STREAMS");
  server.gate().Open();
  EXPECT_TRUE(first.End().status.ok());
}

TEST(RefusalTest, RequestIdsAreLabelsThatSeveralMayCarry) {
  TestServer server;
  server.gate().Close();
  v1::GenerateRequest request = Greedy(kEightTokens, 5);
  request.set_request_id("a");
  ReadCall first(server.inference(), request);
  ReadCall second(server.inference(), request);
  server.AwaitLoad([](const auto& load) { return load.running() + load.waiting() == 2; });
  first.Cancel();
  EXPECT_EQ(first.End().status.error_code(), StatusCode::CANCELLED);
  server.gate().Open();
  const Reply reply = second.End();
  EXPECT_TRUE(reply.status.ok());
  EXPECT_THAT(reply.choices.at(0).ids, ElementsAreArray(Expected(kEightTokens, 5)));
}

Reply AskWithin(TestServer& server, const v1::GenerateRequest& request,
                std::chrono::milliseconds time) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + time);
  return Collect(*server.inference().Generate(&context, request));
}

TEST(DeadlineTest, ARequestWhoseDeadlinePassesInTheQueueIsNeverStarted) {
  TestServerConfig config;
  config.options.running_max = 1;
  TestServer server(std::move(config));
  server.gate().Close();
  ReadCall running(server.inference(), Greedy(kEightTokens, 5));
  server.gate().AwaitWaiting();
  const Reply late = AskWithin(server, Greedy({20, 21, 22}, 5), std::chrono::milliseconds(30));
  EXPECT_EQ(late.status.error_code(), StatusCode::DEADLINE_EXCEEDED);
  server.gate().Open();
  EXPECT_THAT(running.End().choices.at(0).ids, ElementsAreArray(Expected(kEightTokens, 5)));
  server.AwaitLoad([](const auto& load) {
    return load.running() == 0 && load.waiting() == 0 && load.used_blocks() == 0;
  });
}

TEST(DeadlineTest, WithFcfsADeadlineThatWouldPassInTheQueueIsRefusedAtOnce) {
  TestServerConfig config;
  config.options.running_max = 1;
  config.options.scheduling = SchedulingKind::kFcfs;
  // A prompt of 8 tokens takes 0.8 s.
  config.measured_steps = StepsOf(std::chrono::milliseconds(100));
  TestServer server(std::move(config));
  server.gate().Close();
  std::vector<std::unique_ptr<ReadCall>> calls;
  for (int i = 0; i < 41; ++i) {
    calls.push_back(std::make_unique<ReadCall>(server.inference(), Greedy(kEightTokens, 2)));
  }
  server.AwaitLoad([](const auto& load) { return load.running() + load.waiting() == 41; });
  const Reply refused = AskWithin(server, Greedy(kEightTokens, 2), std::chrono::seconds(4));
  ExpectRetryLater(refused.status, "QUEUE_TOO_LONG");
  EXPECT_NEAR(RetrySecondsOf(refused.status), 41 * 0.8 / 4, 1);
  ReadCall patient(server.inference(), Greedy(kEightTokens, 2));
  server.gate().Open();
  for (const auto& call : calls) EXPECT_TRUE(call->End().status.ok());
  EXPECT_TRUE(patient.End().status.ok());
}

TEST(DeadlineTest, ADeadlineInTheMiddleOfAnOutputFreesItsBlocks) {
  TestServer server;
  server.gate().Close();
  server.gate().Allow(3);
  const Reply late = AskWithin(server, Greedy(kEightTokens, 500), std::chrono::milliseconds(100));
  EXPECT_EQ(late.status.error_code(), StatusCode::DEADLINE_EXCEEDED);
  server.gate().Open();
  server.AwaitLoad([](const auto& load) { return load.used_blocks() == 0; });
}

TEST(DeadlineTest, ADeadlineInAFarFutureIsOne) {
  TestServer server;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::time_point::max() - std::chrono::hours(1));
  EXPECT_TRUE(Collect(*server.inference().Generate(&context, Greedy(kEightTokens, 5))).status.ok());
}

TEST(DeadlineTest, TheServersOwnBoundHoldsWhereTheClientHasNone) {
  TestServerConfig config;
  config.options.request_time_max = std::chrono::milliseconds(20);
  TestServer server(std::move(config));
  server.gate().Close();
  ReadCall call(server.inference(), Greedy(kEightTokens, 1000));
  server.gate().AwaitWaiting();
  // Allows one step per query of the load. The 1,000 steps of the request therefore take far longer
  // than its time limit of 20 ms.
  server.AwaitLoad([&](const auto& load) {
    server.gate().Allow(1);
    return load.running() == 0 && load.waiting() == 0;
  });
  const Reply reply = call.End();
  EXPECT_EQ(reply.status.error_code(), StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(ReasonOf(reply.status), "DEADLINE_EXCEEDED");
  EXPECT_EQ(reply.num_usages, reply.num_messages > 0 ? 1 : 0);
}

TEST(CancelTest, ACancelledCallFreesItsBlocksAndLeavesOthersAlone) {
  TestServer server;
  server.gate().Close();
  ReadCall cancelled(server.inference(), Greedy(kEightTokens, 900));
  ReadCall other(server.inference(), Greedy({30, 31, 32}, 100));
  server.AwaitLoad([](const auto& load) { return load.running() + load.waiting() == 2; });
  server.gate().Allow(10);
  cancelled.Cancel();
  EXPECT_EQ(cancelled.End().status.error_code(), StatusCode::CANCELLED);
  server.gate().Open();
  EXPECT_THAT(other.End().choices.at(0).ids, ElementsAreArray(Expected({30, 31, 32}, 100)));
  server.AwaitLoad([](const auto& load) { return load.used_blocks() == 0; });
}

TEST(CancelTest, AStormOfCancellationsEndsWithEveryBlockFree) {
  TestServer server;
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    grpc::ClientContext context;
    const auto reader = server.inference().Generate(&context, Greedy(kEightTokens, 300));
    v1::GenerateResponse message;
    for (unsigned reads = random() % 3; reads > 0; --reads) reader->Read(&message);
    context.TryCancel();
    while (reader->Read(&message)) {
    }
    reader->Finish();
  }
  EXPECT_TRUE(Ask(server.inference(), Greedy(kEightTokens, 5)).status.ok());
  server.AwaitLoad([](const auto& load) {
    return load.running() == 0 && load.waiting() == 0 && load.used_blocks() == 0;
  });
}

TEST(StallTest, AClientThatTakesNothingIsEndedAndItsBlocksAreFree) {
  TestServerConfig config;
  config.options.write_stall_timeout = std::chrono::seconds(1);
  config.num_blocks = 4200;
  config.max_model_len = 4096;
  TestServer server(std::move(config));
  server.gate().Close();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);  // keeps the flow-control window at 64 KiB
  const auto channel = server.NewChannel(arguments);
  const auto stub = v1::Inference::NewStub(channel);
  v1::GenerateRequest request = Greedy(kEightTokens, 4000);
  request.mutable_output()->set_n(16);
  request.mutable_output()->set_logprobs(20);
  grpc::ClientContext context;
  const auto reader = stub->Generate(&context, request);
  // The client reads nothing until the server has told the engine to end the request. Meanwhile,
  // the gate allows far fewer steps than the request needs. The client then reads at once: after a
  // second timeout, the server would reset the stream without a status.
  int num_questions = 0;
  server.gate().AwaitWaiting();
  server.gate().Allow(60);
  server.AwaitLoad([](const auto& load) { return load.used_blocks() > 16; });
  server.AwaitLoad([&](const auto& load) {
    if (++num_questions % 8 == 0) server.gate().Allow(1);
    return load.used_blocks() == 0;
  });
  EXPECT_LT(num_questions, 4000 * 8);
  server.gate().Open();
  v1::GenerateResponse message;
  while (reader->Read(&message)) {
  }
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  EXPECT_EQ(ReasonOf(status), "WRITE_STALLED");
  EXPECT_TRUE(Ask(server.inference(), Greedy(kEightTokens, 5)).status.ok());
}

TEST(StallTest, AClientThatReadsLateDelaysNoOtherAndMissesNothing) {
  TestServerConfig config;
  config.num_blocks = 600;
  config.max_model_len = 8192;
  TestServer server(std::move(config));
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);  // keeps the flow-control window at 64 KiB
  const auto stub = v1::Inference::NewStub(server.NewChannel(arguments));
  v1::GenerateRequest request = Greedy(kEightTokens, 3000);
  request.mutable_output()->set_logprobs(20);
  grpc::ClientContext context;
  const auto late = stub->Generate(&context, request);
  // The output is much larger than the flow-control window, so it waits in the server until the
  // client reads. Meanwhile, the server serves other requests.
  while (server.Metric("incipit_tokens_total{kind=\"generated\"}") < 3000) {
    EXPECT_THAT(Ask(server.inference(), Greedy({30, 31, 32}, 20)).choices.at(0).ids,
                ElementsAreArray(Expected({30, 31, 32}, 20)));
  }
  const std::string waiting = "incipit_unread_output_bytes{state=\"waiting\"}";
  EXPECT_GT(server.Metric(waiting), 0);
  const Reply reply = Collect(*late);
  EXPECT_EQ(server.Metric(waiting), 0);
  EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_THAT(reply.choices.at(0).ids, ElementsAreArray(Expected(kEightTokens, 3000)));
  EXPECT_EQ(reply.choices.at(0).logprobs.size(), 3000u);
}

// Sends `bytes` as the request message of the gRPC method `method`. Returns the status of the call.
grpc::Status SendRaw(TestServer& server, const std::string& bytes,
                     const char* method = "/incipit.v1.Inference/Generate") {
  grpc::GenericStub stub(server.channel());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(&context, method, &queue);
  void* tag = nullptr;
  bool ok = false;
  call->StartCall(nullptr);
  queue.Next(&tag, &ok);
  const grpc::Slice slice(bytes);
  call->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
  queue.Next(&tag, &ok);
  grpc::ByteBuffer received;
  do {
    call->Read(&received, nullptr);
    queue.Next(&tag, &ok);
  } while (ok);
  grpc::Status status;
  call->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  return status;
}

TEST(WireTest, WhatIsNoMessageIsRefusedAndTheServerServesOn) {
  TestServer server;
  const std::string valid = Greedy(kEightTokens, 3).SerializeAsString();
  EXPECT_TRUE(SendRaw(server, valid).ok());
  EXPECT_EQ(SendRaw(server, valid.substr(0, valid.size() - 1)).error_code(), StatusCode::INTERNAL);
  EXPECT_EQ(SendRaw(server, "").error_code(), StatusCode::INVALID_ARGUMENT);
  // Text that is not UTF-8.
  EXPECT_EQ(SendRaw(server, std::string("\x12\x02\xc3\x28")).error_code(), StatusCode::INTERNAL);
  // A field that this version does not know is accepted. Deeply nested groups are refused.
  EXPECT_TRUE(SendRaw(server, valid + std::string("\xf8\x7f\x01")).ok());
  EXPECT_FALSE(SendRaw(server, std::string(10'000, '\x0b')).ok());
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::string bytes(random() % 64, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    SendRaw(server, bytes);
    std::string flipped = valid;
    flipped[random() % flipped.size()] ^= static_cast<char>(1u << random() % 8);
    SendRaw(server, flipped);
  }
  EXPECT_TRUE(Ask(server.inference(), Greedy(kEightTokens, 5)).status.ok());
}

// gRPC's threads parse short messages of GetLoad. The threads that render chat templates and
// tokenize parse long messages.
TEST(WireTest, AGetLoadThatIsNoMessageIsRefusedAsOtherMessagesAre) {
  TestServer server;
  v1::GetLoadRequest load;
  for (uint32_t i = 0; i < 1000; ++i) load.mutable_token_ids()->add_ids(i % 200);
  const std::string valid = load.SerializeAsString();
  constexpr const char* kGetLoad = "/incipit.v1.Admin/GetLoad";
  EXPECT_TRUE(SendRaw(server, valid, kGetLoad).ok());
  for (const std::string& bytes : {valid.substr(0, valid.size() - 1), valid.substr(0, 100)}) {
    const grpc::Status status = SendRaw(server, bytes, kGetLoad);
    EXPECT_EQ(status.error_code(), StatusCode::INTERNAL);
    EXPECT_EQ(ReasonOf(status), "MALFORMED_MESSAGE");
  }
}

TEST(WireTest, AMessageBeyondItsLimitIsRefused) {
  TestServer server;
  v1::GenerateRequest request = Greedy(kEightTokens, 1);
  request.set_text(std::string(4 << 20, 'x'));
  EXPECT_EQ(Ask(server.inference(), request).status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  const grpc::Status after = Ask(server.inference(), Greedy(kEightTokens, 5)).status;
  EXPECT_TRUE(after.ok()) << after.error_message();
}

TEST(WireTest, MetadataBeyondTheirLimitAreRefusedAndTheConnectionLives) {
  TestServer server;
  server.gate().Close();
  ReadCall other(server.inference(), Greedy(kEightTokens, 50));
  server.gate().AwaitWaiting();
  v1::GenerateRequest large = Greedy(kEightTokens, 1);
  large.set_text(std::string(4 << 20, 'x'));
  for (int round = 0; round < 30; ++round) {
    EXPECT_EQ(Ask(server.inference(), large).status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
    grpc::ClientContext generate, tokenize;
    // The metadata have 500 short entries and, in every second round, one long entry.
    generate.AddMetadata("x-long", std::string(round % 2 == 0 ? 17 << 10 : 1, 'm'));
    for (int i = 0; i < 500; ++i) generate.AddMetadata("x-many-" + std::to_string(i), "m");
    tokenize.AddMetadata("x-long", std::string(17 << 10, 'm'));
    const grpc::Status status =
        Collect(*server.inference().Generate(&generate, Greedy(kEightTokens, 1))).status;
    EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_EQ(ReasonOf(status), "METADATA_TOO_LARGE");
    EXPECT_THAT(status.error_message(), HasSubstr("metadata-bytes-max is 16384"));
    v1::TokenizeRequest text;
    v1::TokenizeResponse ids;
    EXPECT_EQ(ReasonOf(server.inference().Tokenize(&tokenize, text, &ids)), "METADATA_TOO_LARGE");
  }
  server.gate().Open();
  EXPECT_THAT(other.End().choices.at(0).ids, ElementsAreArray(Expected(kEightTokens, 50)));
}

TEST(WireTest, MetadataWithinTheirLimitAreTaken) {
  TestServer server;
  grpc::ClientContext context;
  context.AddMetadata("x-long", std::string(15 << 10, 'm'));
  EXPECT_TRUE(Collect(*server.inference().Generate(&context, Greedy(kEightTokens, 1))).status.ok());
}

TEST(WireTest, CompressedMessagesAreNotTaken) {
  TestServer server;
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    grpc::ClientContext context;
    context.set_compression_algorithm(algorithm);
    v1::GenerateRequest request = Greedy(kEightTokens, 1);
    request.mutable_cache()->set_salt(std::string(200, 's'));
    EXPECT_EQ(Collect(*server.inference().Generate(&context, request)).status.error_code(),
              StatusCode::UNIMPLEMENTED);
  }
}

}  // namespace
}  // namespace incipit
