// Tests retention hints and the shares of tenants in the disk tier.
#include <gtest/gtest.h>

#include "tests/tier/tier_harness.h"
#include "tier/disk_tier.h"

namespace incipit {
namespace {

using std::chrono::seconds;

class DiskTierRetentionTest : public testing::Test {
 protected:
  TierHarness h_;
};

TEST_F(DiskTierRetentionTest, ExpiredChunksAreMissesAndMayBeStoredAgain) {
  h_.Start();
  const TestChunk chunk(1, 0);
  ASSERT_TRUE(h_.Store(chunk, 0, {.priority = 80, .time_to_live = seconds(100)}));
  EXPECT_TRUE(h_.Load(chunk));
  h_.unix_seconds += 100;
  EXPECT_FALSE(h_.tier->Has(chunk.identity.key));
  EXPECT_FALSE(h_.Load(chunk));
  h_.unix_seconds -= 100;
  h_.Start();
  EXPECT_TRUE(h_.Load(chunk));
  h_.unix_seconds += 100;
  EXPECT_TRUE(h_.Store(chunk, 1));
  EXPECT_TRUE(h_.Load(chunk, 1));
  h_.Start();
  EXPECT_TRUE(h_.Load(chunk, 1));
}

TEST_F(DiskTierRetentionTest, AChunkWithoutExpiryKeepsNoExpiry) {
  h_.Start();
  const TestChunk chunk(1, 0);
  ASSERT_TRUE(h_.Store(chunk));
  EXPECT_TRUE(h_.tier->Touch(chunk.identity.key, {.time_to_live = seconds(10)}));
  EXPECT_FALSE(h_.BeginStore(chunk, 1, {.time_to_live = seconds(10)}));
  h_.unix_seconds += 1000;
  EXPECT_TRUE(h_.Load(chunk));
}

TEST_F(DiskTierRetentionTest, TheLaterExpiryReplacesTheEarlier) {
  h_.Start();
  const TestChunk chunk(1, 0);
  const BlockHash& key = chunk.identity.key;
  ASSERT_TRUE(h_.Store(chunk, 0, {.time_to_live = seconds(100)}));
  EXPECT_TRUE(h_.tier->Touch(key, {.time_to_live = seconds(10)}));
  // The chunk lives for another 50 s, which is half of 100 s.
  h_.unix_seconds += 50;
  EXPECT_TRUE(h_.tier->Touch(key, {.time_to_live = seconds(100)}));
  h_.unix_seconds += 1;
  EXPECT_FALSE(h_.tier->Touch(key, {.time_to_live = seconds(100)}));
  ASSERT_TRUE(h_.Store(chunk, 1, {.time_to_live = seconds(100)}));
  h_.unix_seconds += 99;
  EXPECT_TRUE(h_.Load(chunk, 1));
  EXPECT_FALSE(h_.tier->Touch(key, {}));
  ASSERT_TRUE(h_.Store(chunk, 2));
  h_.unix_seconds += 1000;
  EXPECT_TRUE(h_.Load(chunk, 2));
  h_.Start();
  EXPECT_TRUE(h_.Load(chunk, 2));
}

// The record that was replaced is not in the index any more, so Remove cannot erase this record.
TEST_F(DiskTierRetentionTest, AReplacedRecordDoesNotComeBack) {
  h_.Start();
  const TestChunk chunk(1, 0), other(2, 0);
  ASSERT_TRUE(h_.Store(chunk, 0, {.time_to_live = seconds(100)}));
  ASSERT_TRUE(h_.Store(chunk, 1));
  h_.tier->Remove(chunk.identity.key);
  ASSERT_TRUE(h_.Store(other));
  h_.Start();
  EXPECT_FALSE(h_.Load(chunk));
  EXPECT_TRUE(h_.Load(other));
}

TEST_F(DiskTierRetentionTest, ATimeToLiveBelowOneSecondIsNotStored) {
  h_.Start();
  EXPECT_FALSE(h_.BeginStore(TestChunk(1, 0), 0, {.time_to_live = std::chrono::milliseconds(999)}));
  EXPECT_EQ(h_.dropped(StoreDrop::kTimeToLive), 1u);
}

// Chunk 1000 is not used after the store. Its priority keeps the chunk for one move.
TEST_F(DiskTierRetentionTest, AHighPriorityKeepsAChunkForOneMove) {
  h_.options.size_bytes = 4 * TierHarness::kSegmentBytes;
  h_.Start();
  ASSERT_TRUE(h_.Store(TestChunk(1000, 0), 0, {.priority = 80}));
  ASSERT_TRUE(h_.Store(TestChunk(1001, 0), 0, {.priority = 50}));
  uint64_t num_stored = 0;
  const auto store_segments = [&](uint64_t num_segments) {
    for (const uint64_t end = num_stored + 16 * num_segments; num_stored < end; ++num_stored) {
      ASSERT_TRUE(h_.Store(TestChunk(num_stored, 0)));
    }
  };
  store_segments(5);
  EXPECT_TRUE(h_.tier->Has(TestChunk(1000, 0).identity.key));
  EXPECT_FALSE(h_.tier->Has(TestChunk(1001, 0).identity.key));
  h_.AddStats();
  EXPECT_EQ(h_.stats.chunks_moved, 1u);
  store_segments(5);
  EXPECT_FALSE(h_.tier->Has(TestChunk(1000, 0).identity.key));
}

TEST_F(DiskTierRetentionTest, TheStartReadsPriorities) {
  h_.options.size_bytes = 4 * TierHarness::kSegmentBytes;
  h_.Start();
  ASSERT_TRUE(h_.Store(TestChunk(1000, 0), 0, {.priority = 80}));
  for (uint64_t i = 0; i < 40; ++i) ASSERT_TRUE(h_.Store(TestChunk(i, 0)));
  h_.Start();
  for (uint64_t i = 40; i < 80; ++i) ASSERT_TRUE(h_.Store(TestChunk(i, 0)));
  EXPECT_TRUE(h_.tier->Has(TestChunk(1000, 0).identity.key));
  EXPECT_FALSE(h_.tier->Has(TestChunk(0, 0).identity.key));
}

// The disk has 8 segments of 50 pages. A quarter is 100 pages: 33 records of 3 pages.
TEST_F(DiskTierRetentionTest, ATenantMayUseItsShareOfTheDisk) {
  h_.options.tenant_share_max = 0.25;
  h_.Start();
  for (uint64_t i = 0; i < 33; ++i) ASSERT_TRUE(h_.Store(TestChunk(i, 0))) << i;
  EXPECT_FALSE(h_.Store(TestChunk(33, 0)));
  EXPECT_EQ(h_.dropped(StoreDrop::kTenantShare), 1u);
  TestChunk other(34, 0);
  other.identity.tenant = 12;
  EXPECT_TRUE(h_.Store(other));
  // The disk knows the tenants also after a restart.
  h_.Start();
  EXPECT_FALSE(h_.Store(TestChunk(35, 0)));
  TestChunk second(36, 0);
  second.identity.tenant = 12;
  EXPECT_TRUE(h_.Store(second));
  h_.tier->Remove(TestChunk(0, 0).identity.key);
  EXPECT_TRUE(h_.Store(TestChunk(37, 0)));
  EXPECT_FALSE(h_.Store(TestChunk(38, 0)));
  h_.tier->Clear();
  EXPECT_TRUE(h_.Store(TestChunk(38, 0)));
}

// The new record replaces the older record, so the tenant does not use more of the disk.
TEST_F(DiskTierRetentionTest, ATenantAtItsShareCanExtendTheTimeToLive) {
  h_.options.tenant_share_max = 0.25;
  h_.Start();
  const TestChunk chunk(0, 0);
  ASSERT_TRUE(h_.Store(chunk, 0, {.time_to_live = seconds(10)}));
  for (uint64_t i = 1; i < 33; ++i) ASSERT_TRUE(h_.Store(TestChunk(i, 0))) << i;
  ASSERT_TRUE(h_.Store(chunk, 1));
  h_.unix_seconds += 1000;
  EXPECT_TRUE(h_.Load(chunk, 1));
  EXPECT_FALSE(h_.Store(TestChunk(33, 0)));
  EXPECT_EQ(h_.dropped(StoreDrop::kTenantShare), 1u);
}

TEST_F(DiskTierRetentionTest, ATenantAtItsShareCannotTakeOverChunksOfOthers) {
  h_.options.tenant_share_max = 0.25;
  h_.Start();
  TestChunk other(0, 0);
  other.identity.tenant = 12;
  ASSERT_TRUE(h_.Store(other, 0, {.time_to_live = seconds(10)}));
  for (uint64_t i = 1; i < 34; ++i) ASSERT_TRUE(h_.Store(TestChunk(i, 0))) << i;
  EXPECT_FALSE(h_.Store(TestChunk(0, 0), 1));
  EXPECT_TRUE(h_.Load(other));
}

TEST_F(DiskTierRetentionTest, ExpiredChunksLeaveTheShareOfTheirTenant) {
  h_.options.tenant_share_max = 0.25;
  h_.Start();
  for (uint64_t i = 0; i < 33; ++i) {
    ASSERT_TRUE(h_.Store(TestChunk(i, 0), 0, {.time_to_live = seconds(10)})) << i;
  }
  EXPECT_FALSE(h_.Store(TestChunk(33, 0)));
  h_.unix_seconds += 10;
  for (uint64_t i = 34; i < 60; ++i) EXPECT_TRUE(h_.Store(TestChunk(i, 0))) << i;
}

}  // namespace
}  // namespace incipit
