// Tests the gRPC method SubscribeKvEvents with an engine, a KvEventHub and a service that has no
// other method.
#include "server/gateway/kv_event_stream.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <vllm/grpc/engine/vllm_engine.grpc.pb.h>

#include <future>
#include <thread>

#include "engine/engine.h"
#include "tests/engine/engine_fixture.h"
#include "tests/server/gateway/gateway_index.h"

namespace incipit {
namespace {

using smg::grpc::common::SubscribeKvEventsRequest;
using vllm::grpc::engine::VllmEngine;

class EventService final
    : public VllmEngine::WithRawCallbackMethod_SubscribeKvEvents<VllmEngine::Service> {
 public:
  explicit EventService(KvEventHub& hub) : hub_(hub) {}
  grpc::ServerWriteReactor<grpc::ByteBuffer>* SubscribeKvEvents(
      grpc::CallbackServerContext* call, const grpc::ByteBuffer* bytes) override {
    return KvEventStream::Open(hub_, *call, *bytes);
  }

 private:
  KvEventHub& hub_;
};

class StreamFixture {
 public:
  explicit StreamFixture(size_t history_bytes_max = 1 << 20)
      : hub_({.block_size = 4, .subscribers_max = 3, .history_bytes_max = history_bytes_max},
             SourceOf(*fixture_.engine, [this] { return Load(); }), metrics_, clock_),
        service_(hub_) {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    stub_ = VllmEngine::NewStub(grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                                    grpc::InsecureChannelCredentials()));
  }
  ~StreamFixture() {
    hub_.Stop();
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(5));
    fixture_.engine.reset();  // the engine reports events to `hub_` until it is destroyed
  }

  // Runs a request whose prompt begins with `first`, and waits for its end.
  void Ask(uint64_t id, TokenId first) {
    Request request = EngineFixture::Ask(id, 9, 1);
    request.prompt.front() = first;
    ASSERT_TRUE(fixture_.Submit(std::move(request)).ok());
    fixture_.listener.WaitForEnd(id);
  }
  void Reset() {
    std::promise<bool> done;
    ASSERT_TRUE(fixture_.engine->ResetPrefixCache([&](bool ok) { done.set_value(ok); }).ok());
    ASSERT_TRUE(done.get_future().get());
  }
  void AwaitSubscribers(int count) {
    const std::string line = "incipit_kv_event_subscribers " + std::to_string(count) + "\n";
    while (metrics_.Text().find(line) == std::string::npos) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  KvEventHub& hub() { return hub_; }
  VllmEngine::Stub& stub() { return *stub_; }
  std::atomic<bool> drains{false};

 private:
  KvLoad Load() {
    KvLoad load;
    load.load.set_running_requests(static_cast<uint32_t>(fixture_.engine->Load().num_running));
    if (drains) load.status = absl::UnavailableError("the server drains");
    return load;
  }

  SteadyClock clock_;
  Metrics metrics_{{}};
  EngineFixture fixture_;
  KvEventHub hub_;
  EventService service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<VllmEngine::Stub> stub_;
};

// A client of SubscribeKvEvents.
class Client {
 public:
  Client(StreamFixture& test, uint64_t start = 0) {
    SubscribeKvEventsRequest request;
    request.set_start_sequence_number(start);
    reader_ = test.stub().SubscribeKvEvents(&context_, request);
  }
  ~Client() {
    context_.TryCancel();
    if (!finished_) Finish();
  }
  void AwaitMetadata() { reader_->WaitForInitialMetadata(); }
  // Reads messages until the client knows `num_blocks` cached blocks.
  void ReadUntil(size_t num_blocks) {
    do {
      ASSERT_TRUE(Read());
    } while (index.Prefixes().size() != num_blocks);
    EXPECT_EQ(index.errors(), "");
  }
  bool Read() {
    GatewayIndex::Batch batch;
    if (!reader_->Read(&batch)) return false;
    index.Apply(batch);
    return true;
  }
  grpc::Status Finish() {
    finished_ = true;
    while (Read()) {
    }
    return reader_->Finish();
  }
  void Cancel() { context_.TryCancel(); }

  GatewayIndex index;

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<GatewayIndex::Batch>> reader_;
  bool finished_ = false;
};

TEST(KvEventStreamTest, InitialMetadataIsSentBeforeTheFirstBatch) {
  StreamFixture test;
  Client client(test);
  client.AwaitMetadata();  // the hub sends no batch yet, because its thread does not run
  test.hub().Start();
  EXPECT_TRUE(client.Read());
  EXPECT_EQ(client.index.num_snapshots(), 1);
}

TEST(KvEventStreamTest, AClientLearnsTheContentsAndTheChangesOfTheCache) {
  StreamFixture test;
  test.hub().Start();
  test.Ask(1, 100);
  Client first(test);
  first.ReadUntil(2);
  test.Ask(2, 200);
  first.ReadUntil(4);
  Client second(test);
  second.ReadUntil(4);
  EXPECT_EQ(second.index.Prefixes(), first.index.Prefixes());
  test.Reset();
  first.ReadUntil(0);
  second.ReadUntil(0);
  EXPECT_EQ(first.index.num_snapshots(), 1);
  EXPECT_EQ(first.index.num_batches(), 2);
}

TEST(KvEventStreamTest, TheLoadArrivesEachSecond) {
  StreamFixture test;
  test.hub().Start();
  Client client(test);
  while (client.index.num_loads() < 2) ASSERT_TRUE(client.Read());
  EXPECT_EQ(client.index.errors(), "");
}

TEST(KvEventStreamTest, AClientResumesAfterItsLastBatch) {
  StreamFixture test;
  test.hub().Start();
  uint64_t cursor = 0;
  {
    Client client(test);
    client.ReadUntil(0);
    test.Ask(1, 100);
    client.ReadUntil(2);
    cursor = client.index.cursor();
  }
  test.AwaitSubscribers(0);
  test.Ask(2, 200);
  Client unknown(test, cursor + 100);
  EXPECT_EQ(unknown.Finish().error_code(), grpc::StatusCode::OUT_OF_RANGE);
  Client current(test, cursor);
  GatewayIndex::Batch batch;
  while (current.index.num_batches() < 1) ASSERT_TRUE(current.Read());
  EXPECT_EQ(current.index.num_snapshots(), 0);
  EXPECT_EQ(current.index.cursor(), cursor + 1);
}

TEST(KvEventStreamTest, ACancelledCallEndsTheSubscription) {
  StreamFixture test;
  test.hub().Start();
  Client client(test);
  client.ReadUntil(0);
  test.AwaitSubscribers(1);
  client.Cancel();
  EXPECT_EQ(client.Finish().error_code(), grpc::StatusCode::CANCELLED);
  test.AwaitSubscribers(0);
}

TEST(KvEventStreamTest, TooManyCallsAreRefused) {
  StreamFixture test;
  test.hub().Start();
  Client clients[] = {Client(test), Client(test), Client(test)};
  for (Client& client : clients) client.ReadUntil(0);
  Client refused(test);
  EXPECT_EQ(refused.Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST(KvEventStreamTest, DrainAndStopEndTheCalls) {
  StreamFixture test;
  test.hub().Start();
  Client drained(test);
  drained.ReadUntil(0);
  test.drains = true;
  EXPECT_EQ(drained.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  test.drains = false;
  Client stopped(test);
  stopped.ReadUntil(0);
  test.hub().Stop();
  EXPECT_EQ(stopped.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  Client late(test);
  EXPECT_EQ(late.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

// The slow client reads nothing until the server has replaced the unread cache events by a snapshot
// of the cache.
TEST(KvEventStreamTest, ASlowClientGetsASnapshot) {
  StreamFixture test(1000);
  test.hub().Start();
  Client slow(test);
  Client fast(test);
  fast.ReadUntil(0);
  for (uint64_t id = 1; id <= 2000; ++id) {
    test.Ask(id, static_cast<TokenId>(100 + id));
    if (id % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  test.Reset();
  test.Ask(5000, 50);
  test.Ask(5001, 51);
  fast.ReadUntil(4);
  slow.ReadUntil(4);
  EXPECT_EQ(slow.index.Prefixes(), fast.index.Prefixes());
}

}  // namespace
}  // namespace incipit
