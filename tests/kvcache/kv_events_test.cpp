#include "kvcache/kv_events.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "tests/kvcache/cached_sequence.h"

namespace incipit {
namespace {

using KeyBytes = std::array<uint8_t, 32>;

// What somebody knows of the cache who only hears events.
class Mirror {
 public:
  void Hear(std::span<const KvEvent> events, std::span<const TokenId> tokens, int32_t block_size) {
    for (const KvEvent& event : events) {
      switch (event.kind) {
        case KvEvent::Kind::kStored: {
          EXPECT_TRUE(event.starts_chain || keys_.contains(event.parent.bytes)) << "no parent";
          const auto block = tokens.subspan(event.tokens_begin, static_cast<size_t>(block_size));
          EXPECT_TRUE(
              keys_.emplace(event.key.bytes, std::vector(block.begin(), block.end())).second)
              << "stored twice";
          break;
        }
        case KvEvent::Kind::kRemoved:
          EXPECT_EQ(keys_.erase(event.key.bytes), 1u) << "removed what was not there";
          break;
        case KvEvent::Kind::kCleared:
        case KvEvent::Kind::kLost:
          keys_.clear();
          break;
      }
    }
  }
  const std::map<KeyBytes, std::vector<TokenId>>& keys() const { return keys_; }

 private:
  std::map<KeyBytes, std::vector<TokenId>> keys_;
};

TEST(KvEventsTest, WhoHearsEveryEventKnowsWhatASnapshotSays) {
  constexpr int32_t kBlockSize = 2;
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    std::minstd_rand random(seed);
    const auto pick = [&](uint32_t count) { return static_cast<int32_t>(random() % count); };
    KvCacheManager cache({.num_blocks = 6 + pick(8), .block_size = kBlockSize});
    cache.Listen(10'000);
    Mirror mirror;
    std::vector<std::unique_ptr<CachedSequence>> live;
    for (int step = 0; step < 100; ++step) {
      const int32_t what = pick(10);
      if (what < 5) {
        std::vector<TokenId> prompt;
        for (int32_t i = 1 + pick(8); i > 0; --i) prompt.push_back(pick(2));
        auto sequence = std::make_unique<CachedSequence>(cache, prompt);
        if (sequence->Admit() < 0) continue;
        cache.Announce(sequence->table, sequence->tokens);
        if (pick(4) == 0) {
          cache.Rollback(sequence->table);
        } else {
          sequence->Commit();
          live.push_back(std::move(sequence));
        }
      } else if (what < 9 && !live.empty()) {
        const auto it = live.begin() + pick(static_cast<uint32_t>(live.size()));
        if (what == 8) cache.Unpublish((*it)->table, (*it)->num_tokens());
        (*it)->Free();
        live.erase(it);
      } else if (live.empty()) {
        EXPECT_TRUE(cache.ResetPrefixCache());
      }
      const KvEvents events = cache.Events();
      mirror.Hear(events.events, events.tokens, kBlockSize);
      cache.ClearEvents();
      Mirror latecomer;
      const KvSnapshot snapshot = cache.Snapshot();
      latecomer.Hear(snapshot.events, snapshot.tokens, kBlockSize);
      ASSERT_EQ(mirror.keys(), latecomer.keys()) << "seed " << seed << ", step " << step;
    }
    for (const auto& sequence : live) sequence->Free();
  }
}

TEST(KvEventsTest, WhatDoesNotFitIsLostAsAWhole) {
  KvCacheManager cache({.num_blocks = 8, .block_size = 2});
  cache.Listen(2);
  CachedSequence sequence(cache, TokenRange(0, 7));
  sequence.AdmitAndCommit();
  ASSERT_EQ(cache.Events().events.size(), 1u);
  EXPECT_EQ(cache.Events().events.front().kind, KvEvent::Kind::kLost);
  cache.ClearEvents();
  EXPECT_TRUE(cache.Events().events.empty());
  EXPECT_EQ(cache.Snapshot().events.size(), 3u);
  sequence.Free();
}

TEST(KvEventsTest, NothingIsKeptWhereNobodyListens) {
  KvCacheManager cache({.num_blocks = 8, .block_size = 2});
  CachedSequence sequence(cache, TokenRange(0, 7));
  sequence.AdmitAndCommit();
  EXPECT_TRUE(cache.Events().events.empty());
  sequence.Free();
}

}  // namespace
}  // namespace incipit
