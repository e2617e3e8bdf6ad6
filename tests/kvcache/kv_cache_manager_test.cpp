#include "kvcache/kv_cache_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "tests/kvcache/cached_sequence.h"

namespace incipit {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

void CheckWith(const KvCacheManager& cache, std::vector<const BlockTable*> tables) {
  cache.CheckInvariants(tables);
}

int32_t NumFound(KvCacheManager& cache, std::vector<TokenId> tokens,
                 const CacheNamespace& cache_namespace = {}) {
  const CachedSequence probe(cache, std::move(tokens), cache_namespace);
  return cache.GetComputedBlocks(probe.tokens, probe.table).num_tokens;
}

TEST(KvCacheManagerTest, RefusesImpossibleOptionsByName) {
  EXPECT_TRUE(ValidateKvCacheOptions({.num_blocks = 1, .block_size = 256}).ok());
  EXPECT_THAT(MessageOf(ValidateKvCacheOptions({.num_blocks = 0})), HasSubstr("num_blocks is 0"));
  EXPECT_THAT(MessageOf(ValidateKvCacheOptions({.num_blocks = 4, .block_size = 24})),
              HasSubstr("block_size is 24"));
  EXPECT_THAT(MessageOf(ValidateKvCacheOptions({.num_blocks = 4, .block_size = 512})),
              HasSubstr("256"));
}

TEST(KvCacheManagerTest, NothingIsFoundBeforeItsStepIsCommitted) {
  KvCacheManager cache({.num_blocks = 8, .block_size = 4});
  CachedSequence writer(cache, TokenRange(0, 9));
  writer.Admit();
  EXPECT_EQ(NumFound(cache, TokenRange(0, 9)), 0);
  cache.CacheBlocks(writer.table, writer.tokens, 4);
  EXPECT_EQ(NumFound(cache, TokenRange(0, 9)), 4);
  cache.CacheBlocks(writer.table, writer.tokens, 7);
  EXPECT_EQ(NumFound(cache, TokenRange(0, 9)), 4);
  cache.CacheBlocks(writer.table, writer.tokens, 9);
  EXPECT_EQ(NumFound(cache, TokenRange(0, 9)), 8);
}

TEST(KvCacheManagerTest, AFullHitLeavesTheLastTokenToCompute) {
  KvCacheManager cache({.num_blocks = 8, .block_size = 4, .copy_on_write = false});
  CachedSequence writer(cache, TokenRange(0, 8));
  writer.AdmitAndCommit();
  EXPECT_EQ(NumFound(cache, TokenRange(0, 8)), 4);
  EXPECT_EQ(NumFound(cache, TokenRange(0, 9)), 8);
  EXPECT_EQ(NumFound(cache, TokenRange(0, 4)), 0);
}

TEST(KvCacheManagerTest, AnEvictedPrefixIsNoLongerFound) {
  KvCacheManager cache({.num_blocks = 2, .block_size = 4});
  CachedSequence first(cache, TokenRange(0, 5));
  first.AdmitAndCommit();
  first.Free();
  EXPECT_EQ(NumFound(cache, TokenRange(0, 5)), 4);
  CachedSequence second(cache, TokenRange(50, 8));
  EXPECT_EQ(second.Admit(), 0);
  EXPECT_EQ(NumFound(cache, TokenRange(0, 5)), 0);
  EXPECT_EQ(cache.TakeStats().evictions.total(), 1);
  CheckWith(cache, {&second.table});
}

TEST(KvCacheManagerTest, NamespacesShareNothing) {
  KvCacheManager cache({.num_blocks = 8, .block_size = 4});
  const CacheNamespace alice = MakeCacheNamespace("alice", "");
  CachedSequence writer(cache, TokenRange(0, 9), alice);
  writer.AdmitAndCommit();
  EXPECT_EQ(NumFound(cache, TokenRange(0, 9), alice), 8);
  EXPECT_EQ(NumFound(cache, TokenRange(0, 9), MakeCacheNamespace("bob", "")), 0);
  EXPECT_EQ(NumFound(cache, TokenRange(0, 9), MakeCacheNamespace("alice", "salt")), 0);
}

TEST(KvCacheManagerTest, AllocationIsAllOrNothing) {
  KvCacheManager cache({.num_blocks = 4, .block_size = 4, .policy = EvictionPolicyKind::kLru});
  CachedSequence first(cache, TokenRange(0, 9));
  first.AdmitAndCommit();
  first.Free();
  CachedSequence holder(cache, TokenRange(50, 4));
  holder.AdmitAndCommit();
  const std::vector<int> queue = FreeOrder(cache);

  // `large` needs five free blocks: two cached blocks that no sequence uses, and three new blocks.
  // Only three blocks are free.
  CachedSequence large(cache, Concat(TokenRange(0, 8), TokenRange(70, 9)));
  const ComputedBlocks computed = cache.GetComputedBlocks(large.tokens, large.table);
  EXPECT_EQ(computed.num_tokens, 8);
  EXPECT_EQ(cache.BlocksNeeded(large.table, computed, 17), 5);
  EXPECT_FALSE(cache.AllocateSlots(large.table, computed, 17));
  EXPECT_TRUE(large.table.blocks.empty());
  EXPECT_EQ(FreeOrder(cache), queue);
  EXPECT_EQ(NumFound(cache, TokenRange(0, 9)), 8);

  // For 12 tokens, `large` needs two cached blocks and one new block. Three blocks are free.
  ASSERT_TRUE(
      cache.AllocateSlots(large.table, cache.GetComputedBlocks(large.tokens, large.table), 12));
  CheckWith(cache, {&large.table, &holder.table});
}

TEST(KvCacheManagerTest, AStepThatDidNothingGivesBackWhatItTook) {
  KvCacheManager cache({.num_blocks = 8, .block_size = 4});
  CachedSequence first(cache, TokenRange(0, 9));
  first.AdmitAndCommit();
  first.Free();

  CachedSequence second(cache, TokenRange(0, 13));
  EXPECT_EQ(second.Admit(), 8);
  cache.Rollback(second.table);  // rolls back the first step, which also releases the hits
  EXPECT_TRUE(second.table.blocks.empty());
  EXPECT_EQ(cache.num_used(), 0);
  EXPECT_EQ(second.AdmitAndCommit(), 8);

  second.tokens = TokenRange(0, 20);
  ASSERT_TRUE(cache.AllocateSlots(second.table, {}, 20));
  EXPECT_EQ(second.table.blocks.size(), 5u);
  cache.Rollback(second.table);
  EXPECT_EQ(second.table.blocks.size(), 4u);
  EXPECT_EQ(NumFound(cache, TokenRange(0, 20)), 12);
  CheckWith(cache, {&second.table});
}

TEST(KvCacheManagerTest, ADuplicateIsKeptAndReplacesTheFirstOne) {
  KvCacheManager cache({.num_blocks = 6, .block_size = 4, .policy = EvictionPolicyKind::kLru});
  CachedSequence first(cache, TokenRange(0, 5)), second(cache, TokenRange(0, 5));
  first.Admit();
  // `first` has not published its blocks yet, so `second` computes the same tokens again.
  second.Admit();
  first.Commit();
  second.Commit();
  EXPECT_THAT(first.blocks(), ElementsAre(0, 1));
  EXPECT_THAT(second.blocks(), ElementsAre(2, 3));
  first.Free();

  CachedSequence hit(cache, TokenRange(0, 5));
  EXPECT_EQ(hit.Admit(), 4);
  EXPECT_EQ(hit.blocks()[0], 0);  // block 0 was published first, so lookups return it
  hit.Free();
  CachedSequence large(cache, TokenRange(50, 16));
  large.AdmitAndCommit();  // takes all four free blocks, among them block 0
  CachedSequence again(cache, TokenRange(0, 5));
  EXPECT_EQ(NumFound(cache, TokenRange(0, 5)), 4);
  large.Free();
  EXPECT_EQ(again.Admit(), 4);
  EXPECT_EQ(again.blocks()[0], 2);
  CheckWith(cache, {&second.table, &again.table});
}

TEST(KvCacheManagerTest, APreemptedSequenceFindsItsOwnOutput) {
  KvCacheManager cache({.num_blocks = 8, .block_size = 4});
  CachedSequence sequence(cache, TokenRange(0, 6));
  sequence.AdmitAndCommit();
  for (TokenId token = 90; token < 97; ++token) sequence.Decode(token);
  sequence.Free();
  EXPECT_EQ(sequence.num_tokens(), 13);
  EXPECT_EQ(sequence.Admit(), 12);
  CheckWith(cache, {&sequence.table});
}

TEST(KvCacheManagerTest, AForkSharesFullBlocksAndCopiesTheRest) {
  KvCacheManager cache({.num_blocks = 8, .block_size = 4});
  CachedSequence parent(cache, TokenRange(0, 10)), child(cache, TokenRange(0, 10));
  parent.AdmitAndCommit();
  ASSERT_TRUE(cache.Fork(parent.table, child.table, 10));
  EXPECT_THAT(child.blocks(), ElementsAre(0, 1, 3));
  EXPECT_EQ(child.table.copy.from, BlockId{2});
  EXPECT_EQ(child.table.copy.to, BlockId{3});
  EXPECT_EQ(child.table.copy.num_tokens, 2);
  CheckWith(cache, {&parent.table, &child.table});

  // The source block of the copy stays in use after the parent has ended, until ReleaseCopySource.
  parent.Free();
  EXPECT_EQ(cache.num_used(), 4);
  CheckWith(cache, {&child.table});
  cache.ReleaseCopySource(child.table);
  EXPECT_EQ(cache.num_used(), 3);
  child.Decode(77);
  child.Decode(78);
  EXPECT_EQ(child.table.num_published, 3);
  EXPECT_EQ(NumFound(cache, Concat(TokenRange(0, 10), {77, 78, 79})), 12);
  CheckWith(cache, {&child.table});
}

TEST(KvCacheManagerTest, AForkOfFullBlocksCopiesNothing) {
  KvCacheManager cache({.num_blocks = 2, .block_size = 4});
  CachedSequence parent(cache, TokenRange(0, 8)), child(cache, TokenRange(0, 8));
  parent.AdmitAndCommit();
  ASSERT_TRUE(cache.Fork(parent.table, child.table, 8));
  EXPECT_EQ(child.table.copy.from, kNoBlock);
  EXPECT_THAT(child.blocks(), ElementsAre(0, 1));
  CheckWith(cache, {&parent.table, &child.table});
}

TEST(KvCacheManagerTest, AForkWithoutRoomChangesNothing) {
  KvCacheManager cache({.num_blocks = 2, .block_size = 4});
  CachedSequence parent(cache, TokenRange(0, 6)), child(cache, TokenRange(0, 6));
  parent.AdmitAndCommit();
  EXPECT_FALSE(cache.Fork(parent.table, child.table, 6));
  EXPECT_TRUE(child.table.blocks.empty());
  CheckWith(cache, {&parent.table, &child.table});
}

TEST(KvCacheManagerTest, WhatIsUnpublishedIsGoneWithAllThatBuildsOnIt) {
  KvCacheManager cache({.num_blocks = 12, .block_size = 4});
  CachedSequence bad(cache, TokenRange(0, 8));
  CachedSequence other(cache, TokenRange(500, 9));
  bad.AdmitAndCommit();
  other.AdmitAndCommit();
  CachedSequence descendant(cache, Concat(TokenRange(0, 8), TokenRange(90, 8)));
  EXPECT_EQ(descendant.AdmitAndCommit(), 8);
  EXPECT_EQ(NumFound(cache, Concat(TokenRange(0, 8), TokenRange(90, 9))), 16);

  cache.Unpublish(bad.table, 8);
  bad.Free();
  EXPECT_EQ(NumFound(cache, Concat(TokenRange(0, 8), TokenRange(90, 9))), 0);
  EXPECT_EQ(NumFound(cache, TokenRange(500, 9)), 8);
  CheckWith(cache, {&other.table, &descendant.table});

  // `descendant` still holds blocks that were unpublished. The sequence must not publish any later
  // block, even after another sequence has computed the same prefix again.
  CachedSequence fresh(cache, TokenRange(0, 9));
  EXPECT_EQ(fresh.AdmitAndCommit(), 0);
  for (TokenId token = 98; token < 102; ++token) descendant.Decode(token);
  EXPECT_EQ(NumFound(cache, descendant.tokens), 8);
  CheckWith(cache, {&other.table, &descendant.table, &fresh.table});
}

TEST(KvCacheManagerTest, AResetForgetsEverythingUnlessSomethingIsInUse) {
  KvCacheManager cache({.num_blocks = 8, .block_size = 4});
  CachedSequence sequence(cache, TokenRange(0, 9));
  sequence.AdmitAndCommit();
  EXPECT_FALSE(cache.ResetPrefixCache());
  sequence.Free();
  EXPECT_EQ(NumFound(cache, TokenRange(0, 9)), 8);
  EXPECT_EQ(cache.num_cached(), 2);
  EXPECT_TRUE(cache.ResetPrefixCache());
  EXPECT_EQ(NumFound(cache, TokenRange(0, 9)), 0);
  EXPECT_EQ(cache.num_cached(), 0);
  CheckWith(cache, {});
}

TEST(KvCacheManagerTest, SwitchedOffItNeitherFindsNorPublishes) {
  KvCacheManager cache({.num_blocks = 8, .block_size = 4, .prefix_cache = false});
  CachedSequence first(cache, TokenRange(0, 9)), second(cache, TokenRange(0, 9));
  first.AdmitAndCommit();
  EXPECT_EQ(second.AdmitAndCommit(), 0);
  first.Free();
  EXPECT_EQ(cache.num_cached(), 0);
  EXPECT_EQ(cache.TakeStats().stored_blocks, 0);
  CheckWith(cache, {&second.table});
}

TEST(KvCacheManagerTest, CountsTokensSinceTheLastTake) {
  KvCacheManager cache({.num_blocks = 8, .block_size = 4});
  CachedSequence sequence(cache, TokenRange(0, 9));
  sequence.AdmitAndCommit();
  cache.CountQuery(9, 0);
  cache.CountQuery(10, 8);
  cache.CountSelfQuery(20, 16);
  const KvCacheStats stats = cache.TakeStats();
  EXPECT_EQ(stats.queries, 2);
  EXPECT_EQ(stats.query_tokens, 19);
  EXPECT_EQ(stats.hit_tokens, 8);
  EXPECT_EQ(stats.self_query_tokens, 20);
  EXPECT_EQ(stats.self_hit_tokens, 16);
  EXPECT_EQ(stats.stored_blocks, 2);
  EXPECT_EQ(cache.TakeStats().query_tokens, 0);
}

TEST(KvCacheManagerTest, FitsWhatTheBlocksHold) {
  const KvCacheManager cache({.num_blocks = 3, .block_size = 4});
  EXPECT_EQ(cache.capacity_tokens(), 12);
  EXPECT_TRUE(cache.Fits(12));
  EXPECT_FALSE(cache.Fits(13));
}

}  // namespace
}  // namespace incipit
