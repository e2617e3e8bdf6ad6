// Tests an example with exact block ids and queue order: 10 blocks of 4 tokens, policy `lru`. Every
// change of the cache must keep the results of this example.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kvcache/cached_sequence.h"
#include "tests/kvcache/policies/policy_kinds.h"

namespace incipit {
namespace {

using testing::ElementsAre;

class WorkedExampleTest : public testing::TestWithParam<bool> {};

// The test runs with and without copy-on-write. The block ids are the same, but with copy-on-write,
// request 1 finds two more tokens.
TEST_P(WorkedExampleTest, BlockIdsAndQueueOrderAreExact) {
  const bool copies = GetParam();
  KvCacheManager cache({.num_blocks = 10,
                        .block_size = 4,
                        .copy_on_write = copies,
                        .policy = EvictionPolicyKind::kLru});
  const std::vector<TokenId> first_tokens = TokenRange(100, 17);

  // Request 0 has 15 prompt tokens in four blocks, three of which are full.
  CachedSequence request0(cache, {first_tokens.begin(), first_tokens.begin() + 15});
  EXPECT_EQ(request0.AdmitAndCommit(), 0);
  EXPECT_THAT(request0.blocks(), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(request0.table.num_published, 3);

  // Request 0 decodes two tokens. The first token fills block 3. The second token goes to block 4,
  // which never becomes full.
  request0.Decode(first_tokens[15]);
  EXPECT_EQ(request0.table.num_published, 4);
  request0.Decode(first_tokens[16]);
  EXPECT_THAT(request0.blocks(), ElementsAre(0, 1, 2, 3, 4));

  // Request 1 has 14 tokens, and its first 10 tokens equal those of request 0. Two of its blocks
  // are hits, and two are new.
  CachedSequence request1(
      cache, Concat({first_tokens.begin(), first_tokens.begin() + 10}, TokenRange(200, 4)));
  EXPECT_EQ(request1.Admit(), copies ? 10 : 8);
  EXPECT_EQ(request1.table.copy.from, copies ? BlockId{2} : kNoBlock);
  EXPECT_EQ(request1.table.copy.to, copies ? BlockId{5} : kNoBlock);
  EXPECT_EQ(request1.table.copy.num_tokens, copies ? 2 : 0);
  request1.Commit();
  EXPECT_THAT(request1.blocks(), ElementsAre(0, 1, 5, 6));

  // Request 0 ends. Its own blocks are freed from the last to the first. Request 1 still uses the
  // two shared blocks.
  request0.Free();
  EXPECT_THAT(FreeOrder(cache), ElementsAre(7, 8, 9, 4, 3, 2));
  request1.Free();
  EXPECT_THAT(FreeOrder(cache), ElementsAre(7, 8, 9, 4, 3, 2, 6, 5, 1, 0));

  // Request 2 has 29 tokens, and its first 12 tokens equal those of request 0.
  CachedSequence request2(
      cache, Concat({first_tokens.begin(), first_tokens.begin() + 12}, TokenRange(300, 17)));
  const ComputedBlocks computed = cache.GetComputedBlocks(request2.tokens, request2.table);
  EXPECT_EQ(computed.num_tokens, 12);
  ASSERT_TRUE(cache.AllocateSlots(request2.table, computed, 12));
  EXPECT_THAT(request2.blocks(), ElementsAre(0, 1, 2));
  EXPECT_THAT(FreeOrder(cache), ElementsAre(7, 8, 9, 4, 3, 6, 5));
  EXPECT_EQ(cache.TakeStats().evictions.total(), 0);
  ASSERT_TRUE(cache.AllocateSlots(request2.table, {}, 29));
  EXPECT_THAT(request2.blocks(), ElementsAre(0, 1, 2, 7, 8, 9, 4, 3));
  EXPECT_EQ(cache.TakeStats().evictions.total(), 1);
  EXPECT_THAT(FreeOrder(cache), ElementsAre(6, 5));

  const std::vector<const BlockTable*> tables = {&request2.table};
  cache.CheckInvariants(tables);
}

INSTANTIATE_TEST_SUITE_P(CopyOnWrite, WorkedExampleTest, testing::Bool());

// All policies except `lru` allocate blocks that no lookup can find before they evict a cached
// block. Request 2 therefore gets the blocks 7, 8, 9, 4 and 6, in the order of their release.
// Blocks 3 and 5 stay cached.
TEST(WorkedExampleOfOtherPoliciesTest, WithBlocksWithoutAHashReclaimedFirstNothingIsEvicted) {
  for (const EvictionPolicyKind policy : kPolicyKinds) {
    if (policy == EvictionPolicyKind::kLru) continue;
    for (const bool copies : {false, true}) {
      KvCacheManager cache(
          {.num_blocks = 10, .block_size = 4, .copy_on_write = copies, .policy = policy});
      const std::vector<TokenId> first_tokens = TokenRange(100, 17);
      CachedSequence request0(cache, {first_tokens.begin(), first_tokens.begin() + 15});
      request0.AdmitAndCommit();
      request0.Decode(first_tokens[15]);
      request0.Decode(first_tokens[16]);
      CachedSequence request1(
          cache, Concat({first_tokens.begin(), first_tokens.begin() + 10}, TokenRange(200, 4)));
      EXPECT_EQ(request1.AdmitAndCommit(), copies ? 10 : 8);
      request0.Free();
      request1.Free();
      CachedSequence request2(
          cache, Concat({first_tokens.begin(), first_tokens.begin() + 12}, TokenRange(300, 17)));
      EXPECT_EQ(request2.Admit(), 12);
      EXPECT_THAT(request2.blocks(), ElementsAre(0, 1, 2, 7, 8, 9, 4, 6));
      EXPECT_EQ(cache.TakeStats().evictions.total(), 0);
      EXPECT_EQ(cache.num_cached(), 2);
      EXPECT_TRUE(cache.pool().is_published(BlockId{3}) && cache.pool().is_published(BlockId{5}));
      cache.CheckInvariants(std::vector<const BlockTable*>{&request2.table});
    }
  }
}

TEST(WorkedExampleOfOneAllocationTest, OneAllocationOrTwoMakeNoDifference) {
  KvCacheManager cache({.num_blocks = 10, .block_size = 4, .policy = EvictionPolicyKind::kLru});
  CachedSequence request0(cache, TokenRange(100, 17));
  request0.AdmitAndCommit();
  request0.Free();
  EXPECT_THAT(FreeOrder(cache), ElementsAre(5, 6, 7, 8, 9, 4, 3, 2, 1, 0));
  CachedSequence request2(cache, Concat(TokenRange(100, 12), TokenRange(300, 17)));
  EXPECT_EQ(request2.Admit(), 12);
  EXPECT_THAT(request2.blocks(), ElementsAre(0, 1, 2, 5, 6, 7, 8, 9));
}

}  // namespace
}  // namespace incipit
