// Tests retention hints, with which requests ask to keep blocks. Every rule of kvcache/retention.h
// is tested through the cache manager, with every eviction policy.
#include "kvcache/retention.h"

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

constexpr int32_t kShelfBlock = 4;

// A cache for requests that come and go. Each request is a chain of full blocks with tokens of its
// own.
class Shelf {
 public:
  explicit Shelf(EvictionPolicyKind policy, int32_t num_blocks = 16, RetentionLimits limits = {1.0})
      : cache({.num_blocks = num_blocks,
               .block_size = kShelfBlock,
               .policy = policy,
               .retention = limits}) {
    cache.Advance(Time{});
  }

  // Returns the tokens of `num_blocks` full blocks. Chains with different `name` have no token in
  // common.
  static std::vector<TokenId> Chain(int32_t name, int32_t num_blocks) {
    return TokenRange(name * 1000, num_blocks * kShelfBlock);
  }
  // A request computes `tokens` and ends.
  void Cache(const std::vector<TokenId>& tokens, const Retention& hint = {}, uint64_t tenant = 0) {
    CachedSequence sequence(cache, tokens);
    sequence.table.retention = hint;
    sequence.table.tenant = tenant;
    sequence.AdmitAndCommit();
    sequence.Free();
    Check();
  }
  // Allocates `num_blocks` blocks that stay in use until the end of the test.
  void Take(int32_t num_blocks) {
    CachedSequence& holder = holders_.emplace_back(
        cache, Chain(100 + static_cast<int32_t>(holders_.size()), num_blocks));
    ASSERT_GE(holder.Admit(), 0);
    Check();
  }
  // Returns the number of leading blocks of `tokens` that a lookup finds.
  int32_t Found(std::vector<TokenId> tokens) {
    tokens.push_back(-1);
    const CachedSequence probe(cache, std::move(tokens));
    return cache.GetComputedBlocks(probe.tokens, probe.table, PartialMatch::kNo).num_tokens /
           kShelfBlock;
  }
  void Advance(Duration since_start) {
    cache.Advance(Time(since_start));
    Check();
  }
  int64_t Evicted(EvictionReason reason) {
    evictions_ += cache.TakeStats().evictions;
    return evictions_.by_reason[static_cast<size_t>(reason)];
  }
  int32_t num_retained() const { return cache.pool().num_retained(); }

  KvCacheManager cache;

 private:
  void Check() const {
    std::vector<const BlockTable*> tables;
    for (const CachedSequence& holder : holders_) tables.push_back(&holder.table);
    cache.CheckInvariants(tables);
  }

  std::deque<CachedSequence> holders_;
  EvictionStats evictions_;
};

class RetentionTest : public testing::TestWithParam<EvictionPolicyKind> {};

INSTANTIATE_TEST_SUITE_P(Policies, RetentionTest, testing::ValuesIn(kPolicyKinds), PolicyTestName);

TEST_P(RetentionTest, ALowPriorityGoesBeforeWhatWasFreedEarlier) {
  Shelf shelf(GetParam(), 8);
  shelf.Cache(Shelf::Chain(1, 4));
  shelf.Cache(Shelf::Chain(2, 4), {.priority = 49});
  EXPECT_EQ(shelf.num_retained(), 4);
  shelf.Take(3);
  EXPECT_EQ(shelf.Found(Shelf::Chain(1, 4)), 4);
  EXPECT_EQ(shelf.Found(Shelf::Chain(2, 4)), 1);  // the last blocks of the chain were evicted first
  shelf.Take(1);
  EXPECT_EQ(shelf.Found(Shelf::Chain(2, 4)), 0);
  EXPECT_EQ(shelf.Evicted(EvictionReason::kPriority), 4);
  shelf.Take(2);
  EXPECT_EQ(shelf.Found(Shelf::Chain(1, 4)), 2);
  EXPECT_EQ(shelf.Evicted(EvictionReason::kCapacity), 2);
}

TEST_P(RetentionTest, ALowPriorityDoesNotGoBeforeBlocksThatHoldNothing) {
  Shelf shelf(GetParam(), 16);
  for (int32_t name = 1; name <= 4; ++name) shelf.Cache(Shelf::Chain(name, 3), {.priority = 0});
  for (int32_t name = 1; name <= 4; ++name) EXPECT_EQ(shelf.Found(Shelf::Chain(name, 3)), 3);
  EXPECT_EQ(shelf.cache.num_cached(), 12);
}

TEST_P(RetentionTest, AHighPriorityGoesAfterWhatWasFreedLater) {
  Shelf shelf(GetParam(), 8);
  shelf.Cache(Shelf::Chain(1, 4), {.priority = 51});
  shelf.Cache(Shelf::Chain(2, 4));
  shelf.Take(4);
  EXPECT_EQ(shelf.Found(Shelf::Chain(1, 4)), 4);
  EXPECT_EQ(shelf.Found(Shelf::Chain(2, 4)), 0);
  shelf.Take(4);
  EXPECT_EQ(shelf.Found(Shelf::Chain(1, 4)), 0);
  EXPECT_EQ(shelf.Evicted(EvictionReason::kCapacity), 8);
}

TEST_P(RetentionTest, LowerPrioritiesGoBeforeHigherOnes) {
  Shelf shelf(GetParam(), 12);
  const int32_t priorities[] = {100, 10, 70, 0, 45, 60};
  std::deque<CachedSequence> sequences;
  for (int32_t name = 0; name < 6; ++name) {
    sequences.emplace_back(shelf.cache, Shelf::Chain(name, 2)).AdmitAndCommit();
    sequences.back().table.retention.priority = priorities[name];
  }
  for (CachedSequence& sequence : sequences) sequence.Free();
  for (const int32_t name : {3, 1, 4, 5, 2, 0}) {
    EXPECT_EQ(shelf.Found(Shelf::Chain(name, 2)), 2) << "priority " << priorities[name];
    shelf.Take(2);
    EXPECT_EQ(shelf.Found(Shelf::Chain(name, 2)), 0) << "priority " << priorities[name];
  }
}

TEST_P(RetentionTest, OfOnePriorityTheFirstFreedGoesFirst) {
  Shelf shelf(GetParam(), 6);
  for (int32_t name = 0; name < 3; ++name) shelf.Cache(Shelf::Chain(name, 2), {.priority = 80});
  shelf.Take(1);
  EXPECT_EQ(shelf.Found(Shelf::Chain(0, 2)), 1);
  shelf.Take(2);
  EXPECT_EQ(shelf.Found(Shelf::Chain(0, 2)), 0);
  EXPECT_EQ(shelf.Found(Shelf::Chain(1, 2)), 1);
  EXPECT_EQ(shelf.Found(Shelf::Chain(2, 2)), 2);
}

TEST_P(RetentionTest, WhateverIsAskedForEveryFreeBlockCanBeTaken) {
  for (int32_t priority = 0; priority <= kRetentionPriorityMax; ++priority) {
    for (const Duration pin : {seconds(0), seconds(30)}) {
      for (const Duration life : {seconds(0), seconds(30)}) {
        Shelf shelf(GetParam(), 6);
        const Retention hint = {.priority = priority, .time_to_live = life, .pin = pin};
        shelf.Cache(Shelf::Chain(1, 3), hint);
        shelf.Cache(Shelf::Chain(2, 3));
        shelf.Take(6);
        EXPECT_EQ(shelf.Found(Shelf::Chain(1, 3)), 0);
        EXPECT_EQ(shelf.num_retained(), 0);
      }
    }
  }
}

TEST_P(RetentionTest, AHighPriorityFallsBackToTheDefaultInEqualSteps) {
  Shelf shelf(GetParam(), 8, {.tenant_share_max = 1, .duration_max = seconds(10)});
  shelf.Cache(Shelf::Chain(1, 2), {.priority = 100});
  shelf.Advance(milliseconds(4500));
  shelf.Cache(Shelf::Chain(2, 2), {.priority = 80});
  shelf.Cache(Shelf::Chain(3, 2), {.priority = 70});
  shelf.Cache(Shelf::Chain(4, 2));
  // The blocks with the priority 100 have decayed to the eviction level of a new priority 80.
  // Within a level, the blocks that were freed first are evicted first.
  shelf.Take(2);
  EXPECT_EQ(shelf.Found(Shelf::Chain(4, 2)), 0);
  shelf.Take(2);
  EXPECT_EQ(shelf.Found(Shelf::Chain(3, 2)), 0);
  EXPECT_EQ(shelf.Found(Shelf::Chain(1, 2)), 2);
  EXPECT_EQ(shelf.Found(Shelf::Chain(2, 2)), 2);
  shelf.Advance(seconds(6));  // the priority 100 has decayed to the level of a new priority 70
  shelf.Take(2);
  EXPECT_EQ(shelf.Found(Shelf::Chain(1, 2)), 0);
  EXPECT_EQ(shelf.Found(Shelf::Chain(2, 2)), 2);
}

TEST_P(RetentionTest, AHighPriorityIsTheDefaultWhenItsTimeIsOverHoweverOftenItIsGiven) {
  for (const Duration step : {Duration(milliseconds(1)), Duration(milliseconds(77)),
                              Duration(milliseconds(999)), Duration(milliseconds(1500))}) {
    Shelf shelf(GetParam(), 8, {.tenant_share_max = 1, .duration_max = milliseconds(1000)});
    shelf.Advance(step / 3);  // so that no request ends at a multiple of `step`
    shelf.Cache(Shelf::Chain(1, 4), {.priority = 100});
    Duration now = step / 3;
    while (now + step < step / 3 + milliseconds(1000)) {
      EXPECT_EQ(shelf.num_retained(), 4);
      shelf.Advance(now += step);
    }
    shelf.Advance(now + step);
    EXPECT_EQ(shelf.num_retained(), 0);
    EXPECT_EQ(shelf.Found(Shelf::Chain(1, 4)), 4);
  }
}

TEST_P(RetentionTest, WhatIsPinnedGoesLast) {
  Shelf shelf(GetParam(), 8);
  shelf.Cache(Shelf::Chain(1, 2), {.pin = seconds(10)});
  shelf.Cache(Shelf::Chain(2, 2), {.priority = 100});
  shelf.Cache(Shelf::Chain(3, 4));
  shelf.Take(4);
  EXPECT_EQ(shelf.Found(Shelf::Chain(3, 4)), 0);
  shelf.Take(2);
  EXPECT_EQ(shelf.Found(Shelf::Chain(2, 2)), 0);
  EXPECT_EQ(shelf.Found(Shelf::Chain(1, 2)), 2);
  shelf.Take(2);
  EXPECT_EQ(shelf.Found(Shelf::Chain(1, 2)), 0);
}

TEST_P(RetentionTest, APinEndsWhenItWasAskedToAndAtTheLimit) {
  Shelf shelf(GetParam(), 9, {.tenant_share_max = 1, .duration_max = seconds(60)});
  shelf.Advance(seconds(5));
  shelf.Cache(Shelf::Chain(1, 2), {.pin = seconds(10)});
  shelf.Cache(Shelf::Chain(2, 3), {.pin = seconds(1000)});
  shelf.Cache(Shelf::Chain(3, 4), {.priority = 0, .pin = seconds(20)});
  shelf.Advance(seconds(15) - milliseconds(1));
  EXPECT_EQ(shelf.num_retained(), 9);
  shelf.Advance(seconds(15));
  EXPECT_EQ(shelf.num_retained(), 7);
  shelf.Advance(seconds(25));  // the pin has ended, so the eviction order follows the priority 0
  shelf.Take(1);
  EXPECT_EQ(shelf.Found(Shelf::Chain(3, 4)), 3);
  shelf.Advance(seconds(65) - milliseconds(1));
  EXPECT_EQ(shelf.num_retained(), 6);
  shelf.Advance(seconds(65));
  EXPECT_EQ(shelf.num_retained(), 3);
  EXPECT_EQ(shelf.Found(Shelf::Chain(2, 3)), 3);
}

TEST_P(RetentionTest, WhatHasOutlivedItsTimeIsGone) {
  Shelf shelf(GetParam());
  shelf.Cache(Shelf::Chain(1, 3), {.time_to_live = seconds(10)});
  shelf.Cache(Shelf::Chain(2, 3), {.priority = 90, .time_to_live = seconds(20)});
  shelf.Advance(seconds(10) - milliseconds(1));
  EXPECT_EQ(shelf.Found(Shelf::Chain(1, 3)), 3);
  EXPECT_EQ(shelf.cache.num_cached(), 6);
  shelf.Advance(seconds(10));
  EXPECT_EQ(shelf.Found(Shelf::Chain(1, 3)), 0);
  EXPECT_EQ(shelf.Found(Shelf::Chain(2, 3)), 3);
  EXPECT_EQ(shelf.cache.num_cached(), 3);
  shelf.Advance(seconds(30));
  EXPECT_EQ(shelf.Found(Shelf::Chain(2, 3)), 0);
  EXPECT_EQ(shelf.cache.num_cached(), 0);
  EXPECT_EQ(shelf.Evicted(EvictionReason::kTimeToLive), 6);
  shelf.Take(16);
}

TEST_P(RetentionTest, ALimitedLifeIsBetterThanTheDefaultInItsFirstHalfAndWorseInItsSecond) {
  Shelf shelf(GetParam(), 8);
  shelf.Cache(Shelf::Chain(1, 4), {.time_to_live = seconds(10)});
  shelf.Cache(Shelf::Chain(2, 4));
  shelf.Take(1);
  EXPECT_EQ(shelf.Found(Shelf::Chain(1, 4)), 4);
  EXPECT_EQ(shelf.Found(Shelf::Chain(2, 4)), 3);
  shelf.Advance(seconds(5));
  shelf.Take(1);
  EXPECT_EQ(shelf.Found(Shelf::Chain(1, 4)), 3);
  EXPECT_EQ(shelf.Found(Shelf::Chain(2, 4)), 3);
  EXPECT_EQ(shelf.Evicted(EvictionReason::kPriority), 1);
}

TEST_P(RetentionTest, ALifeLongerThanTheLimitOfHintsIsLived) {
  Shelf shelf(GetParam(), 8, {.tenant_share_max = 1, .duration_max = seconds(10)});
  shelf.Cache(Shelf::Chain(1, 2), {.priority = 80, .time_to_live = seconds(100)});
  shelf.Cache(Shelf::Chain(2, 2), {.time_to_live = seconds(100), .pin = seconds(20)});
  for (int32_t second = 1; second < 100; ++second) {
    shelf.Advance(seconds(second));
    ASSERT_EQ(shelf.Found(Shelf::Chain(1, 2)), 2);
    ASSERT_EQ(shelf.num_retained(), 4);
  }
  shelf.Advance(seconds(100));
  EXPECT_EQ(shelf.num_retained(), 0);
  EXPECT_EQ(shelf.Evicted(EvictionReason::kTimeToLive), 4);
}

TEST_P(RetentionTest, WhatOthersBuiltOnOutlivesItsTimeAsLongAsThey) {
  Shelf shelf(GetParam(), 12);
  const std::vector<TokenId> longer = Shelf::Chain(1, 5);
  const std::vector<TokenId> prefix(longer.begin(), longer.begin() + 3 * kShelfBlock);
  shelf.Cache(prefix, {.time_to_live = seconds(10)});
  shelf.Cache(longer);
  shelf.Advance(seconds(10));
  EXPECT_EQ(shelf.Found(longer), 5);
  EXPECT_EQ(shelf.num_retained(), 0);
  // The last two blocks of `longer` are evicted before the three blocks of their prefix.
  shelf.Take(7);
  shelf.Take(2);
  EXPECT_EQ(shelf.Found(longer), 3);
  shelf.Take(3);
  EXPECT_EQ(shelf.Found(longer), 0);
}

TEST_P(RetentionTest, WhatIsInUseDoesNotGoWhenItsTimeIsOver) {
  Shelf shelf(GetParam());
  shelf.Cache(Shelf::Chain(1, 3), {.time_to_live = seconds(10)});
  CachedSequence user(shelf.cache, Concat(Shelf::Chain(1, 3), {7}));
  EXPECT_EQ(user.AdmitAndCommit(), 3 * kShelfBlock);
  shelf.cache.Advance(Time(seconds(10)));
  EXPECT_EQ(shelf.Found(Shelf::Chain(1, 3)), 3);
  user.Free();
  EXPECT_EQ(shelf.Found(Shelf::Chain(1, 3)), 3);
  EXPECT_EQ(shelf.num_retained(), 0);
}

TEST_P(RetentionTest, WhatIsUsedMeanwhileComesBackToWhatWasAskedFor) {
  Shelf shelf(GetParam(), 8);
  shelf.Cache(Shelf::Chain(1, 3), {.pin = seconds(10)});
  shelf.Cache(Concat(Shelf::Chain(1, 3), Shelf::Chain(2, 1)));
  EXPECT_EQ(shelf.num_retained(), 3);
  shelf.Cache(Shelf::Chain(3, 4));
  shelf.Take(5);
  EXPECT_EQ(shelf.Found(Shelf::Chain(1, 3)), 3);
  EXPECT_EQ(shelf.Found(Shelf::Chain(3, 4)), 0);
}

TEST_P(RetentionTest, TheHigherOfTwoHintsCounts) {
  Shelf shelf(GetParam(), 8);
  shelf.Cache(Shelf::Chain(1, 2), {.priority = 90});
  shelf.Cache(Shelf::Chain(1, 2), {.priority = 10});
  shelf.Cache(Shelf::Chain(2, 2), {.priority = 10});
  shelf.Cache(Shelf::Chain(2, 2), {.priority = 90});
  shelf.Cache(Shelf::Chain(3, 4));
  EXPECT_EQ(shelf.num_retained(), 4);
  shelf.Take(4);
  EXPECT_EQ(shelf.Found(Shelf::Chain(1, 2)), 2);
  EXPECT_EQ(shelf.Found(Shelf::Chain(2, 2)), 2);
}

TEST_P(RetentionTest, AnAncestorIsKeptAsLongAsWhatDescendsFromIt) {
  Shelf shelf(GetParam(), 10);
  const std::vector<TokenId> longer = Shelf::Chain(1, 4);
  const std::vector<TokenId> prefix(longer.begin(), longer.begin() + 2 * kShelfBlock);
  shelf.Cache(prefix, {.priority = 0});
  shelf.Cache(longer, {.pin = seconds(10)});  // the retention hint also keeps the prefix
  shelf.Cache(Shelf::Chain(2, 6));
  shelf.Take(6);
  EXPECT_EQ(shelf.Found(longer), 4);
  EXPECT_EQ(shelf.Evicted(EvictionReason::kPriority), 0);
  shelf.Take(4);
  EXPECT_EQ(shelf.Found(longer), 0);
}

TEST_P(RetentionTest, AnAncestorOfALowPriorityIsNotTakenBeforeItsDescendants) {
  Shelf shelf(GetParam(), 10);
  const std::vector<TokenId> longer = Shelf::Chain(1, 4);
  const std::vector<TokenId> prefix(longer.begin(), longer.begin() + 2 * kShelfBlock);
  shelf.Cache(prefix, {.priority = 0});
  shelf.Cache(longer);
  EXPECT_EQ(shelf.num_retained(), 2);
  shelf.Take(6);
  for (int32_t num_left = 4; num_left > 0; --num_left) {
    EXPECT_EQ(shelf.Found(longer), num_left);
    shelf.Take(1);
  }
  EXPECT_EQ(shelf.Found(longer), 0);
}

TEST_P(RetentionTest, ATenantRetainsNoMoreThanItsShare) {
  Shelf shelf(GetParam(), 40, {.tenant_share_max = 0.25});
  for (int32_t name = 0; name < 10; ++name) {
    const Retention hint = {.priority = name % 2 == 0 ? 100 : 50, .pin = seconds(name % 3)};
    shelf.Cache(Shelf::Chain(name, 3), hint, 1);
  }
  EXPECT_EQ(shelf.num_retained(), 10);
  // The maximum share of retained blocks applies to each tenant separately. Blocks with a priority
  // below the default do not count towards the share.
  shelf.Cache(Shelf::Chain(20, 3), {.priority = 80}, 2);
  shelf.Cache(Shelf::Chain(21, 3), {.priority = 20}, 1);
  EXPECT_EQ(shelf.num_retained(), 16);
}

TEST_P(RetentionTest, OverItsShareATenantKeepsTheBeginningsOfItsChains) {
  Shelf shelf(GetParam(), 8, {.tenant_share_max = 0.5});
  shelf.Cache(Shelf::Chain(1, 6), {.pin = seconds(10)});
  EXPECT_EQ(shelf.num_retained(), 4);
  shelf.Cache(Shelf::Chain(2, 2));
  shelf.Take(4);
  EXPECT_EQ(shelf.Found(Shelf::Chain(1, 6)), 4);
  EXPECT_EQ(shelf.Found(Shelf::Chain(2, 2)), 0);
}

// The later blocks of a chain may have a retention hint while the first blocks no longer have one.
TEST_P(RetentionTest, AShareHoldsWhereverInAChainItsBlocksStand) {
  Shelf shelf(GetParam(), 16, {.tenant_share_max = 0.25});
  const std::vector<TokenId> chain = Shelf::Chain(1, 6);
  const std::vector<TokenId> beginning(chain.begin(), chain.begin() + 2 * kShelfBlock);
  shelf.Cache(beginning, {.pin = seconds(1)}, 1);
  shelf.Cache(chain, {.priority = 60}, 1);
  EXPECT_EQ(shelf.num_retained(), 4);
  shelf.Advance(seconds(1));
  EXPECT_EQ(shelf.num_retained(), 2);
  shelf.Cache(Shelf::Chain(2, 2), {.priority = 60}, 1);
  EXPECT_EQ(shelf.num_retained(), 4);
  shelf.Cache(Concat(chain, {7}), {.priority = 60}, 1);
  EXPECT_EQ(shelf.num_retained(), 4);
}

TEST_P(RetentionTest, WhatATenantRenewsCountsOnce) {
  Shelf shelf(GetParam(), 40, {.tenant_share_max = 0.25});
  for (int32_t i = 0; i < 5; ++i) {
    shelf.Advance(seconds(i));
    shelf.Cache(Concat(Shelf::Chain(1, 10), {7}), {.pin = seconds(10)}, 1);
    EXPECT_EQ(shelf.num_retained(), 10);
  }
  shelf.Advance(seconds(13));  // the last request renewed the pin at the time 4 s
  EXPECT_EQ(shelf.num_retained(), 10);
  shelf.Advance(seconds(14));
  EXPECT_EQ(shelf.num_retained(), 0);
  shelf.Cache(Shelf::Chain(2, 10), {.pin = seconds(10)}, 1);
  EXPECT_EQ(shelf.num_retained(), 10);
}

TEST_P(RetentionTest, AShareIsFreeAgainWhenBlocksAreGone) {
  Shelf shelf(GetParam(), 8, {.tenant_share_max = 0.5});
  for (int32_t round = 0; round < 3 * RetainedBlocks::kGroupsMax; ++round) {
    shelf.Cache(Shelf::Chain(round % 50, 4), {.pin = seconds(10)}, 1);
    ASSERT_EQ(shelf.num_retained(), 4) << "round " << round;
    shelf.cache.EvictTo(0);
    ASSERT_EQ(shelf.num_retained(), 0);
  }
}

// A client always pins as many blocks as possible. Its share is a quarter of the cache, so three
// quarters are left for others.
TEST_P(RetentionTest, NoClientFillsTheCacheForEver) {
  Shelf shelf(GetParam(), 40, {.tenant_share_max = 0.25, .duration_max = seconds(100)});
  for (int32_t round = 0; round < 300; ++round) {
    shelf.Advance(seconds(round));
    shelf.Cache(Shelf::Chain(round, 8), {.priority = 100, .pin = seconds(1'000'000)}, 1);
    shelf.Cache(Shelf::Chain(1000 + round, 4), {}, 2);
    ASSERT_LE(shelf.num_retained(), 10);
    ASSERT_EQ(shelf.Found(Shelf::Chain(1000 + round, 4)), 4);
  }
  shelf.Advance(seconds(299 + 100));
  EXPECT_EQ(shelf.num_retained(), 0);
}

TEST_P(RetentionTest, MoreRequestsThanGroupsRetainNothing) {
  constexpr int32_t kMany = RetainedBlocks::kGroupsMax;
  Shelf shelf(GetParam(), kMany + 8);
  for (int32_t name = 0; name < kMany; ++name) {
    CachedSequence sequence(shelf.cache, Shelf::Chain(name, 1));
    sequence.table.retention = {.pin = seconds(1 + name % 2)};
    sequence.AdmitAndCommit();
    sequence.Free();
  }
  EXPECT_EQ(shelf.num_retained(), kMany);
  shelf.Cache(Shelf::Chain(kMany, 1), {.pin = seconds(10)});
  EXPECT_EQ(shelf.num_retained(), kMany);
  EXPECT_EQ(shelf.Found(Shelf::Chain(kMany, 1)), 1);
  shelf.Advance(seconds(1));
  EXPECT_EQ(shelf.num_retained(), kMany / 2);
  shelf.Cache(Shelf::Chain(kMany + 1, 1), {.pin = seconds(10)});
  EXPECT_EQ(shelf.num_retained(), kMany / 2 + 1);
}

// While the request of `bad` runs, its blocks are unpublished, because their values are not finite.
// The retention hint must then have no effect on these blocks, even when another sequence uses
// them.
TEST_P(RetentionTest, AHintForWhatCanNoLongerBeFoundMeansNothing) {
  Shelf shelf(GetParam(), 4);
  CachedSequence bad(shelf.cache, Shelf::Chain(1, 4));
  bad.table.retention = {.priority = 100};
  bad.AdmitAndCommit();
  shelf.cache.Unpublish(bad.table, bad.num_tokens());
  bad.Free();
  EXPECT_EQ(shelf.num_retained(), 0);
  shelf.Cache(Shelf::Chain(2, 4));
  EXPECT_EQ(shelf.num_retained(), 0);
  EXPECT_EQ(shelf.Found(Shelf::Chain(2, 4)), 4);
}

TEST_P(RetentionTest, AResetForgetsHintsToo) {
  Shelf shelf(GetParam(), 8, {.tenant_share_max = 0.5});
  shelf.Cache(Shelf::Chain(1, 4), {.pin = seconds(10)});
  shelf.Cache(Shelf::Chain(2, 4), {.priority = 10});
  EXPECT_TRUE(shelf.cache.ResetPrefixCache());
  EXPECT_EQ(shelf.num_retained(), 0);
  EXPECT_EQ(shelf.Evicted(EvictionReason::kReset), 8);
  shelf.Cache(Shelf::Chain(3, 8));
  EXPECT_EQ(shelf.num_retained(), 0);
  shelf.Cache(Shelf::Chain(4, 4), {.pin = seconds(10)});
  EXPECT_EQ(shelf.num_retained(), 4);
  shelf.Advance(seconds(10));
  EXPECT_EQ(shelf.num_retained(), 0);
  shelf.Take(8);
}

TEST_P(RetentionTest, ChoicesThatShareAPromptRetainItOnce) {
  Shelf shelf(GetParam(), 16, {.tenant_share_max = 0.5});
  CachedSequence first(shelf.cache, Shelf::Chain(1, 2)), second(shelf.cache, Shelf::Chain(1, 2));
  first.table.retention = second.table.retention = {.pin = seconds(10)};
  first.AdmitAndCommit();
  ASSERT_TRUE(shelf.cache.Fork(first.table, second.table, first.num_tokens()));
  for (TokenId token = 0; token < kShelfBlock; ++token) {
    first.Decode(500 + token);
    second.Decode(600 + token);
  }
  first.Free();
  EXPECT_EQ(shelf.num_retained(), 1);
  second.Free();
  EXPECT_EQ(shelf.num_retained(), 4);
  shelf.Advance(seconds(10));
  EXPECT_EQ(shelf.num_retained(), 0);
}

TEST_P(RetentionTest, GivingUpCachedBlocksKeepsToTheOrder) {
  Shelf shelf(GetParam(), 12);
  shelf.Cache(Shelf::Chain(1, 3), {.pin = seconds(10)});
  shelf.Cache(Shelf::Chain(2, 3));
  shelf.Cache(Shelf::Chain(3, 3), {.priority = 0});
  shelf.cache.EvictTo(6);
  EXPECT_EQ(shelf.Found(Shelf::Chain(3, 3)), 0);
  EXPECT_EQ(shelf.cache.num_cached(), 6);
  shelf.cache.EvictTo(2);
  EXPECT_EQ(shelf.Found(Shelf::Chain(2, 3)), 0);
  EXPECT_EQ(shelf.Found(Shelf::Chain(1, 3)), 2);
  EXPECT_EQ(shelf.cache.num_free(), 12);
  shelf.Take(12);
  EXPECT_EQ(shelf.Found(Shelf::Chain(1, 3)), 0);
}

}  // namespace
}  // namespace incipit
