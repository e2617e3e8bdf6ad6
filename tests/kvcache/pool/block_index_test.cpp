#include "kvcache/pool/block_index.h"

#include <gtest/gtest.h>

#include <map>

namespace incipit {
namespace {

TEST(BlockIndexTest, EqualsAMapAfterAnySequenceOfCalls) {
  constexpr int32_t kNumBlocks = 64;
  BlockIndex index(kNumBlocks);
  std::map<int32_t, uint64_t> expected;  // prefix of each block in the index
  uint64_t state = 1;
  const auto random = [&state](uint64_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % bound;
  };
  for (int32_t step = 0; step < 200'000; ++step) {
    const auto block = static_cast<int32_t>(random(kNumBlocks));
    const auto it = expected.find(block);
    if (it == expected.end()) {
      // The keys have only three different positions in the hash table. Buckets therefore overflow
      // and become empty again, also across the end of the table. The keys have only three
      // different tags, so that different entries look alike.
      const uint64_t prefix = random(3) << 48 | ((random(3) - 1) & 0xffffffff);
      index.Insert(prefix, BlockId{block});
      expected.emplace(block, prefix);
    } else {
      index.Remove(it->second, BlockId{block});
      expected.erase(it);
    }
    ASSERT_EQ(index.size(), static_cast<int32_t>(expected.size()));
    const auto probe = static_cast<int32_t>(random(kNumBlocks));
    const auto found = expected.find(probe);
    const uint64_t prefix = found == expected.end() ? random(3) << 48 : found->second;
    const BlockId expected_block = found == expected.end() ? kNoBlock : BlockId{probe};
    ASSERT_EQ(index.Find(prefix, [&](BlockId id) { return id == BlockId{probe}; }), expected_block);
  }
}

TEST(BlockIndexTest, FindsWhatIsBehindMoreEntriesThanABucketCounts) {
  constexpr int32_t kNumBlocks = 66'000;
  BlockIndex index(kNumBlocks);
  for (int32_t i = 0; i < kNumBlocks; ++i) index.Insert(7, BlockId{i});
  for (int32_t i = 0; i < 1000; ++i) index.Remove(7, BlockId{i});
  const BlockId last{kNumBlocks - 1};
  EXPECT_EQ(index.Find(7, [&](BlockId id) { return id == last; }), last);
}

TEST(BlockIndexTest, AReplacedEntryLeadsToTheOtherBlock) {
  BlockIndex index(4);
  index.Insert(7, BlockId{1});
  index.Replace(7, BlockId{1}, BlockId{2});
  const auto any = [](BlockId) { return true; };
  EXPECT_EQ(index.Find(7, any), BlockId{2});
  index.Clear();
  EXPECT_EQ(index.Find(7, any), kNoBlock);
}

}  // namespace
}  // namespace incipit
