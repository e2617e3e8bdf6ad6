#include "kvcache/pool/block_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace incipit {
namespace {

using testing::ElementsAre;

BlockHash HashOf(uint8_t value) {
  BlockHash hash;
  hash.bytes.fill(value);
  return hash;
}

void Publish(BlockPool& pool, BlockId id, const BlockHash& hash, BlockId before = kNoBlock) {
  SequenceUse use;
  pool.PublishPending({&id, 1}, {&hash, 1}, {.before = before});
  pool.Confirm({&id, 1}, {}, 0, use);
}

void Use(BlockPool& pool, BlockId id) {
  SequenceUse use;
  pool.Use({&id, 1}, use);
}

void Leave(BlockPool& pool, BlockId id) { pool.Release({&id, 1}, {}); }

TEST(BlockPoolTest, GivesWhatWasFreedLongestAgo) {
  BlockPool pool({.num_blocks = 3});
  const BlockId first = pool.Take();
  const BlockId second = pool.Take();
  EXPECT_EQ(first, BlockId{0});
  EXPECT_EQ(second, BlockId{1});
  Leave(pool, second);
  Leave(pool, first);
  EXPECT_THAT(pool.FreeOrder(), ElementsAre(BlockId{2}, BlockId{1}, BlockId{0}));
  pool.CheckInvariants();
}

TEST(BlockPoolTest, ABlockLeavesTheQueueWithItsFirstUserAndReturnsWithItsLast) {
  BlockPool pool({.num_blocks = 2});
  const BlockId block = pool.Take();
  pool.AddUser(block);
  Leave(pool, block);
  EXPECT_EQ(pool.num_free(), 1);
  Leave(pool, block);
  EXPECT_EQ(pool.num_free(), 2);
  pool.CheckInvariants();
}

TEST(BlockPoolTest, OfEqualBlocksTheFirstPublishedIsCanonicalThenTheNext) {
  BlockPool pool({.num_blocks = 4});
  const BlockId a = pool.Take(), b = pool.Take(), c = pool.Take();
  Publish(pool, b, HashOf(1));
  Publish(pool, a, HashOf(1));
  Publish(pool, c, HashOf(1));
  EXPECT_EQ(pool.Find(HashOf(1)), b);
  Leave(pool, b);
  while (pool.Take() != b) {
  }
  EXPECT_EQ(pool.TakeEvictionStats().total(), 1);
  EXPECT_EQ(pool.Find(HashOf(1)), a);
  pool.CheckInvariants();
  Leave(pool, a);
  EXPECT_EQ(pool.Take(), a);
  EXPECT_EQ(pool.Find(HashOf(1)), c);
  pool.UnpublishTree(HashOf(1));
  EXPECT_EQ(pool.Find(HashOf(1)), kNoBlock);
  pool.CheckInvariants();
}

TEST(BlockPoolTest, ADuplicateThatIsTakenBackLeavesTheFirstInPlace) {
  BlockPool pool({.num_blocks = 3});
  const BlockId a = pool.Take(), b = pool.Take(), c = pool.Take();
  const BlockHash same = HashOf(1);
  Publish(pool, a, same);
  pool.PublishPending({&b, 1}, {&same, 1}, {});
  Publish(pool, c, HashOf(1));
  pool.Withdraw(b);
  EXPECT_EQ(pool.Find(HashOf(1)), a);
  EXPECT_FALSE(pool.is_published(b));
  pool.CheckInvariants();
}

TEST(BlockPoolTest, WhatDescendsFromAnUnpublishedBlockIsNotFoundEither) {
  BlockPool pool({.num_blocks = 6});
  std::vector<BlockId> ids;
  for (int i = 0; i < 6; ++i) ids.push_back(pool.Take());
  Publish(pool, ids[0], HashOf(1));
  Publish(pool, ids[1], HashOf(2), ids[0]);
  Publish(pool, ids[2], HashOf(3), ids[1]);
  Publish(pool, ids[3], HashOf(4), ids[1]);
  Publish(pool, ids[4], HashOf(2), ids[0]);  // a duplicate
  Publish(pool, ids[5], HashOf(5), ids[0]);
  pool.CheckInvariants();
  pool.UnpublishTree(HashOf(2));
  pool.CheckInvariants();
  for (const uint8_t gone : {2, 3, 4}) EXPECT_EQ(pool.Find(HashOf(gone)), kNoBlock);
  EXPECT_EQ(pool.Find(HashOf(1)), ids[0]);
  EXPECT_EQ(pool.Find(HashOf(5)), ids[5]);
}

TEST(BlockPoolTest, TheNextCanonicalBlockKeepsWhatDescends) {
  BlockPool pool({.num_blocks = 4});
  const BlockId a = pool.Take(), b = pool.Take(), child = pool.Take();
  Publish(pool, a, HashOf(1));
  Publish(pool, b, HashOf(1));
  Publish(pool, child, HashOf(2), b);
  EXPECT_EQ(pool.first_child(a), child);
  Leave(pool, a);
  pool.Take();
  EXPECT_EQ(pool.Take(), a);
  EXPECT_EQ(pool.Find(HashOf(1)), b);
  EXPECT_EQ(pool.first_child(b), child);
  pool.CheckInvariants();
}

TEST(BlockPoolTest, CountsWhatIsFreeAndFindable) {
  BlockPool pool({.num_blocks = 3});
  const BlockId a = pool.Take(), b = pool.Take();
  Publish(pool, a, HashOf(1));
  EXPECT_EQ(pool.num_cached_free(), 0);
  Leave(pool, a);
  Leave(pool, b);
  EXPECT_EQ(pool.num_cached_free(), 1);
  Use(pool, a);
  EXPECT_EQ(pool.num_cached_free(), 0);
  Leave(pool, a);
  pool.UnpublishTree(HashOf(1));
  EXPECT_EQ(pool.num_cached_free(), 0);
}

TEST(BlockPoolTest, NothingIsFoundAfterAllIsUnpublished) {
  BlockPool pool({.num_blocks = 3});
  for (uint8_t i = 1; i <= 3; ++i) Publish(pool, pool.Take(), HashOf(i));
  for (const BlockId block : {BlockId{2}, BlockId{0}, BlockId{1}}) Leave(pool, block);
  pool.UnpublishAll();
  for (uint8_t i = 1; i <= 3; ++i) EXPECT_EQ(pool.Find(HashOf(i)), kNoBlock);
  EXPECT_EQ(pool.num_cached_free(), 0);
  EXPECT_THAT(pool.FreeOrder(), ElementsAre(BlockId{2}, BlockId{0}, BlockId{1}));
  pool.CheckInvariants();
}

TEST(BlockPoolTest, WhatIsGivenUpBeforehandIsTakenFirst) {
  BlockPool pool({.num_blocks = 3});
  const BlockId first = pool.Take(), second = pool.Take();
  Publish(pool, first, HashOf(1));
  Publish(pool, second, HashOf(2));
  Leave(pool, second);
  Leave(pool, first);
  pool.EvictTo(1);  // evicts `second`, which was freed before `first`
  EXPECT_EQ(pool.num_cached_free(), 1);
  EXPECT_THAT(pool.FreeOrder(), ElementsAre(BlockId{2}, BlockId{1}, BlockId{0}));
  pool.CheckInvariants();
  EXPECT_EQ(pool.Take(), BlockId{2});
  EXPECT_EQ(pool.Take(), BlockId{1});
}

}  // namespace
}  // namespace incipit
