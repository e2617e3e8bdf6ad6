// Tests a gateway that subscribes to the events of the prefix cache of a whole server.
#include <gtest/gtest.h>

#include <future>
#include <set>

#include "tests/server/gateway/gateway_client.h"
#include "tests/server/gateway/gateway_index.h"

namespace incipit {
namespace {

using grpc::StatusCode;

// A client of SubscribeKvEvents.
class EventReader {
 public:
  explicit EventReader(TestServer& server) : stub_(VllmEngine::NewStub(server.channel())) {
    reader_ = stub_->SubscribeKvEvents(&context_, {});
  }
  ~EventReader() {
    context_.TryCancel();
    if (reader_ != nullptr) End();
  }
  // Reads messages until the gateway knows `num_blocks` cached blocks.
  void ReadUntil(size_t num_blocks) {
    do {
      ASSERT_TRUE(Read());
    } while (index.num_snapshots() == 0 || index.Prefixes().size() != num_blocks);
    EXPECT_EQ(index.errors(), "");
  }
  bool Read() {
    if (!reader_->Read(&last)) return false;
    index.Apply(last);
    return true;
  }
  StatusCode End() {
    while (Read()) {
    }
    const StatusCode code = reader_->Finish().error_code();
    reader_.reset();
    return code;
  }

  GatewayIndex index;
  GatewayIndex::Batch last;

 private:
  grpc::ClientContext context_;
  const std::unique_ptr<VllmEngine::Stub> stub_;
  std::unique_ptr<grpc::ClientReader<GatewayIndex::Batch>> reader_;
};

std::vector<TokenId> Prompt(TokenId first) {
  std::vector<TokenId> prompt;
  for (TokenId i = 0; i < 40; ++i) prompt.push_back((first + i) % kByteVocab);
  return prompt;
}

TEST(GatewayEventsTest, AGatewayKnowsTheBlocksOfItsRequests) {
  TestServer server;
  const std::vector<TokenId> prompt = Prompt(10);
  EXPECT_TRUE(AskGateway(server, GatewayGreedy(prompt, 1, true)).status.ok());
  EventReader early(server);
  early.ReadUntil(2);
  // The model computes 40 prompt tokens and 24 of the 25 output tokens, which fill 4 blocks of 16
  // tokens.
  EXPECT_TRUE(AskGateway(server, GatewayGreedy(prompt, 25, true)).status.ok());
  early.ReadUntil(4);
  std::vector<TokenId> tokens = prompt;
  for (const TokenId token : Expected(prompt, 24)) tokens.push_back(token);
  std::multiset<std::vector<TokenId>> expected;
  for (int size = 16; size <= 64; size += 16) {
    expected.emplace(tokens.begin(), tokens.begin() + size);
  }
  EXPECT_EQ(early.index.Prefixes(), expected);
  EventReader late(server);
  late.ReadUntil(4);
  EXPECT_EQ(late.index.Prefixes(), expected);
}

TEST(GatewayEventsTest, BlocksOfTenantsAndSaltsAreNeverAnnounced) {
  TestServer server;
  EventReader reader(server);
  reader.ReadUntil(0);
  EXPECT_TRUE(Ask(server.inference(), Greedy(Prompt(10), 1), "tenant").status.ok());
  v1::GenerateRequest salted = Greedy(Prompt(60), 1);
  salted.mutable_cache()->set_salt("salt");
  EXPECT_TRUE(Ask(server.inference(), salted).status.ok());
  EXPECT_TRUE(Ask(server.inference(), Greedy(Prompt(110), 1), "default").status.ok());
  EXPECT_TRUE(Ask(server.inference(), Greedy(Prompt(160), 1)).status.ok());
  reader.ReadUntil(4);
  EventReader late(server);
  late.ReadUntil(4);
  for (const std::vector<TokenId>& prefix : late.index.Prefixes()) {
    EXPECT_TRUE(prefix.front() == 110 || prefix.front() == 160);
  }
  EXPECT_EQ(late.index.Prefixes(), reader.index.Prefixes());
}

TEST(GatewayEventsTest, BothResetsOfTheCacheClearTheGateway) {
  TestServer server;
  EventReader reader(server);
  for (const bool by_admin : {false, true}) {
    EXPECT_TRUE(AskGateway(server, GatewayGreedy(Prompt(10), 1, true)).status.ok());
    reader.ReadUntil(2);
    grpc::ClientContext context;
    if (by_admin) {
      v1::ResetPrefixCacheResponse response;
      EXPECT_TRUE(server.admin().ResetPrefixCache(&context, {}, &response).ok());
    } else {
      smg::grpc::common::FlushCacheResponse response;
      EXPECT_TRUE(VllmEngine::NewStub(server.channel())->FlushCache(&context, {}, &response).ok());
      EXPECT_TRUE(response.success());
    }
    reader.ReadUntil(0);
    EXPECT_TRUE(reader.last.events(0).has_cleared());
  }
  EXPECT_EQ(reader.index.num_snapshots(), 1);
}

TEST(GatewayEventsTest, TheLoadOfTheServerArrivesEachSecond) {
  TestServer server;
  EventReader reader(server);
  while (reader.index.num_loads() < 2) ASSERT_TRUE(reader.Read());
  EXPECT_EQ(reader.last.load().max_running_requests(),
            static_cast<uint32_t>(TestOptions().running_max));
  EXPECT_EQ(reader.last.load().max_total_num_tokens(), 256 * 16);
  EXPECT_EQ(reader.index.errors(), "");
}

TEST(GatewayEventsTest, DrainAndStopEndTheSubscription) {
  TestServer server;
  EventReader drained(server);
  drained.ReadUntil(0);
  {
    grpc::ClientContext context;
    v1::DrainResponse response;
    EXPECT_TRUE(server.admin().Drain(&context, {}, &response).ok());
  }
  EXPECT_EQ(drained.End(), StatusCode::UNAVAILABLE);
  {
    grpc::ClientContext context;
    v1::ResumeResponse response;
    EXPECT_TRUE(server.admin().Resume(&context, {}, &response).ok());
  }
  EventReader stopped(server);
  stopped.ReadUntil(0);
  server.Stop();
  EXPECT_EQ(stopped.End(), StatusCode::UNAVAILABLE);
}

TEST(GatewayEventsTest, AnEngineThatFailsEndsTheSubscription) {
  TestServer server;
  EventReader reader(server);
  reader.ReadUntil(0);
  server.gate().FailNext(absl::InternalError("the device is gone"));
  EXPECT_FALSE(AskGateway(server, GatewayGreedy(Prompt(10), 5, true)).status.ok());
  EXPECT_FALSE(server.AwaitFatal().ok());
  EXPECT_NE(reader.End(), StatusCode::OK);
}

TEST(GatewayEventsTest, ASubscriptionDoesNotKeepADrainingServerAlive) {
  TestServer server;
  EventReader reader(server);
  reader.ReadUntil(0);
  std::promise<void> idle;
  server.server().BeginDrain();
  server.server().WhenIdle([&] { idle.set_value(); });
  idle.get_future().wait();
  EXPECT_EQ(reader.End(), StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace incipit
