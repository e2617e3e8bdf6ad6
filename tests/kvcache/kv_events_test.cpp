#include "kvcache/kv_events.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <random>
#include <string>
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
    cache.Listen({.scope = KvEventScope::kAll});
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

// Returns the kinds of the events of `cache`, one letter for each event, and clears the events.
std::string TakeKinds(KvCacheManager& cache) {
  std::string kinds;
  for (const KvEvent& event : cache.Events().events) {
    kinds += "srcRmC"[static_cast<size_t>(event.kind)];
  }
  cache.ClearEvents();
  return kinds;
}

TEST(KvEventsTest, AFullLogRestarts) {
  for (const bool tokens_are_full : {false, true}) {
    KvCacheManager cache({.num_blocks = 8, .block_size = 2});
    cache.Listen(
        {.events_max = tokens_are_full ? 100u : 3u, .tokens_max = tokens_are_full ? 5u : 100u});
    CachedSequence sequence(cache, TokenRange(0, 7));
    sequence.AdmitAndCommit();
    EXPECT_EQ(TakeKinds(cache), "R");
    EXPECT_EQ(TakeKinds(cache), "");
    cache.ReportCached(2);  // visits one slot of the hash table and one block
    EXPECT_EQ(TakeKinds(cache), "sm");
    cache.ReportCached(1);
    EXPECT_EQ(TakeKinds(cache), "sm");
    cache.ReportCached(10);
    EXPECT_EQ(TakeKinds(cache), "sC");
    sequence.Free();
    EXPECT_TRUE(cache.ResetPrefixCache());
    EXPECT_EQ(TakeKinds(cache), "c");
  }
}

TEST(KvEventsTest, ALateListenerReadsTheCachedBlocksInParts) {
  constexpr int32_t kBlockSize = 2;
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    std::minstd_rand random(seed);
    const auto pick = [&](uint32_t count) { return static_cast<int32_t>(random() % count); };
    KvCacheManager cache({.num_blocks = 30, .block_size = kBlockSize});
    EventMirror mirror;
    std::vector<std::unique_ptr<CachedSequence>> live;
    int num_complete = 0;
    for (int step = 0; step < 300; ++step) {
      if (step % 50 == 0) cache.Listen({});
      if (step % 50 == 40) {
        cache.StopListening();
        EXPECT_EQ(TakeKinds(cache), "");
      }
      const int32_t what = pick(10);
      if (what < 6) {
        std::vector<TokenId> prompt;
        for (int32_t i = 1 + pick(12); i > 0; --i) prompt.push_back(pick(2));
        auto sequence = std::make_unique<CachedSequence>(cache, prompt);
        if (sequence->Admit() < 0) continue;
        cache.Announce(sequence->table, sequence->tokens);
        if (pick(4) == 0) {
          cache.Rollback(sequence->table);
        } else {
          sequence->Commit();
          live.push_back(std::move(sequence));
        }
      } else if (!live.empty()) {
        const auto it = live.begin() + pick(static_cast<uint32_t>(live.size()));
        if (what == 9) cache.Unpublish((*it)->table, (*it)->num_tokens());
        (*it)->Free();
        live.erase(it);
      } else if (pick(3) == 0) {
        EXPECT_TRUE(cache.ResetPrefixCache());
      }
      if (step % 50 < 40 && !mirror.is_complete()) cache.ReportCached(static_cast<size_t>(pick(4)));
      ASSERT_TRUE(mirror.Apply(cache.Events(), kBlockSize)) << "seed " << seed << ", step " << step;
      cache.ClearEvents();
      if (step % 50 >= 40 || !mirror.is_complete()) continue;
      ++num_complete;
      EventMirror now;
      const KvSnapshot snapshot = cache.Snapshot();
      ASSERT_TRUE(now.Apply({.events = snapshot.events, .tokens = snapshot.tokens}, kBlockSize));
      ASSERT_EQ(mirror.prefixes(), now.prefixes()) << "seed " << seed << ", step " << step;
    }
    EXPECT_GT(num_complete, 50) << "seed " << seed;
    for (const auto& sequence : live) sequence->Free();
  }
}

// The number of a restart of the event log has 8 bits. In 1,000 restarts, the test uses each number
// several times.
TEST(KvEventsTest, EachOfManyListenersReadsAllBlocks) {
  KvCacheManager cache({.num_blocks = 8, .block_size = 2});
  CachedSequence sequence(cache, TokenRange(0, 7));
  sequence.AdmitAndCommit();
  for (int i = 0; i < 1000; ++i) {
    cache.Listen({});
    cache.ReportCached(10);
    ASSERT_EQ(TakeKinds(cache), "RsssC") << i;
  }
  sequence.Free();
}

TEST(KvEventsTest, OnlyBlocksOfTheDefaultNamespaceAreReported) {
  KvCacheManager cache({.num_blocks = 32, .block_size = 2});
  cache.Listen({});
  TakeKinds(cache);
  CacheNamespace adapted;
  adapted.adapter = AdapterKey{.name = "adapter"};
  const CacheNamespace others[] = {
      MakeCacheNamespace("alice", ""), MakeCacheNamespace(kDefaultTenant, "salt"),
      MakeCacheNamespace("", ""), MakeCacheNamespace(std::nullopt, "salt"), adapted};
  for (const CacheNamespace& other : others) {
    CachedSequence sequence(cache, TokenRange(0, 7), other);
    sequence.AdmitAndCommit();
    sequence.Free();
  }
  EXPECT_EQ(TakeKinds(cache), "");
  for (const CacheNamespace& own : {CacheNamespace{}, MakeCacheNamespace(kDefaultTenant, "")}) {
    CachedSequence sequence(cache, TokenRange(0, 5), own);
    sequence.AdmitAndCommit();
    sequence.Free();
    EXPECT_EQ(TakeKinds(cache), "ss");
  }
  EXPECT_EQ(cache.Snapshot().events.size(), 4u);
  cache.Listen({});
  cache.ReportCached(100);
  EXPECT_EQ(TakeKinds(cache), "RssssC");
  cache.Listen({.scope = KvEventScope::kAll});
  cache.ReportCached(100);
  EXPECT_EQ(TakeKinds(cache), "R" + std::string(19, 's') + "C");
  cache.Listen({});
  cache.ReportCached(100);
  TakeKinds(cache);
  cache.EvictTo(0);
  EXPECT_EQ(TakeKinds(cache), "rrrr");
}

TEST(KvEventsTest, BlocksFromTheFirstMediumOnAreNotReported) {
  KvCacheManager cache({.num_blocks = 8, .block_size = 2});
  cache.Listen({});
  TakeKinds(cache);
  CachedSequence sequence(cache, TokenRange(0, 9));
  sequence.table.root =
      cache.hasher().Root({}, {{.content_hash = "image", .token_begin = 5, .num_tokens = 1}});
  sequence.table.hashes.clear();
  cache.hasher().Extend(sequence.table.root, sequence.tokens, sequence.table.hashes);
  sequence.AdmitAndCommit();
  EXPECT_EQ(TakeKinds(cache), "ss");
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
