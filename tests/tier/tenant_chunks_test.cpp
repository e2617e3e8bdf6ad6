// Tests the counters of chunks of each tenant.
#include "tier/tenant_chunks.h"

#include <gtest/gtest.h>

#include <vector>

namespace incipit {
namespace {

TEST(TenantChunksTest, CountsTheChunksOfEachTenant) {
  TenantChunks chunks;
  EXPECT_EQ(chunks.num_of(5), 0u);
  // 5 and 1029 are in the same bucket.
  const uint16_t first = chunks.Add(5);
  EXPECT_EQ(chunks.Add(5), first);
  const uint16_t second = chunks.Add(1029);
  EXPECT_NE(second, first);
  EXPECT_EQ(chunks.num_of(5), 2u);
  EXPECT_EQ(chunks.num_of(1029), 1u);
  chunks.Remove(first);
  chunks.Remove(second);
  EXPECT_EQ(chunks.num_of(5), 1u);
  EXPECT_EQ(chunks.num_of(1029), 0u);
}

TEST(TenantChunksTest, FurtherTenantsShareOneCounter) {
  TenantChunks chunks;
  std::vector<uint16_t> counters;
  for (uint64_t i = 0; i < TenantChunks::kTenantsMax; ++i) counters.push_back(chunks.Add(7 * i));
  const uint16_t shared = chunks.Add(1'000'001);
  EXPECT_EQ(chunks.Add(1'000'002), shared);
  EXPECT_EQ(chunks.num_of(1'000'001), 2u);
  EXPECT_EQ(chunks.num_of(1'000'003), 2u);
  EXPECT_EQ(chunks.num_of(7), 1u);
  EXPECT_TRUE(chunks.IsCounterOf(shared, 1'000'003));
  EXPECT_FALSE(chunks.IsCounterOf(shared, 7));
  // The counter of the tenant 7 is free for another tenant.
  chunks.Remove(counters[1]);
  EXPECT_EQ(chunks.num_of(1'000'003), 0u);
  EXPECT_FALSE(chunks.IsCounterOf(shared, 1'000'003));
  EXPECT_EQ(chunks.Add(1'000'003), counters[1]);
  chunks.Remove(shared);
  chunks.Remove(shared);
  EXPECT_EQ(chunks.num_of(1'000'001), 0u);
}

// The number of tenants over time is not limited.
TEST(TenantChunksTest, CountersAreUsedAgain) {
  TenantChunks chunks;
  for (uint64_t tenant = 0; tenant < 10'000; ++tenant) {
    const uint16_t counter = chunks.Add(tenant);
    ASSERT_EQ(chunks.num_of(tenant), 1u);
    chunks.Remove(counter);
    ASSERT_EQ(chunks.num_of(tenant), 0u);
  }
}

}  // namespace
}  // namespace incipit
