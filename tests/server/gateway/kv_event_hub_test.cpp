#include "server/gateway/kv_event_hub.h"

#include <gtest/gtest.h>

#include "tests/server/gateway/hub_fixture.h"

namespace incipit {
namespace {

using std::chrono::seconds;

double Gaps(const HubFixture& test, const std::string& reader) {
  const std::string text = test.metrics.Text();
  const std::string name = "incipit_kv_event_gaps_total{reader=\"" + reader + "\"} ";
  return std::stod(text.substr(text.find(name) + name.size()));
}

// Caches 9,300 blocks of 16 tokens, whose snapshot needs three messages.
void CacheManyBlocks(HubFixture& test) {
  for (int i = 0; i < 100; ++i) test.Cache(TokenRange(1500 * i, 1500));
}

TEST(KvEventHubTest, TheFirstSubscriberGetsASnapshotAndThenChanges) {
  HubFixture test;
  test.Cache(TokenRange(0, 7));
  GatewayIndex index;
  const auto subscriber = test.Subscribe(index);
  test.Settle({subscriber.get()});
  EXPECT_EQ(index.num_snapshots(), 1);
  EXPECT_EQ(index.Prefixes(), test.Cached());
  EXPECT_EQ(index.Prefixes().size(), 3u);
  test.Cache(TokenRange(0, 12));
  test.Settle({subscriber.get()});
  EXPECT_EQ(index.num_snapshots(), 1);
  EXPECT_EQ(index.num_batches(), 1);
  // One event contains the three new blocks. The parent in this event is the third block, which the
  // subscriber knows.
  ASSERT_EQ(subscriber->last().events_size(), 1);
  EXPECT_EQ(subscriber->last().events(0).stored().blocks_size(), 3);
  EXPECT_TRUE(subscriber->last().events(0).stored().has_parent_block_hash());
  EXPECT_EQ(subscriber->last().events(0).stored().tier(), smg::grpc::common::KV_CACHE_TIER_DEVICE);
  EXPECT_EQ(index.Prefixes(), test.Cached());
  test.cache.EvictTo(1);
  test.Settle({subscriber.get()});
  EXPECT_EQ(subscriber->last().events(0).removed().tier(), smg::grpc::common::KV_CACHE_TIER_DEVICE);
  EXPECT_EQ(index.Prefixes(), test.Cached());
  EXPECT_EQ(index.Prefixes().size(), 1u);
  EXPECT_EQ(index.errors(), "");
}

TEST(KvEventHubTest, ASnapshotOfAnEmptyCacheIsOneClear) {
  HubFixture test;
  GatewayIndex index;
  const auto subscriber = test.Subscribe(index);
  test.Report();
  test.hub.Turn();
  while (subscriber->Read() && index.num_snapshots() == 0) test.Settle({});
  EXPECT_EQ(subscriber->last().snapshot().count(), 1u);
  EXPECT_EQ(subscriber->last().events_size(), 1);
  EXPECT_EQ(index.errors(), "");
}

TEST(KvEventHubTest, AResetOfTheCacheIsOneClear) {
  HubFixture test;
  GatewayIndex index;
  const auto subscriber = test.Subscribe(index);
  test.Cache(TokenRange(0, 7));
  test.Settle({subscriber.get()});
  EXPECT_TRUE(test.cache.ResetPrefixCache());
  test.Settle({subscriber.get()});
  EXPECT_EQ(subscriber->last().events_size(), 1);
  EXPECT_TRUE(subscriber->last().events(0).has_cleared());
  EXPECT_TRUE(index.Prefixes().empty());
  EXPECT_EQ(index.errors(), "");
}

TEST(KvEventHubTest, TenantsAndSaltsAreNeverAnnounced) {
  HubFixture test;
  const CacheNamespace others[] = {MakeCacheNamespace("tenant", ""),
                                   MakeCacheNamespace(kDefaultTenant, "salt"),
                                   MakeCacheNamespace(std::nullopt, "salt")};
  for (const CacheNamespace& other : others) test.Cache(TokenRange(0, 7), other);
  GatewayIndex index;
  const auto subscriber = test.Subscribe(index);
  test.Settle({subscriber.get()});
  for (const CacheNamespace& other : others) test.Cache(TokenRange(50, 7), other);
  test.Cache(TokenRange(0, 3), MakeCacheNamespace(kDefaultTenant, ""));
  test.Settle({subscriber.get()});
  const std::multiset<std::vector<TokenId>> expected = {TokenRange(0, 2)};
  EXPECT_EQ(index.Prefixes(), expected);
}

TEST(KvEventHubTest, ALargeSnapshotHasSeveralMessages) {
  KvEventHubOptions options = HubOptions();
  options.block_size = 16;
  HubFixture test(options, 10'000);
  CacheManyBlocks(test);
  GatewayIndex index, second_index;
  const auto subscriber = test.Subscribe(index);
  test.Settle({subscriber.get()});
  EXPECT_EQ(index.num_snapshots(), 1);
  EXPECT_EQ(index.Prefixes().size(), 9300u);
  EXPECT_LT(subscriber->longest(), 1u << 20);
  // The cache changes while a snapshot is sent. The subscriber receives these changes after the
  // last message of the snapshot.
  const auto second = test.Subscribe(second_index);
  test.hub.Turn();
  ASSERT_TRUE(second->Read());
  EXPECT_EQ(second->last().snapshot().count(), 3u);
  test.Cache(TokenRange(200'000, 200));
  test.Settle({subscriber.get(), second.get()});
  EXPECT_EQ(second_index.Prefixes(), index.Prefixes());
  EXPECT_EQ(second_index.num_batches(), 1);
  EXPECT_EQ(second_index.cursor(), index.cursor());
  EXPECT_EQ(index.errors() + second_index.errors(), "");
}

TEST(KvEventHubTest, ASubscriberResumesWithinTheHistory) {
  HubFixture test;
  GatewayIndex index;
  auto subscriber = test.Subscribe(index);
  test.Settle({subscriber.get()});
  test.hub.Cancel(subscriber->id());
  test.hub.Turn();
  ASSERT_TRUE(subscriber->end());
  EXPECT_TRUE(absl::IsCancelled(*subscriber->end()));
  for (int i = 0; i < 5; ++i) {
    test.Cache(TokenRange(10 * i, 7));
    test.Settle({});
  }
  // Each subscription numbers its load records from the start.
  GatewayIndex resumed = index;
  const auto again = std::make_shared<CollectingSubscriber>(test.hub, resumed);
  ASSERT_TRUE(test.hub.Subscribe(again->id(), again, index.cursor(), false).ok());
  test.hub.Turn();
  while (again->Read()) test.hub.Turn();
  EXPECT_EQ(resumed.Prefixes(), test.Cached());
  EXPECT_EQ(resumed.num_snapshots(), 1);
  EXPECT_EQ(resumed.num_batches(), 5);
}

TEST(KvEventHubTest, AnUnknownPositionIsOutOfRange) {
  KvEventHubOptions options = HubOptions();
  options.history_bytes_max = 1;
  HubFixture test(options);
  GatewayIndex index;
  const auto early = test.Subscribe(index, 17);
  test.hub.Turn();
  ASSERT_TRUE(early->end());
  EXPECT_TRUE(absl::IsOutOfRange(*early->end()));

  const auto subscriber = test.Subscribe(index);
  test.Settle({subscriber.get()});
  const uint64_t cursor = index.cursor();
  EXPECT_GT(cursor >> 32, 1'600'000'000u);  // the upper 32 bits are the Unix time in seconds
  for (int i = 0; i < 2; ++i) {
    test.Cache(TokenRange(10 * i, 7));
    test.Settle({subscriber.get()});
  }
  EXPECT_EQ(index.cursor(), cursor + 2);
  for (const uint64_t start : {cursor, cursor + 3, uint64_t{1}}) {
    const auto stranger = test.Subscribe(index, start);
    test.hub.Turn();
    ASSERT_TRUE(stranger->end()) << start - cursor;
    EXPECT_TRUE(absl::IsOutOfRange(*stranger->end()));
    EXPECT_FALSE(stranger->is_accepted());
  }
  const auto current = test.Subscribe(index, cursor + 1);
  test.hub.Turn();
  EXPECT_FALSE(current->end());
}

TEST(KvEventHubTest, ASlowSubscriberGetsASnapshotInPlaceOfLostBatches) {
  KvEventHubOptions options = HubOptions();
  options.history_bytes_max = 300;
  HubFixture test(options, 256);
  GatewayIndex slow_index, fast_index;
  const auto slow = test.Subscribe(slow_index), fast = test.Subscribe(fast_index);
  test.Settle({slow.get(), fast.get()});
  for (int i = 0; i < 50; ++i) {
    test.Cache(TokenRange(10 * i, 7));
    test.Settle({fast.get()});
  }
  EXPECT_EQ(fast_index.Prefixes(), test.Cached());
  EXPECT_EQ(fast_index.num_snapshots(), 1);
  test.Settle({slow.get(), fast.get()});
  EXPECT_EQ(slow_index.Prefixes(), test.Cached());
  EXPECT_EQ(slow_index.num_snapshots(), 2);
  EXPECT_EQ(slow_index.cursor(), fast_index.cursor());
  EXPECT_EQ(Gaps(test, "subscriber"), 1);
  EXPECT_EQ(Gaps(test, "hub"), 0);
  EXPECT_EQ(slow_index.errors() + fast_index.errors(), "");
}

TEST(KvEventHubTest, AFullQueueIsAGapAfterWhichTheCacheIsReadAgain) {
  KvEventHubOptions options = HubOptions();
  options.queue_events_max = 100;
  HubFixture test(options);
  GatewayIndex index;
  const auto subscriber = test.Subscribe(index);
  test.Settle({subscriber.get()});
  for (int i = 0; i < 40; ++i) {  // reports more than 100 events before the next Turn
    test.Cache(TokenRange(10 * i, 7));
    test.Report();
  }
  test.Settle({subscriber.get()});
  EXPECT_EQ(Gaps(test, "hub"), 1);
  EXPECT_EQ(Gaps(test, "subscriber"), 1);
  EXPECT_EQ(index.Prefixes(), test.Cached());
  EXPECT_EQ(index.num_snapshots(), 2);
  EXPECT_EQ(index.errors(), "");
}

TEST(KvEventHubTest, ASubscriberThatDoesNotReadIsDisconnected) {
  HubFixture test;
  GatewayIndex index;
  const auto subscriber = test.Subscribe(index);
  test.Report();
  test.hub.Turn();
  ASSERT_TRUE(subscriber->has_message());
  for (int i = 0; i < 29; ++i) {
    test.clock.Advance(seconds(1));
    test.hub.Turn();
  }
  EXPECT_FALSE(subscriber->was_reset());
  test.clock.Advance(seconds(2));
  test.hub.Turn();
  EXPECT_TRUE(subscriber->was_reset());
  test.hub.Turn();
  EXPECT_TRUE(subscriber->end());
}

TEST(KvEventHubTest, TheNumberOfSubscribersIsLimited) {
  KvEventHubOptions options = HubOptions();
  options.subscribers_max = 2;
  HubFixture test(options);
  GatewayIndex index;
  const auto first = test.Subscribe(index), second = test.Subscribe(index);
  const auto third = std::make_shared<CollectingSubscriber>(test.hub, index);
  const absl::Status status = test.hub.Subscribe(third->id(), third, 0, true);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  test.hub.Cancel(first->id());
  test.hub.Turn();
  EXPECT_TRUE(test.hub.Subscribe(third->id(), third, 0, true).ok());
  EXPECT_NE(test.metrics.Text().find("incipit_kv_event_subscribers 1"), std::string::npos);
}

TEST(KvEventHubTest, SnapshotsAreSharedAndTheirNumberIsLimited) {
  KvEventHubOptions options = HubOptions();
  options.block_size = 16;
  options.history_bytes_max = 1;
  HubFixture test(options, 10'000);
  CacheManyBlocks(test);
  GatewayIndex indexes[4];
  std::vector<std::shared_ptr<CollectingSubscriber>> subscribers;
  const auto arrive = [&](int i) {
    subscribers.push_back(test.Subscribe(indexes[i]));
    test.Settle({});
    while (indexes[i].num_loads() == 1 && subscribers.back()->Read()) test.hub.Turn();
  };
  const auto change = [&](int i) {
    test.Cache(TokenRange(200'000 + 100 * i, 33));
    test.Settle({});
  };
  // KvEventHub stores fewer changes than the test makes between two subscriptions. Each subscriber
  // therefore receives another snapshot.
  for (int i = 0; i < 3; ++i) {
    arrive(i);
    subscribers.back()->Read();
    test.hub.Turn();
    change(2 * i);
    change(2 * i + 1);
  }
  subscribers[2]->Read();
  test.hub.Turn();
  // KvEventHub keeps at most two snapshots in memory, so the third subscriber waits.
  EXPECT_FALSE(subscribers[2]->has_message());
  test.Settle({subscribers[0].get(), subscribers[1].get(), subscribers[2].get()});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(indexes[i].Prefixes(), test.Cached());
    EXPECT_EQ(indexes[i].errors(), "");
  }
}

TEST(KvEventHubTest, LoadRecordsRepeatTheLastSequenceNumber) {
  HubFixture test;
  test.load.load.set_running_requests(7);
  GatewayIndex index;
  const auto subscriber = test.Subscribe(index);
  test.hub.Turn();
  ASSERT_TRUE(subscriber->Read());  // reads the load record that precedes the first batch of events
  EXPECT_EQ(subscriber->last().sequence_number(), 0u);
  EXPECT_EQ(subscriber->last().load().running_requests(), 7u);
  test.Settle({subscriber.get()});
  EXPECT_EQ(index.num_loads(), 1);
  for (int i = 0; i < 3; ++i) {
    test.clock.Advance(seconds(1));
    test.Settle({subscriber.get()});
  }
  EXPECT_EQ(index.num_loads(), 4);
  EXPECT_EQ(subscriber->last().load().sample(), 4u);

  GatewayIndex old_index;
  const auto old = std::make_shared<CollectingSubscriber>(test.hub, old_index);
  ASSERT_TRUE(test.hub.Subscribe(old->id(), old, 0, false).ok());
  test.hub.Turn();
  ASSERT_TRUE(old->Read());
  EXPECT_TRUE(old->last().has_snapshot());
  test.hub.Turn();
  ASSERT_TRUE(old->Read());
  EXPECT_TRUE(old->last().load().load_only());
  EXPECT_EQ(index.errors() + old_index.errors(), "");
}

TEST(KvEventHubTest, DrainAndStopEndTheSubscriptions) {
  HubFixture test;
  GatewayIndex index;
  const auto subscriber = test.Subscribe(index);
  test.Settle({subscriber.get()});
  test.load.status = absl::UnavailableError("the server drains");
  test.clock.Advance(seconds(1));
  test.hub.Turn();
  ASSERT_TRUE(subscriber->end());
  EXPECT_TRUE(absl::IsUnavailable(*subscriber->end()));

  const auto refused = test.Subscribe(index);
  test.hub.Turn();
  EXPECT_TRUE(refused->end());
  test.load.status = absl::OkStatus();
  const auto other = test.Subscribe(index);
  test.hub.Turn();
  const auto late = test.Subscribe(index);
  test.hub.Stop();
  EXPECT_TRUE(other->end());
  EXPECT_TRUE(late->end());
  const absl::Status status = test.hub.Subscribe(late->id(), late, 0, true);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

TEST(KvEventHubTest, TheHubStopsListeningAfterTheLastSubscriberHasLeft) {
  HubFixture test;
  GatewayIndex index;
  const auto subscriber = test.Subscribe(index);
  test.Settle({subscriber.get()});
  test.hub.Cancel(subscriber->id());
  test.Settle({});
  test.Cache(TokenRange(0, 7));
  EXPECT_FALSE(test.cache.Events().events.empty());
  test.clock.Advance(seconds(60));
  test.Settle({});
  test.Cache(TokenRange(10, 7));
  EXPECT_TRUE(test.cache.Events().events.empty());
  GatewayIndex late_index;
  const auto late = test.Subscribe(late_index);
  test.Settle({late.get()});
  EXPECT_EQ(late_index.Prefixes(), test.Cached());
  EXPECT_EQ(late_index.Prefixes().size(), 6u);
}

TEST(KvEventHubTest, TheThreadSendsEvents) {
  SteadyClock clock;
  Metrics metrics{{}};
  Mutex mutex;
  KvCacheManager cache({.num_blocks = 64, .block_size = 2});
  CacheReporter reporter(cache);
  // Calls the reporter under a lock. In a server, only the engine thread uses the cache and the
  // reporter.
  const auto with_cache = [&](const CacheOrders& orders) {
    MutexLock lock(mutex);
    reporter.Apply(orders);
  };
  KvEventHubOptions options;
  options.block_size = 2;
  KvEventHub hub(options,
                 {.listen = [&](KvEventListener* listener) { with_cache({.listener = listener}); },
                  .report_cached = [&] { with_cache({.reports_cached = true}); },
                  .load = [] { return KvLoad(); }},
                 metrics, clock);
  hub.Start();

  // Applies messages on the thread of the hub. The test can wait until the reader knows a number of
  // blocks.
  class Reader final : public KvSubscriber {
   public:
    explicit Reader(KvEventHub& hub) : hub_(hub), id(hub.NewId()) {}
    void Accept() override {}
    void Send(KvMessage message) override {
      GatewayIndex::Batch batch;
      EXPECT_TRUE(batch.ParseFromString(*message));
      {
        MutexLock lock(mutex_);
        index_.Apply(batch);
      }
      changed_.notify_all();
      hub_.OnSent(id, true);
    }
    void End(const absl::Status&) override {}
    void Reset() override {}
    void Await(size_t num_blocks, const std::function<void()>& step) {
      while (true) {
        step();
        MutexLock lock(mutex_);
        EXPECT_EQ(index_.errors(), "");
        if (index_.Prefixes().size() == num_blocks) return;
        changed_.wait_for(mutex_, std::chrono::milliseconds(1));
      }
    }

   private:
    KvEventHub& hub_;
    Mutex mutex_;
    std::condition_variable_any changed_;
    GatewayIndex index_;

   public:
    const uint64_t id;
  };
  const auto reader = std::make_shared<Reader>(hub);
  ASSERT_TRUE(hub.Subscribe(reader->id, reader, 0, true).ok());
  const auto report = [&] {
    MutexLock lock(mutex);
    reporter.Report();
  };
  reader->Await(0, report);
  {
    MutexLock lock(mutex);
    CachedSequence sequence(cache, TokenRange(0, 21));
    sequence.AdmitAndCommit();
    sequence.Free();
  }
  reader->Await(10, report);
  hub.Stop();
}

}  // namespace
}  // namespace incipit
