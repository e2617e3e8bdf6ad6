// Tests the reasons for cache misses and the statistics of evictions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <utility>
#include <vector>

#include "tests/kvcache/cached_sequence.h"
#include "tests/kvcache/policies/policy_kinds.h"

namespace incipit {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;

constexpr int32_t kCountedBlock = 4;

class StatisticsTest : public testing::TestWithParam<EvictionPolicyKind> {
 protected:
  StatisticsTest() : cache_({.num_blocks = 8, .block_size = kCountedBlock, .policy = GetParam()}) {
    cache_.Advance(Time{});
  }
  void Cache(const std::vector<TokenId>& tokens, const CacheNamespace& cache_namespace = {},
             uint64_t tenant = 0) {
    CachedSequence sequence(cache_, tokens, cache_namespace);
    sequence.table.tenant = tenant;
    sequence.AdmitAndCommit();
    sequence.Free();
  }
  Miss MissOf(const std::vector<TokenId>& tokens, const CacheNamespace& cache_namespace = {},
              uint64_t tenant = 0) {
    CachedSequence sequence(cache_, tokens, cache_namespace);
    sequence.table.tenant = tenant;
    const ComputedBlocks computed = cache_.GetComputedBlocks(sequence.tokens, sequence.table);
    return cache_.ExplainMiss(sequence.tokens, sequence.table, computed);
  }

  KvCacheManager cache_;
};

INSTANTIATE_TEST_SUITE_P(Policies, StatisticsTest, testing::ValuesIn(kPolicyKinds), PolicyTestName);

TEST_P(StatisticsTest, WhereAllFullBlocksAreFoundNothingIsMissed) {
  Cache(TokenRange(0, 12));
  for (int32_t length = 1; length <= 13; ++length) {
    const Miss miss = MissOf(TokenRange(0, length));
    EXPECT_EQ(miss.reason, MissReason::kNone) << length;
    EXPECT_EQ(miss.block, -1);
    EXPECT_EQ(miss.differing_token, -1);
  }
  EXPECT_EQ(MissOf(TokenRange(0, 17)).reason, MissReason::kUnseen);
  EXPECT_EQ(MissOf(TokenRange(0, 17)).block, 3);
  EXPECT_EQ(MissOf(TokenRange(0, 17)).differing_token, 12);
}

TEST_P(StatisticsTest, TheFirstTokenThatDiffersFromTheNearestChainIsReported) {
  Cache(TokenRange(0, 12));
  for (int32_t num_equal = 0; num_equal < 12; ++num_equal) {
    const Miss miss = MissOf(Concat(TokenRange(0, num_equal), TokenRange(500, 16)));
    EXPECT_EQ(miss.reason, MissReason::kUnseen);
    EXPECT_EQ(miss.block, num_equal / kCountedBlock);
    EXPECT_EQ(miss.differing_token, num_equal);
  }
}

// The explanation of a cache miss contains the first differing token, even if the cache never
// copies blocks.
TEST_P(StatisticsTest, WhatDiffersDoesNotDependOnCopies) {
  KvCacheManager cache(
      {.num_blocks = 8, .block_size = kCountedBlock, .copy_on_write = false, .policy = GetParam()});
  CachedSequence writer(cache, TokenRange(0, 12));
  writer.AdmitAndCommit();
  const CachedSequence reader(cache, Concat(TokenRange(0, 7), TokenRange(500, 16)));
  const ComputedBlocks computed = cache.GetComputedBlocks(reader.tokens, reader.table);
  EXPECT_EQ(cache.ExplainMiss(reader.tokens, reader.table, computed).differing_token, 7);
}

TEST_P(StatisticsTest, WhatWasEvictedIsKnownWithItsAge) {
  Cache(TokenRange(0, 32));
  cache_.Advance(Time(seconds(3)));
  Cache(TokenRange(500, 8));  // evicts the last two of the eight blocks
  cache_.Advance(Time(milliseconds(7250)));
  const Miss miss = MissOf(TokenRange(0, 33));
  EXPECT_EQ(miss.reason, MissReason::kEvicted);
  EXPECT_EQ(miss.block, 6);
  EXPECT_EQ(miss.evicted_ago, milliseconds(4250));
  EXPECT_EQ(miss.differing_token, 24);
}

TEST_P(StatisticsTest, WhatIsCachedAgainIsNoLongerEvicted) {
  Cache(TokenRange(0, 32));
  Cache(TokenRange(500, 8));
  EXPECT_EQ(MissOf(TokenRange(0, 33)).reason, MissReason::kEvicted);
  EXPECT_EQ(cache_.TakeStats().regret_blocks, 0);
  Cache(TokenRange(0, 32));
  EXPECT_EQ(MissOf(TokenRange(0, 33)).reason, MissReason::kNone);
  EXPECT_EQ(cache_.TakeStats().regret_blocks, 2);
  EXPECT_EQ(MissOf(TokenRange(500, 9)).reason, MissReason::kEvicted);
}

// The cache counts blocks that are computed again after their eviction. In a sequence, the count
// stops after several consecutive blocks that were not evicted before. If all blocks of a sequence
// were evicted, the cache must count every block.
TEST_P(StatisticsTest, AllOfALongChainThatIsCachedAgainIsRegretted) {
  constexpr int32_t kChainBlocks = 48;
  KvCacheManager cache(
      {.num_blocks = 4 * kChainBlocks, .block_size = kCountedBlock, .policy = GetParam()});
  CachedSequence sequence(cache, TokenRange(0, kChainBlocks * kCountedBlock));
  sequence.AdmitAndCommit();
  sequence.Free();
  cache.EvictTo(0);
  int64_t num_remembered = 0;
  for (const BlockHash& hash : sequence.table.hashes) {
    num_remembered += cache.pool().evicted_keys().Find(hash.prefix()).has_value();
  }
  EXPECT_GT(num_remembered, kChainBlocks * 3 / 4);

  cache.TakeStats();
  CachedSequence other(cache, TokenRange(5000, kChainBlocks * kCountedBlock));
  other.AdmitAndCommit();
  EXPECT_EQ(cache.TakeStats().regret_blocks, 0);
  CachedSequence again(cache, TokenRange(0, kChainBlocks * kCountedBlock));
  again.AdmitAndCommit();
  EXPECT_EQ(cache.TakeStats().regret_blocks, num_remembered);
  other.Free();
  again.Free();
}

// A prompt of 8 blocks, of which the first 6 are loaded from a tier.
TEST_P(StatisticsTest, LoadedBlocksAreNeitherRegrettedNorComputed) {
  Cache(TokenRange(0, 32));
  cache_.EvictTo(0);
  cache_.TakeStats();
  CachedSequence sequence(cache_, TokenRange(0, 32));
  sequence.Admit();
  sequence.table.num_loaded = 6;
  sequence.Commit();
  const KvCacheStats stats = cache_.TakeStats();
  EXPECT_EQ(stats.stored_blocks, 2);
  EXPECT_EQ(stats.regret_blocks, 2);
  EXPECT_EQ(sequence.table.num_loaded, 0);
  sequence.Free();
  EXPECT_EQ(MissOf(TokenRange(0, 33)).reason, MissReason::kNone);
}

// The blocks of a failed step are not loaded. The next step of the sequence computes them.
TEST_P(StatisticsTest, BlocksOfAFailedStepAreNotLoaded) {
  CachedSequence sequence(cache_, TokenRange(0, 16));
  for (const bool preempted : {false, true}) {
    sequence.Admit();
    sequence.table.num_loaded = 3;
    if (preempted) {
      sequence.Free();
    } else {
      cache_.Rollback(sequence.table);
    }
    EXPECT_EQ(sequence.table.num_loaded, 0);
  }
  sequence.AdmitAndCommit();
  EXPECT_EQ(cache_.TakeStats().stored_blocks, 4);
  sequence.Free();
}

// The policy has never seen the prompt 0 to 31, as after a restart. The prompt is loaded, so the
// prompt counts as reused. The two evicted blocks are blocks of the computed prompt, although the
// loaded prompt is older.
TEST_P(StatisticsTest, ALoadedPromptCountsAsReused) {
  if (GetParam() == EvictionPolicyKind::kLru) return;  // counts no uses
  KvCacheManager cache({.num_blocks = 64, .block_size = kCountedBlock, .policy = GetParam()});
  cache.Advance(Time{});
  for (const bool is_loaded : {true, false}) {
    CachedSequence sequence(cache, TokenRange(is_loaded ? 0 : 1000, 32));
    sequence.Admit();
    if (is_loaded) sequence.table.num_loaded = 8;
    sequence.Commit();
    sequence.Free();
  }
  const auto num_found = [&](TokenId first) {
    CachedSequence sequence(cache, TokenRange(first, 33));
    return cache.GetComputedBlocks(sequence.tokens, sequence.table).num_tokens;
  };
  cache.EvictTo(14);
  EXPECT_EQ(num_found(0), 32);
  EXPECT_EQ(num_found(1000), 24);
}

TEST_P(StatisticsTest, EvictionsOfLongAgoAreForgotten) {
  Cache(TokenRange(0, 4));
  for (TokenId first = 1000; first < 4000; first += 100) Cache(TokenRange(first, 4));
  EXPECT_EQ(MissOf(TokenRange(0, 5)).reason, MissReason::kUnseen);
  cache_.TakeStats();
  Cache(TokenRange(0, 4));
  EXPECT_EQ(cache_.TakeStats().regret_blocks, 0);
}

// If the same tenant has cached the tokens with another salt or adapter, the reason of a miss says
// so. The reason does not reveal the namespaces of other tenants.
TEST_P(StatisticsTest, OnlyOnesOwnOtherNamespacesAreReported) {
  const CacheNamespace plain = MakeCacheNamespace("a", ""), salted = MakeCacheNamespace("a", "x");
  CacheNamespace adapted = plain;
  adapted.adapter = AdapterKey{"adapter", {1}};
  const CacheNamespace stranger = MakeCacheNamespace("b", "");
  Cache(TokenRange(0, 8), plain, 1);
  for (const CacheNamespace& own : {salted, adapted}) {
    const Miss miss = MissOf(TokenRange(0, 9), own, 1);
    EXPECT_EQ(miss.reason, MissReason::kOtherNamespace);
    EXPECT_EQ(miss.block, 0);
  }
  EXPECT_EQ(MissOf(TokenRange(0, 9), stranger, 2).reason, MissReason::kUnseen);
  EXPECT_EQ(MissOf(TokenRange(1, 9), salted, 1).reason, MissReason::kUnseen);
  EXPECT_EQ(MissOf(TokenRange(0, 9), plain, 1).reason, MissReason::kNone);

  // The reason of a miss does not reveal tokens of another tenant, or tokens that are no longer
  // cached.
  Cache(TokenRange(0, 8), stranger, 2);
  EXPECT_EQ(MissOf(TokenRange(0, 9), salted, 1).reason, MissReason::kUnseen);
  EXPECT_EQ(MissOf(TokenRange(0, 9), stranger, 2).reason, MissReason::kNone);
  ASSERT_TRUE(cache_.ResetPrefixCache());
  Cache(TokenRange(0, 8), plain, 1);
  ASSERT_TRUE(cache_.ResetPrefixCache());
  EXPECT_EQ(MissOf(TokenRange(0, 9), salted, 1).reason, MissReason::kUnseen);
}

TEST_P(StatisticsTest, NothingIsReportedOfAnotherBlockInTheSamePosition) {
  const CacheNamespace plain = MakeCacheNamespace("a", ""), salted = MakeCacheNamespace("a", "x");
  Cache(TokenRange(0, 4), plain, 1);
  for (TokenId first = 1000; first < 2000; first += 100) Cache(TokenRange(first, 4), plain, 1);
  EXPECT_EQ(MissOf(TokenRange(0, 5), salted, 1).reason, MissReason::kUnseen);
  EXPECT_EQ(MissOf(TokenRange(1900, 5), salted, 1).reason, MissReason::kOtherNamespace);
}

TEST_P(StatisticsTest, EvictionsAreCountedWithAgeAndIdleTime) {
  CachedSequence sequence(cache_, TokenRange(0, 32));
  sequence.AdmitAndCommit();  // the blocks are published at 0 s
  cache_.Advance(Time(seconds(60)));
  sequence.Free();
  cache_.Advance(Time(seconds(61)));
  Cache(TokenRange(500, 9));
  const EvictionStats stats = cache_.TakeStats().evictions;
  EXPECT_EQ(stats.total(), 3);
  EXPECT_THAT(stats.by_reason, ElementsAre(3, 0, 0, 0));
  EXPECT_EQ(stats.age.sum_ms, 3 * 61'000);
  EXPECT_EQ(stats.idle.sum_ms, 3 * 1000);
  for (size_t bucket = 0; bucket <= kNumAgeBounds; ++bucket) {
    const bool has_age = 61 <= AgeBoundSeconds(bucket) && 61 > AgeBoundSeconds(bucket) / 4;
    const bool has_idle = 1 <= AgeBoundSeconds(bucket) && 1 > AgeBoundSeconds(bucket) / 4;
    EXPECT_EQ(stats.age.counts[bucket], has_age ? 3 : 0) << bucket;
    EXPECT_EQ(stats.idle.counts[bucket], has_idle ? 3 : 0) << bucket;
  }
  EXPECT_EQ(cache_.TakeStats().evictions.total(), 0);
}

TEST_P(StatisticsTest, EveryReasonIsCountedApart) {
  const auto cache = [&](TokenId first, int32_t num_blocks, const Retention& hint) {
    CachedSequence sequence(cache_, TokenRange(first, num_blocks * kCountedBlock));
    sequence.table.retention = hint;
    sequence.AdmitAndCommit();
    sequence.Free();
  };
  cache(0, 2, {.time_to_live = seconds(1)});
  cache_.Advance(Time(seconds(1)));
  cache(1000, 3, {});
  cache(2000, 5, {.priority = 10});
  cache(3000, 4, {});  // evicts four blocks with the priority 10
  cache(4000, 4, {});  // evicts the last block with the priority 10 and three other blocks
  ASSERT_TRUE(cache_.ResetPrefixCache());
  const EvictionStats stats = cache_.TakeStats().evictions;
  EXPECT_THAT(stats.by_reason, ElementsAre(3, 5, 2, 8));
  EXPECT_EQ(stats.total(), 18);
}

TEST_P(StatisticsTest, WhatIsUnpublishedForItsValuesIsNoEviction) {
  CachedSequence bad(cache_, TokenRange(0, 8));
  bad.AdmitAndCommit();
  cache_.Unpublish(bad.table, 8);
  bad.Free();
  const KvCacheStats stats = cache_.TakeStats();
  EXPECT_EQ(stats.stored_blocks, 2);
  EXPECT_EQ(stats.evictions.total(), 0);
  EXPECT_EQ(MissOf(TokenRange(0, 9)).reason, MissReason::kUnseen);
}

TEST_P(StatisticsTest, APreviewReportsWhatWouldBeEvictedAndChangesNothing) {
  Cache(TokenRange(0, 16));  // four of the eight blocks are then cached
  CachedSequence next(cache_, Concat(TokenRange(0, 8), TokenRange(500, 20)));
  const ComputedBlocks computed = cache_.GetComputedBlocks(next.tokens, next.table);
  AdmissionPreview preview = cache_.Preview(next.table, computed, 28);
  EXPECT_TRUE(preview.fits);
  EXPECT_EQ(preview.blocks_needed, 7);
  EXPECT_EQ(preview.blocks_evicted, 1);
  EXPECT_EQ(cache_.num_cached(), 4);
  EXPECT_EQ(cache_.num_used(), 0);
  ASSERT_TRUE(cache_.AllocateSlots(next.table, computed, 28));
  EXPECT_EQ(cache_.TakeStats().evictions.total(), 1);

  CachedSequence large(cache_, TokenRange(900, 8));
  const ComputedBlocks none = cache_.GetComputedBlocks(large.tokens, large.table);
  preview = cache_.Preview(large.table, none, 8);
  EXPECT_FALSE(preview.fits);
  EXPECT_EQ(preview.blocks_needed, 2);
}

}  // namespace
}  // namespace incipit
