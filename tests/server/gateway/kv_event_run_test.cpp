// Tests random runs: after each step, a gateway that has read all messages knows exactly the cached
// blocks.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tests/server/gateway/hub_fixture.h"

namespace incipit {
namespace {

struct Gateway {
  std::shared_ptr<CollectingSubscriber> subscriber;
  GatewayIndex index;
  bool is_slow = false;
};

class GatewayRun {
 public:
  explicit GatewayRun(uint32_t seed) : random_(seed), test_(RandomOptions(), 16 + Pick(100)) {}

  void Step() {
    const int32_t what = Pick(100);
    if (what < 45) {
      Admit();
    } else if (what < 75) {
      Leave(what < 50);
    } else if (what < 78 && live_.empty()) {
      EXPECT_TRUE(test_.cache.ResetPrefixCache());
    } else if (what < 82) {
      Arrive();
    } else if (what < 85 && !gateways_.empty()) {
      Disconnect();
    } else if (what < 88 && !gateways_.empty()) {
      Gateway& gateway = *gateways_[static_cast<size_t>(Pick(NumGateways()))];
      gateway.is_slow = !gateway.is_slow;
    } else if (what < 90) {
      test_.clock.Advance(std::chrono::seconds(Pick(20)));
    }
    if (Pick(3) == 0) test_.Report();
    if (Pick(3) == 0) test_.hub.Turn();
    if (Pick(2) == 0) Compare();
  }

  void Finish() {
    for (auto& gateway : gateways_) gateway->is_slow = false;
    Compare();
    for (auto& sequence : live_) sequence->Free();
  }
  int num_compared() const { return num_compared_; }

 private:
  int32_t Pick(int32_t count) {
    return static_cast<int32_t>(random_() % static_cast<uint32_t>(count));
  }
  int32_t NumGateways() const { return static_cast<int32_t>(gateways_.size()); }
  KvEventHubOptions RandomOptions() {
    KvEventHubOptions options = HubOptions();
    options.subscribers_max = 4;
    if (Pick(2) == 0) options.history_bytes_max = static_cast<size_t>(Pick(600));
    if (Pick(2) == 0) options.queue_events_max = static_cast<size_t>(200 + Pick(100));
    return options;
  }

  void Admit() {
    std::vector<TokenId> prompt;
    for (int32_t i = 1 + Pick(24); i > 0; --i) prompt.push_back(Pick(5) == 0);
    const CacheNamespace space =
        Pick(3) == 0 ? MakeCacheNamespace(kDefaultTenant, "salt") : CacheNamespace{};
    auto sequence = std::make_unique<CachedSequence>(test_.cache, prompt, space);
    if (sequence->Admit() < 0) return;
    test_.cache.Announce(sequence->table, sequence->tokens);
    if (Pick(5) == 0) {
      test_.cache.Rollback(sequence->table);
    } else {
      sequence->Commit();
      live_.push_back(std::move(sequence));
    }
  }
  void Leave(bool unpublishes) {
    if (live_.empty()) return;
    const auto it = live_.begin() + Pick(static_cast<int32_t>(live_.size()));
    if (unpublishes) test_.cache.Unpublish((*it)->table, (*it)->num_tokens());
    (*it)->Free();
    live_.erase(it);
  }

  void Arrive() {
    if (NumGateways() == 4) return;
    gateways_.push_back(std::make_unique<Gateway>());
    Connect(*gateways_.back());
  }
  void Connect(Gateway& gateway) {
    gateway.subscriber = std::make_shared<CollectingSubscriber>(test_.hub, gateway.index);
    const auto status = test_.hub.Subscribe(gateway.subscriber->id(), gateway.subscriber,
                                            gateway.index.cursor(), gateway.index.cursor() == 0);
    ASSERT_TRUE(status.ok()) << status;
  }
  // Ends the subscription of a random gateway. The gateway is then removed, or it subscribes again.
  void Disconnect() {
    const size_t i = static_cast<size_t>(Pick(NumGateways()));
    Gateway& gateway = *gateways_[i];
    gateway.subscriber->Read();
    test_.hub.Cancel(gateway.subscriber->id());
    test_.hub.Turn();
    if (Pick(2) == 0) {
      gateways_.erase(gateways_.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
    gateway.index.Reconnect();
    Connect(gateway);
  }

  // Lets all gateways except the slow gateways read all messages. Compares the blocks that these
  // gateways know with the cached blocks.
  void Compare() {
    for (bool again = true; again;) {
      std::vector<CollectingSubscriber*> readers;
      for (auto& gateway : gateways_) {
        if (!gateway->is_slow) readers.push_back(gateway->subscriber.get());
      }
      test_.Settle(readers);
      again = false;
      for (auto& gateway : gateways_) {
        if (!gateway->subscriber->end()) continue;
        // KvEventHub has ended the subscription: the gateway asked for events that are no longer
        // stored, or read too slowly.
        gateway->index.Forget();
        Connect(*gateway);
        again = true;
      }
    }
    const auto cached = test_.Cached();
    for (auto& gateway : gateways_) {
      ASSERT_EQ(gateway->index.errors(), "");
      if (gateway->is_slow) continue;
      ++num_compared_;
      ASSERT_EQ(gateway->index.Prefixes(), cached);
    }
  }

  std::minstd_rand random_;
  HubFixture test_;
  std::vector<std::unique_ptr<CachedSequence>> live_;
  std::vector<std::unique_ptr<Gateway>> gateways_;
  int num_compared_ = 0;
};

TEST(KvEventRunTest, GatewaysKnowTheContentsOfTheCacheAfterEachStep) {
  int num_compared = 0;
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    GatewayRun run(seed);
    for (int step = 0; step < 300; ++step) {
      run.Step();
      ASSERT_FALSE(testing::Test::HasFailure()) << "step " << step;
    }
    run.Finish();
    num_compared += run.num_compared();
  }
  EXPECT_GT(num_compared, 10'000);
}

}  // namespace
}  // namespace incipit
