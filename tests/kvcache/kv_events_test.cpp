#include "kvcache/kv_events.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "tests/kvcache/cached_sequence.h"
#include "tests/support/event_mirror.h"

namespace incipit {
namespace {

TEST(KvEventsTest, AllEventsTogetherEqualASnapshot) {
  constexpr int32_t kBlockSize = 2;
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    std::minstd_rand random(seed);
    const auto pick = [&](uint32_t count) { return static_cast<int32_t>(random() % count); };
    KvCacheManager cache({.num_blocks = 6 + pick(8), .block_size = kBlockSize});
    cache.Listen(10'000);
    EventMirror mirror;
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
      ASSERT_TRUE(mirror.Apply(events, kBlockSize)) << "seed " << seed << ", step " << step;
      cache.ClearEvents();
      EventMirror latecomer;
      const KvSnapshot snapshot = cache.Snapshot();
      ASSERT_TRUE(
          latecomer.Apply({.events = snapshot.events, .tokens = snapshot.tokens}, kBlockSize))
          << "seed " << seed << ", step " << step;
      ASSERT_EQ(mirror.prefixes(), latecomer.prefixes()) << "seed " << seed << ", step " << step;
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

TEST(KvEventsTest, NothingIsKeptWithoutAListener) {
  KvCacheManager cache({.num_blocks = 8, .block_size = 2});
  CachedSequence sequence(cache, TokenRange(0, 7));
  sequence.AdmitAndCommit();
  EXPECT_TRUE(cache.Events().events.empty());
  sequence.Free();
}

}  // namespace
}  // namespace incipit
