// Tests how chunks are grouped by prefix.
#include "cli/cache/prefix_forest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace incipit {
namespace {

// Chunk number `index` (from 0) of a sequence. The key of the chunk is `key`.
StoredChunk Chunk(uint64_t key, uint64_t parent, int64_t index, int64_t created_s = 100) {
  return {.key = key, .parent = parent, .first_token = 128 * index, .created_s = created_s};
}

std::vector<StoredPrefix> Sorted(const std::vector<StoredChunk>& chunks) {
  auto prefixes = GroupByPrefix(chunks);
  std::ranges::sort(prefixes, {}, &StoredPrefix::key);
  return prefixes;
}

TEST(PrefixForestTest, CountsTheChunksOfABranchingPrefix) {
  //  1 - 2 - 3 - 4
  //        \ 5
  std::vector<StoredChunk> chunks = {Chunk(3, 2, 2, 300), Chunk(1, 99, 0, 50), Chunk(2, 1, 1),
                                     Chunk(5, 2, 2, 400), Chunk(4, 3, 3)};
  chunks[2].hits = 7;
  chunks[0].hits = 2;
  chunks[3].expires_s = 2000;
  chunks[4].expires_s = 1000;
  const std::vector<StoredPrefix> prefixes = Sorted(chunks);
  ASSERT_EQ(prefixes.size(), 1u);
  EXPECT_EQ(prefixes[0].key, 1u);
  EXPECT_EQ(prefixes[0].first_token, 0);
  EXPECT_EQ(prefixes[0].num_chunks, 5u);
  EXPECT_EQ(prefixes[0].num_shared, 2u);
  EXPECT_EQ(prefixes[0].num_longest, 4u);
  EXPECT_EQ(prefixes[0].hits_max, 7u);
  EXPECT_EQ(prefixes[0].oldest_s, 50);
  EXPECT_EQ(prefixes[0].newest_s, 400);
  EXPECT_EQ(prefixes[0].next_expiry_s, 1000);
  EXPECT_FALSE(prefixes[0].has_several_tenants);
}

TEST(PrefixForestTest, AChunkWithoutItsPreviousChunkIsARoot) {
  const std::vector<StoredPrefix> prefixes =
      Sorted({Chunk(1, 99, 0), Chunk(3, 2, 2), Chunk(4, 3, 3)});
  ASSERT_EQ(prefixes.size(), 2u);
  EXPECT_EQ(prefixes[0].num_chunks, 1u);
  EXPECT_EQ(prefixes[1].key, 3u);
  EXPECT_EQ(prefixes[1].first_token, 256);
  EXPECT_EQ(prefixes[1].num_chunks, 2u);
  EXPECT_EQ(prefixes[1].num_shared, 2u);
  EXPECT_EQ(prefixes[1].next_expiry_s, 0);
}

TEST(PrefixForestTest, TheLastOfSeveralCopiesCounts) {
  std::vector<StoredChunk> chunks = {Chunk(1, 99, 0, 50), Chunk(1, 99, 0, 60)};
  chunks[0].tenant = 5;
  const std::vector<StoredPrefix> prefixes = Sorted(chunks);
  ASSERT_EQ(prefixes.size(), 1u);
  EXPECT_EQ(prefixes[0].num_chunks, 1u);
  EXPECT_EQ(prefixes[0].oldest_s, 60);
  EXPECT_EQ(prefixes[0].tenant, 0u);
}

TEST(PrefixForestTest, ReportsSeveralTenants) {
  std::vector<StoredChunk> chunks = {Chunk(1, 99, 0), Chunk(2, 1, 1)};
  chunks[0].tenant = 5;
  chunks[1].tenant = 6;
  EXPECT_TRUE(Sorted(chunks)[0].has_several_tenants);
  EXPECT_EQ(Sorted(chunks)[0].tenant, 5u);
}

// In a damaged file, a chunk may be its own parent, or several chunks may form a cycle.
TEST(PrefixForestTest, SurvivesImpossibleChunks) {
  EXPECT_TRUE(GroupByPrefix({}).empty());
  EXPECT_EQ(GroupByPrefix({Chunk(1, 1, 0)}).size(), 1u);
  EXPECT_EQ(GroupByPrefix({Chunk(1, 2, 0), Chunk(2, 1, 0)}).size(), 2u);
  EXPECT_EQ(GroupByPrefix({Chunk(1, 2, 0), Chunk(2, 1, 1)}).size(), 1u);
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<StoredChunk> chunks(random() % 60);
    for (StoredChunk& chunk : chunks) {
      chunk = {.key = random() % 20,
               .parent = random() % 20,
               .first_token = static_cast<int64_t>(random()) >> (random() % 64)};
    }
    std::vector<uint64_t> keys;
    for (const StoredChunk& chunk : chunks) keys.push_back(chunk.key);
    std::ranges::sort(keys);
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    uint64_t num_chunks = 0;
    for (const StoredPrefix& prefix : GroupByPrefix(chunks)) {
      num_chunks += prefix.num_chunks;
      EXPECT_LE(prefix.num_shared, prefix.num_longest);
      EXPECT_LE(prefix.num_longest, prefix.num_chunks);
    }
    EXPECT_EQ(num_chunks, keys.size());
  }
}

}  // namespace
}  // namespace incipit
