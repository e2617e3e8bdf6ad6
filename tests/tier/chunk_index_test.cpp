// Tests the index of chunks against a simple model, and the memory that a chunk takes.
#include "tier/chunk_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "tests/tier/tier_chunks.h"

namespace incipit {
namespace {

IndexedChunk ChunkAt(uint64_t sequence, uint64_t index, ChunkLocation at) {
  return {.key = TestKey(sequence, index + 1),
          .parent = TestKey(sequence, index).prefix(),
          .is_first = index == 0,
          .at = at};
}

TEST(ChunkIndexTest, FindsMovesAndErasesChunks) {
  ChunkIndex index(10);
  const IndexedChunk chunk = ChunkAt(1, 0, {3, 4});
  EXPECT_EQ(index.Find(chunk.key), nullptr);
  ASSERT_TRUE(index.Insert(chunk));
  ASSERT_NE(index.Find(chunk.key), nullptr);
  EXPECT_EQ(index.Find(chunk.key)->at, (ChunkLocation{3, 4}));
  EXPECT_FALSE(index.Move(chunk.key, {3, 5}, {4, 0}));
  EXPECT_TRUE(index.Move(chunk.key, {3, 4}, {4, 0}));
  EXPECT_TRUE(index.Has(chunk.key, {4, 0}));
  EXPECT_FALSE(index.Erase(chunk.key, {3, 4}));
  EXPECT_EQ(index.EraseSegment(3), 0u);
  EXPECT_TRUE(index.Erase(chunk.key, {4, 0}));
  EXPECT_EQ(index.size(), 0u);
}

TEST(ChunkIndexTest, ANewLocationReplacesTheOldOne) {
  ChunkIndex index(10);
  ASSERT_TRUE(index.Insert(ChunkAt(1, 0, {1, 0})));
  ASSERT_TRUE(index.Insert(ChunkAt(1, 0, {2, 7})));
  EXPECT_EQ(index.size(), 1u);
  EXPECT_EQ(index.EraseSegment(1), 0u);
  EXPECT_EQ(index.EraseSegment(2), 1u);
}

TEST(ChunkIndexTest, IsFullAtItsCapacity) {
  ChunkIndex index(3);
  for (uint64_t i = 0; i < 3; ++i) EXPECT_TRUE(index.Insert(ChunkAt(i, 0, {1, 0})));
  EXPECT_FALSE(index.Insert(ChunkAt(3, 0, {1, 0})));
  EXPECT_EQ(index.EraseSegment(1), 3u);
  EXPECT_TRUE(index.Insert(ChunkAt(3, 0, {1, 0})));
}

// Adds a chunk in segment `segment`, so that this segment is the newest one.
void BeginSegment(ChunkIndex& index, uint32_t segment) {
  ASSERT_TRUE(index.Insert(ChunkAt(1000 + segment, 0, {segment, 0})));
}

// Returns the record indexes that ListKept appends for segment 1, of which no chunk was used since
// segment 1 was written.
std::vector<uint32_t> Kept(const ChunkIndex& index, size_t num_max = 100, int64_t now_s = 0) {
  std::vector<uint32_t> kept;
  index.ListKept({.segment = 1, .median = 1}, num_max, now_s, kept);
  return kept;
}

TEST(ChunkIndexTest, KeepsTheYoungestChunksFirst) {
  ChunkIndex index(20);
  for (uint32_t i = 0; i < 5; ++i) ASSERT_TRUE(index.Insert(ChunkAt(i, 0, {1, i})));
  BeginSegment(index, 9);
  index.Touch(TestKey(2, 1));
  BeginSegment(index, 11);
  // Chunks of one prompt are used at the same time. The first records are the first chunks.
  for (const uint64_t i : {3, 0, 4}) index.AddHit(TestKey(i, 1));
  EXPECT_EQ(Kept(index), (std::vector<uint32_t>{0, 3, 4, 2}));
  EXPECT_EQ(Kept(index, 2), (std::vector<uint32_t>{0, 3}));
}

TEST(ChunkIndexTest, KeepsOnlyChunksThatAreClearlyYoungerThanTheMedian) {
  ChunkIndex index(20);
  for (uint32_t i = 0; i < 3; ++i) ASSERT_TRUE(index.Insert(ChunkAt(i, 0, {1, i})));
  BeginSegment(index, 3);
  index.Touch(TestKey(0, 1));
  BeginSegment(index, 4);
  index.Touch(TestKey(1, 1));
  BeginSegment(index, 9);
  // The median has age 8, and the chunks have the ages 6, 5 and 8.
  EXPECT_EQ(Kept(index), (std::vector<uint32_t>{1}));
}

TEST(ChunkIndexTest, AMoveIsNoUse) {
  ChunkIndex index(20);
  ASSERT_TRUE(index.Insert(ChunkAt(0, 0, {5, 0})));
  BeginSegment(index, 8);
  ASSERT_TRUE(index.Move(TestKey(0, 1), {5, 0}, {1, 0}));
  // The chunk has age 3, and the median has age 7.
  EXPECT_EQ(Kept(index).size(), 1u);
  BeginSegment(index, 20);
  // The chunk has age 15, and the median has age 19.
  EXPECT_TRUE(Kept(index).empty());
}

TEST(ChunkIndexTest, TheFirstWriteOfAChunkIsAUse) {
  ChunkIndex index(20);
  ASSERT_TRUE(index.Insert(ChunkAt(0, 0, {kNoSegment, 0})));
  BeginSegment(index, 9);
  ASSERT_TRUE(index.Move(TestKey(0, 1), {kNoSegment, 0}, {1, 0}));
  EXPECT_EQ(Kept(index).size(), 1u);
}

// Priorities of the records 0 to 5: 50, 80, 10, 50, 90, 50.
TEST(ChunkIndexTest, KeepsChunksOfHighPriorityFirst) {
  ChunkIndex index(20);
  for (uint32_t i = 0; i < 6; ++i) ASSERT_TRUE(index.Insert(ChunkAt(i, 0, {1, i})));
  IndexedChunk low = ChunkAt(2, 0, {1, 2});
  low.priority = 10;
  ASSERT_TRUE(index.Insert(low));
  IndexedChunk high = ChunkAt(4, 0, {1, 4});
  high.priority = 90;
  ASSERT_TRUE(index.Insert(high));
  BeginSegment(index, 9);
  for (const uint64_t i : {2, 0, 5}) index.Touch(TestKey(i, 1));
  index.Touch(TestKey(1, 1), 80);
  // Record 4 is kept although the chunk was not used.
  EXPECT_EQ(Kept(index), (std::vector<uint32_t>{4, 1, 0, 5, 2}));
  index.EndHighPriority(high.key);
  EXPECT_EQ(Kept(index), (std::vector<uint32_t>{1, 0, 5, 2}));
  // A use by a request with a higher priority raises the priority.
  index.Touch(low.key, 60);
  EXPECT_EQ(Kept(index, 2), (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(index.Find(low.key)->priority, 60);
  index.Touch(low.key, 20);
  EXPECT_EQ(index.Find(low.key)->priority, 60);
}

TEST(ChunkIndexTest, DoesNotListExpiredChunks) {
  ChunkIndex index(10);
  IndexedChunk chunk = ChunkAt(1, 0, {1, 0});
  chunk.expires_s = 100;
  ASSERT_TRUE(index.Insert(chunk));
  BeginSegment(index, 9);
  index.Touch(chunk.key);
  EXPECT_EQ(Kept(index, 100, 99).size(), 1u);
  EXPECT_TRUE(Kept(index, 100, 100).empty());
}

// Three segments with 4 records each: segment s has the chunks 10 * s to 10 * s + 3.
class LeastUsedTest : public testing::Test {
 protected:
  LeastUsedTest() {
    for (uint32_t s = 1; s <= 3; ++s) {
      for (uint32_t i = 0; i < 4; ++i) EXPECT_TRUE(index_.Insert(ChunkAt(10 * s + i, 0, {s, i})));
    }
  }
  void Touch(std::initializer_list<uint64_t> chunks) {
    for (const uint64_t i : chunks) index_.Touch(TestKey(i, 1));
  }
  SegmentUse Find(std::vector<uint32_t> segments = {1, 2, 3}) {
    std::vector<uint32_t> scratch;
    return index_.FindLeastUsed(segments, 4, scratch);
  }

  ChunkIndex index_{100};
};

TEST_F(LeastUsedTest, FindsTheSegmentWithTheOldestMedian) {
  EXPECT_EQ(Find().segment, 1u);
  EXPECT_EQ(Find().median, 1u);
  Touch({10, 11});  // half of the records
  EXPECT_EQ(Find().segment, 1u);
  Touch({12});
  EXPECT_EQ(Find().segment, 2u);
  EXPECT_EQ(Find().median, 2u);
  EXPECT_EQ(Find({1, 3}).segment, 1u) << "of equal medians, the oldest segment";
  EXPECT_EQ(Find({1, 3}).median, 3u);
}

TEST_F(LeastUsedTest, UsesSinceTheLastCallCount) {
  EXPECT_EQ(Find().segment, 1u);
  Touch({10, 11, 12, 20, 21, 22});
  BeginSegment(index_, 4);
  EXPECT_EQ(Find().segment, 1u);
  Touch({11, 12, 13, 30, 31, 32});
  EXPECT_EQ(Find().segment, 2u);
  EXPECT_EQ(Find().median, 3u);
}

TEST_F(LeastUsedTest, AMissingRecordCountsAsNeverUsed) {
  Touch({10, 11, 12, 13, 20, 21, 22, 23});
  EXPECT_EQ(Find().segment, 1u);
  ASSERT_TRUE(index_.Erase(TestKey(30, 1), {3, 0}));
  EXPECT_EQ(Find().median, 3u);
  ASSERT_TRUE(index_.Erase(TestKey(31, 1), {3, 1}));
  EXPECT_EQ(Find().segment, 3u);
  EXPECT_EQ(Find().median, 0u);
  // The index has no chunk of segment 7.
  EXPECT_EQ(Find({1, 2, 7}).segment, 7u);
}

TEST_F(LeastUsedTest, ACallComputesAtMostSomeMedians) {
  ChunkIndex index(1000);
  std::vector<uint32_t> segments, scratch;
  constexpr uint32_t kNumUsed = ChunkIndex::kMediansMax;
  for (uint32_t s = 1; s <= kNumUsed + 2; ++s) {
    ASSERT_TRUE(index.Insert(ChunkAt(s, 0, {s, 0})));
    segments.push_back(s);
  }
  for (uint32_t s = 1; s <= kNumUsed; ++s) index.Touch(TestKey(s, 1));
  // The first call does not come to the segments whose chunks were not used.
  EXPECT_EQ(index.FindLeastUsed(segments, 1, scratch).segment, 1u);
  EXPECT_EQ(index.FindLeastUsed(segments, 1, scratch).segment, kNumUsed + 1);
}

TEST_F(LeastUsedTest, AfterComputeMediansTheOldestSegmentsAreFoundInOrder) {
  constexpr uint32_t kNumSegments = 3 * ChunkIndex::kMediansMax;
  ChunkIndex index(1000);
  std::vector<uint32_t> segments, scratch;
  for (uint32_t s = 1; s <= kNumSegments; ++s) {
    ASSERT_TRUE(index.Insert(ChunkAt(s, 0, {s, 0})));
    segments.push_back(s);
  }
  index.ComputeMedians(1);
  for (uint32_t s = 1; s < kNumSegments; ++s) {
    EXPECT_EQ(index.FindLeastUsed(segments, 1, scratch).segment, s);
    index.EraseSegment(s);
    segments.erase(segments.begin());
  }
}

TEST_F(LeastUsedTest, TheOldestOfSegmentsWithEqualMediansIsFound) {
  ChunkIndex index(10);
  std::vector<uint32_t> scratch;
  for (const uint32_t s : {3, 5, 10}) ASSERT_TRUE(index.Insert(ChunkAt(s, 0, {s, 0})));
  index.Touch(TestKey(3, 1));
  EXPECT_EQ(index.FindLeastUsed(std::vector<uint32_t>{3}, 1, scratch).segment, 3u);
  index.Touch(TestKey(5, 1));
  // The bound of segment 3 is known, and that of segment 5 is not.
  EXPECT_EQ(index.FindLeastUsed(std::vector<uint32_t>{3, 5}, 1, scratch).segment, 3u);
}

TEST(ChunkIndexTest, ConvertsExpiriesAndPrioritiesOfFiles) {
  EXPECT_EQ(ClampExpiry(0), 0u);
  EXPECT_EQ(ClampExpiry(-5), 1u);
  EXPECT_EQ(ClampExpiry(int64_t{1} << 40), UINT32_MAX);
  EXPECT_EQ(ClampPriority(-5), 0);
  EXPECT_EQ(ClampPriority(1000), 100);
}

TEST(ChunkIndexTest, ListsAndRestoresUses) {
  ChunkIndex index(20);
  for (uint32_t i = 0; i < 5; ++i) ASSERT_TRUE(index.Insert(ChunkAt(i, 0, {1, i})));
  ASSERT_TRUE(index.Insert(ChunkAt(5, 0, {kNoSegment, 0})));
  index.AddHit(TestKey(3, 1));
  BeginSegment(index, 7);
  for (const uint64_t i : {0, 4, 5}) index.AddHit(TestKey(i, 1));
  BeginSegment(index, 9);
  index.AddHit(TestKey(0, 1));
  ASSERT_TRUE(index.Move(TestKey(2, 1), {1, 2}, {9, 1}));
  const auto uses = [](uint64_t i, uint32_t hits, uint32_t last_use) {
    return ChunkUses{TestKey(i, 1).prefix(), hits, last_use};
  };
  // Chunk 1 was not used. Chunk 2 was not used, but moved.
  const std::vector<ChunkUses> all = index.ListUses(10);
  EXPECT_EQ(all,
            (std::vector<ChunkUses>{uses(3, 1, 1), uses(2, 0, 1), uses(4, 1, 7), uses(0, 2, 9)}));
  EXPECT_EQ(index.ListUses(2), (std::vector<ChunkUses>{uses(4, 1, 7), uses(0, 2, 9)}));
  EXPECT_TRUE(index.ListUses(0).empty());
  // Another index has only some of the chunks.
  ChunkIndex other(10);
  for (const uint32_t i : {0u, 3u, 4u}) ASSERT_TRUE(other.Insert(ChunkAt(i, 0, {1, i})));
  BeginSegment(other, 9);
  other.RestoreUses(all);
  EXPECT_EQ(other.ListUses(10),
            (std::vector<ChunkUses>{uses(3, 1, 1), uses(4, 1, 7), uses(0, 2, 9)}));
  EXPECT_EQ(Kept(other), (std::vector<uint32_t>{0, 4}));
  // A file may have any numbers. No chunk was used in the future.
  other.RestoreUses(std::vector<ChunkUses>{uses(3, 1, UINT32_MAX)});
  EXPECT_EQ(Kept(other), (std::vector<uint32_t>{0, 3, 4}));
}

std::set<uint64_t> RemoveTree(ChunkIndex& index, const BlockHash& key) {
  std::set<uint64_t> removed;
  index.RemoveTree(key, [&](const IndexedChunk& c) { removed.insert(c.key.prefix()); });
  return removed;
}

TEST(ChunkIndexTest, RemovesAllChunksThatFollow) {
  ChunkIndex index(100);
  for (uint32_t i = 0; i < 6; ++i) ASSERT_TRUE(index.Insert(ChunkAt(1, i, {1, i})));
  for (uint32_t i = 0; i < 3; ++i) ASSERT_TRUE(index.Insert(ChunkAt(2, i, {2, i})));
  // A branch: two chunks follow chunk 2 of sequence 1.
  IndexedChunk branch = ChunkAt(3, 0, {3, 0});
  branch.parent = TestKey(1, 3).prefix();
  branch.is_first = false;
  ASSERT_TRUE(index.Insert(branch));

  const std::set<uint64_t> removed = RemoveTree(index, TestKey(1, 2));
  EXPECT_EQ(removed.size(), 6u);
  EXPECT_TRUE(removed.contains(branch.key.prefix()));
  EXPECT_NE(index.Find(TestKey(1, 1)), nullptr);
  for (uint64_t i = 2; i <= 6; ++i) EXPECT_EQ(index.Find(TestKey(1, i)), nullptr);
  for (uint64_t i = 1; i <= 3; ++i) EXPECT_NE(index.Find(TestKey(2, i)), nullptr);
}

TEST(ChunkIndexTest, RemovesChunksAfterAGap) {
  ChunkIndex index(100);
  // Chunk 1 of sequence 1 is missing. So the index does not know that chunk 2 follows chunk 0.
  for (const uint32_t i : {0u, 2u, 3u}) ASSERT_TRUE(index.Insert(ChunkAt(1, i, {1, i})));
  for (uint32_t i = 0; i < 3; ++i) ASSERT_TRUE(index.Insert(ChunkAt(2, i, {2, i})));
  EXPECT_EQ(RemoveTree(index, TestKey(1, 1)).size(), 3u);
  EXPECT_EQ(index.size(), 3u);
  // The removed chunk is missing itself, but the next chunk is there.
  for (const uint32_t i : {1u, 2u}) ASSERT_TRUE(index.Insert(ChunkAt(1, i, {1, i})));
  EXPECT_EQ(RemoveTree(index, TestKey(1, 1)).size(), 2u);
}

TEST(ChunkIndexTest, BehavesLikeAMap) {
  constexpr uint32_t kCapacity = 50;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    ChunkIndex index(kCapacity);
    std::map<uint64_t, ChunkLocation> model;  // by the number of the sequence
    std::map<uint64_t, uint64_t> tenants;     // tenant of the latest Insert, by sequence
    for (int step = 0; step < 5000; ++step) {
      const uint64_t sequence = random() % 80;
      const BlockHash key = TestKey(sequence, 1);
      const ChunkLocation at = {static_cast<uint32_t>(1 + random() % 5),
                                static_cast<uint32_t>(sequence)};
      const auto found = model.find(sequence);
      switch (random() % 5) {
        case 0:
        case 1: {
          const bool fits = found != model.end() || model.size() < kCapacity;
          const uint64_t tenant = random() % 3;
          ASSERT_EQ(index.Insert(ChunkAt(sequence, 0, at), tenant), fits);
          if (!fits) break;
          model[sequence] = at;
          tenants[sequence] = tenant;
          break;
        }
        case 2:
          if (found != model.end()) {
            ASSERT_TRUE(index.Move(key, found->second, at));
            found->second = at;
          }
          break;
        case 3:
          ASSERT_EQ(index.Erase(key, at), found != model.end() && found->second == at);
          if (found != model.end() && found->second == at) model.erase(found);
          break;
        case 4: {
          if (random() % 10 != 0) break;
          const size_t count = std::erase_if(
              model, [&](const auto& item) { return item.second.segment == at.segment; });
          ASSERT_EQ(index.EraseSegment(at.segment), count);
          break;
        }
      }
      ASSERT_EQ(index.size(), model.size());
      for (uint64_t tenant = 0; tenant < 3; ++tenant) {
        const auto is_of_tenant = [&](const auto& item) { return tenants[item.first] == tenant; };
        ASSERT_EQ(index.num_of_tenant(tenant), std::ranges::count_if(model, is_of_tenant));
      }
      const IndexedChunk* const chunk = index.Find(key);
      const auto now = model.find(sequence);
      ASSERT_EQ(chunk != nullptr, now != model.end());
      if (chunk != nullptr) {
        ASSERT_EQ(chunk->at, now->second);
      }
    }
  }
}

TEST(ChunkIndexTest, FindsExpiredChunksOnTheDisk) {
  ChunkIndex index(10);
  for (uint32_t i = 0; i < 4; ++i) {
    IndexedChunk chunk = ChunkAt(i, 0, {i == 3 ? kNoSegment : 1, i});
    chunk.expires_s = i == 0 ? 0 : 100;
    ASSERT_TRUE(index.Insert(chunk));
  }
  EXPECT_EQ(index.NextExpired(99, 10), nullptr);
  for (const uint64_t i : {1, 2}) {
    const IndexedChunk* const chunk = index.NextExpired(100, 10);
    ASSERT_NE(chunk, nullptr);
    EXPECT_EQ(chunk->key, TestKey(i, 1));
    EXPECT_TRUE(index.Erase(BlockHash(chunk->key), chunk->at));
  }
  EXPECT_EQ(index.NextExpired(100, 10), nullptr);
  // Each call examines only some chunks.
  IndexedChunk chunk = ChunkAt(9, 0, {1, 9});
  chunk.expires_s = 100;
  ASSERT_TRUE(index.Insert(chunk));
  int num_calls = 1;
  while (index.NextExpired(100, 1) == nullptr) ASSERT_LT(++num_calls, 10);
  EXPECT_LE(num_calls, 4);
}

// The worst case for the hash tables is a capacity above a power of two.
TEST(ChunkIndexTest, AChunkTakesAtMost128Bytes) {
  for (const uint32_t capacity : {2048u, 65'537u, 100'000u}) {
    ChunkIndex index(capacity);
    for (uint32_t i = 0; i < capacity; ++i) {
      ASSERT_TRUE(index.Insert(ChunkAt(i, 0, {1 + i / 60, i % 60})));
    }
    EXPECT_LE(index.num_bytes(), size_t{128} * capacity);
    EXPECT_GE(index.num_bytes(), (sizeof(IndexedChunk)) * size_t{capacity});
  }
}

}  // namespace
}  // namespace incipit
