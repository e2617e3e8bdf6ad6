#include "kvcache/block_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace incipit {
namespace {

using testing::ElementsAre;

BlockHash HashOf(uint8_t value) {
  BlockHash hash;
  hash.bytes.fill(value);
  return hash;
}

BlockPool::Key ChainStart(uint8_t value) {
  return {.hash = HashOf(value), .parent = HashOf(0), .starts_chain = true};
}

TEST(BlockPoolTest, GivesWhatWasFreedLongestAgo) {
  BlockPool pool(3);
  const BlockId first = pool.Take();
  const BlockId second = pool.Take();
  EXPECT_EQ(first, BlockId{0});
  EXPECT_EQ(second, BlockId{1});
  pool.RemoveUser(second);
  pool.RemoveUser(first);
  EXPECT_THAT(pool.FreeOrder(), ElementsAre(BlockId{2}, BlockId{1}, BlockId{0}));
  pool.CheckInvariants();
}

TEST(BlockPoolTest, ABlockLeavesTheQueueWithItsFirstUserAndReturnsWithItsLast) {
  BlockPool pool(2);
  const BlockId block = pool.Take();
  pool.AddUser(block);
  pool.RemoveUser(block);
  EXPECT_EQ(pool.num_free(), 1);
  pool.RemoveUser(block);
  EXPECT_EQ(pool.num_free(), 2);
  pool.AddUser(BlockId{1});
  EXPECT_THAT(pool.FreeOrder(), ElementsAre(block));
  pool.CheckInvariants();
}

TEST(BlockPoolTest, OfEqualBlocksTheFirstPublishedAnswersThenTheNext) {
  BlockPool pool(4);
  const BlockId a = pool.Take(), b = pool.Take(), c = pool.Take();
  pool.Publish(b, ChainStart(1));
  pool.Publish(a, ChainStart(1));
  pool.Publish(c, ChainStart(1));
  EXPECT_EQ(pool.Find(HashOf(1)), b);
  pool.RemoveUser(b);
  while (pool.Take() != b) {
  }
  EXPECT_EQ(pool.num_evictions(), 1);
  EXPECT_EQ(pool.Find(HashOf(1)), a);
  pool.CheckInvariants();
  pool.Unpublish(c);
  pool.Unpublish(a);
  EXPECT_EQ(pool.Find(HashOf(1)), kNoBlock);
  pool.CheckInvariants();
}

TEST(BlockPoolTest, ADuplicateThatGoesLeavesTheFirstInPlace) {
  BlockPool pool(3);
  const BlockId a = pool.Take(), b = pool.Take(), c = pool.Take();
  for (const BlockId block : {a, b, c}) pool.Publish(block, ChainStart(1));
  pool.Unpublish(b);
  EXPECT_EQ(pool.Find(HashOf(1)), a);
  pool.CheckInvariants();
  pool.Unpublish(a);
  EXPECT_EQ(pool.Find(HashOf(1)), c);
  pool.CheckInvariants();
}

TEST(BlockPoolTest, CountsWhatIsFreeAndFindable) {
  BlockPool pool(3);
  const BlockId a = pool.Take(), b = pool.Take();
  pool.Publish(a, ChainStart(1));
  EXPECT_EQ(pool.num_cached_free(), 0);
  pool.RemoveUser(a);
  pool.RemoveUser(b);
  EXPECT_EQ(pool.num_cached_free(), 1);
  pool.AddUser(a);
  EXPECT_EQ(pool.num_cached_free(), 0);
  pool.RemoveUser(a);
  pool.Unpublish(a);
  EXPECT_EQ(pool.num_cached_free(), 0);
}

TEST(BlockPoolTest, NothingIsFoundAfterAllIsUnpublished) {
  BlockPool pool(3);
  for (uint8_t i = 1; i <= 3; ++i) pool.Publish(pool.Take(), ChainStart(i));
  for (const BlockId block : {BlockId{2}, BlockId{0}, BlockId{1}}) pool.RemoveUser(block);
  pool.UnpublishAll();
  for (uint8_t i = 1; i <= 3; ++i) EXPECT_EQ(pool.Find(HashOf(i)), kNoBlock);
  EXPECT_EQ(pool.num_cached_free(), 0);
  EXPECT_THAT(pool.FreeOrder(), ElementsAre(BlockId{2}, BlockId{0}, BlockId{1}));
  pool.CheckInvariants();
}

}  // namespace
}  // namespace incipit
