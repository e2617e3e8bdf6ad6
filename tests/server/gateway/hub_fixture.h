// Fixture for tests of KvEventHub, which sends cache events to gateways. The fixture contains a
// KvEventHub without a thread, a prefix cache in place of the engine, and subscribers that collect
// messages.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "server/gateway/kv_event_hub.h"
#include "tests/kvcache/cached_sequence.h"
#include "tests/server/gateway/gateway_index.h"
#include "tests/support/manual_clock.h"

namespace incipit {

// Collects the messages of one subscription. A message counts as sent only when the test calls
// Read.
class CollectingSubscriber final : public KvSubscriber {
 public:
  CollectingSubscriber(KvEventHub& hub, GatewayIndex& index)
      : hub_(hub), index_(index), id_(hub.NewId()) {}

  void Accept() override {
    EXPECT_FALSE(is_accepted_) << "two acceptances";
    is_accepted_ = true;
  }
  void Send(KvMessage message) override {
    EXPECT_TRUE(is_accepted_) << "a message was sent before the subscription was accepted";
    EXPECT_EQ(message_, nullptr) << "a message was sent before the previous message was read";
    EXPECT_FALSE(end_);
    message_ = std::move(message);
  }
  void End(const absl::Status& status) override {
    EXPECT_FALSE(end_) << "two ends";
    end_ = status;
  }
  void Reset() override {
    was_reset_ = true;
    hub_.Cancel(id_);
  }

  // Applies the last message to the gateway's list of cached blocks. Returns false if there is no
  // message.
  bool Read() {
    if (message_ == nullptr) return false;
    GatewayIndex::Batch batch;
    EXPECT_TRUE(batch.ParseFromString(*std::exchange(message_, nullptr)));
    longest_ = std::max(longest_, batch.ByteSizeLong());
    index_.Apply(batch);
    last_ = std::move(batch);
    if (!end_) hub_.OnSent(id_, true);
    return true;
  }

  uint64_t id() const { return id_; }
  bool is_accepted() const { return is_accepted_; }
  bool has_message() const { return message_ != nullptr; }
  bool was_reset() const { return was_reset_; }
  const std::optional<absl::Status>& end() const { return end_; }
  const GatewayIndex::Batch& last() const { return last_; }
  size_t longest() const { return longest_; }

 private:
  KvEventHub& hub_;
  GatewayIndex& index_;
  const uint64_t id_;
  KvMessage message_;
  GatewayIndex::Batch last_;
  std::optional<absl::Status> end_;
  bool is_accepted_ = false, was_reset_ = false;
  size_t longest_ = 0;
};

inline KvEventHubOptions HubOptions() {
  KvEventHubOptions options;
  options.block_size = 2;
  options.batch_interval = {};
  return options;
}

class HubFixture {
 public:
  explicit HubFixture(KvEventHubOptions options = HubOptions(), int32_t num_blocks = 64)
      : cache({.num_blocks = num_blocks, .block_size = options.block_size}),
        hub(options,
            {.listen =
                 [this](KvEventListener* listener) { reporter_.Apply({.listener = listener}); },
             .report_cached = [this] { reporter_.Apply({.reports_cached = true}); },
             .load = [this] { return load; }},
            metrics, clock) {}

  // Passes the events of the cache to `hub`, as the engine does after each step.
  void Report() { reporter_.Report(); }
  // Reports cache events and calls KvEventHub::Turn until no message is left. The subscribers
  // `readers` read all messages.
  void Settle(const std::vector<CollectingSubscriber*>& readers) {
    for (int quiet = 0; quiet < 3; ++quiet) {
      Report();
      hub.Turn();
      for (CollectingSubscriber* const reader : readers) {
        while (reader->Read()) {
          quiet = 0;
          hub.Turn();
        }
      }
      if (!cache.Events().events.empty()) quiet = 0;
    }
  }
  std::shared_ptr<CollectingSubscriber> Subscribe(GatewayIndex& index, uint64_t start = 0) {
    auto subscriber = std::make_shared<CollectingSubscriber>(hub, index);
    const absl::Status status = hub.Subscribe(subscriber->id(), subscriber, start, true);
    EXPECT_TRUE(status.ok()) << status;
    return subscriber;
  }
  // Computes and caches `tokens`.
  void Cache(std::vector<TokenId> tokens, const CacheNamespace& cache_namespace = {}) {
    CachedSequence sequence(cache, std::move(tokens), cache_namespace);
    sequence.AdmitAndCommit();
    sequence.Free();
  }
  // Returns the cached prefixes that gateways can learn from cache events.
  std::multiset<std::vector<TokenId>> Cached() const {
    GatewayIndex index;
    KvMirror mirror(cache.block_size());
    const KvSnapshot snapshot = cache.Snapshot();
    for (const KvEvent& event : snapshot.events) {
      const auto size = static_cast<size_t>(cache.block_size());
      mirror.Store(event, std::span(snapshot.tokens).subspan(event.tokens_begin, size));
    }
    const auto messages = MakeSnapshot(mirror, 1000);
    for (const KvMessage& message : messages->messages) {
      GatewayIndex::Batch batch;
      EXPECT_TRUE(batch.ParseFromString(*message));
      index.Apply(batch);
    }
    EXPECT_EQ(index.errors(), "");
    return index.Prefixes();
  }

  ManualClock clock;
  Metrics metrics{{}};
  KvCacheManager cache;
  KvLoad load;

 private:
  CacheReporter reporter_{cache};

 public:
  KvEventHub hub;
};

}  // namespace incipit
