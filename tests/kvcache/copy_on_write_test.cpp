// Tests cache hits that end within a block: the block is copied, and the equal tokens at its start
// are not computed again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/kvcache/cached_sequence.h"
#include "tests/kvcache/policies/policy_kinds.h"

namespace incipit {
namespace {

using testing::ElementsAre;

constexpr int32_t kCopyBlock = 4;

class CopyOnWriteTest : public testing::TestWithParam<EvictionPolicyKind> {
 protected:
  explicit CopyOnWriteTest(int32_t num_blocks = 16)
      : cache_({.num_blocks = num_blocks, .block_size = kCopyBlock, .policy = GetParam()},
               {.copy_min_tokens = 1}) {}

  void Cache(const std::vector<TokenId>& tokens, const CacheNamespace& cache_namespace = {}) {
    CachedSequence sequence(cache_, tokens, cache_namespace);
    sequence.AdmitAndCommit();
    sequence.Free();
  }
  ComputedBlocks LookUp(const CachedSequence& sequence) {
    return cache_.GetComputedBlocks(sequence.tokens, sequence.table);
  }
  void Check(std::vector<const BlockTable*> tables) { cache_.CheckInvariants(tables); }

  KvCacheManager cache_;
};

INSTANTIATE_TEST_SUITE_P(Policies, CopyOnWriteTest, testing::ValuesIn(kPolicyKinds),
                         PolicyTestName);

TEST_P(CopyOnWriteTest, AFullHitComputesOneToken) {
  Cache(TokenRange(0, 12));
  CachedSequence again(cache_, TokenRange(0, 12));
  const ComputedBlocks computed = LookUp(again);
  EXPECT_EQ(computed.num_tokens, 11);
  EXPECT_EQ(computed.blocks.size(), 2u);
  EXPECT_EQ(computed.copy_tokens, 3);
  ASSERT_TRUE(cache_.AllocateSlots(again.table, computed, 12));
  EXPECT_EQ(again.table.copy.to, again.table.blocks[2]);
  EXPECT_EQ(again.table.copy.num_tokens, 3);
  again.Commit();
  again.Free();
  Check({});
}

TEST_P(CopyOnWriteTest, APromptOfOneBlockComputesOneToken) {
  Cache(TokenRange(0, 4));
  CachedSequence again(cache_, TokenRange(0, 4));
  EXPECT_EQ(LookUp(again).num_tokens, 3);
  EXPECT_EQ(LookUp(again).blocks.size(), 0u);
  CachedSequence one(cache_, TokenRange(0, 1));  // the last token of a prompt is always computed
  EXPECT_EQ(LookUp(one).num_tokens, 0);
  EXPECT_EQ(LookUp(one).copy_source, kNoBlock);
}

TEST_P(CopyOnWriteTest, EqualTokensInsideABlockAreFound) {
  Cache(TokenRange(0, 12));
  for (int32_t num_equal = 0; num_equal <= 12; ++num_equal) {
    const CachedSequence fork(cache_, Concat(TokenRange(0, num_equal), TokenRange(500, 6)));
    const ComputedBlocks computed = LookUp(fork);
    EXPECT_EQ(computed.num_tokens, num_equal);
    EXPECT_EQ(static_cast<int32_t>(computed.blocks.size()), num_equal / kCopyBlock);
    EXPECT_EQ(computed.copy_tokens, num_equal % kCopyBlock);
    EXPECT_EQ(computed.copy_source == kNoBlock, num_equal % kCopyBlock == 0);
  }
}

// Nearly every prompt begins with a few tokens that other prompts share. The copy of a block for so
// few tokens is not worthwhile.
TEST_P(CopyOnWriteTest, FewerThanAQuarterOfABlockAreNotCopied) {
  const std::vector<std::pair<int32_t, int32_t>> least = {{4, 2}, {8, 2}, {16, 4}, {64, 16}};
  for (const auto& [block_size, min_tokens] : least) {
    KvCacheManager cache({.num_blocks = 8, .block_size = block_size, .policy = GetParam()});
    CachedSequence writer(cache, TokenRange(0, 2 * block_size));
    writer.AdmitAndCommit();
    for (const int32_t num_blocks : {0, 1}) {
      for (int32_t num_equal = 1; num_equal < block_size; ++num_equal) {
        const int32_t num_common = num_blocks * block_size + num_equal;
        const CachedSequence fork(cache, Concat(TokenRange(0, num_common), TokenRange(500, 9)));
        const ComputedBlocks computed = cache.GetComputedBlocks(fork.tokens, fork.table);
        EXPECT_EQ(computed.copy_tokens, num_equal < min_tokens ? 0 : num_equal);
        EXPECT_EQ(computed.copy_source == kNoBlock, num_equal < min_tokens);
        EXPECT_EQ(computed.num_tokens, num_blocks * block_size + computed.copy_tokens);
        EXPECT_EQ(cache.ExplainMiss(fork.tokens, fork.table, computed).differing_token,
                  num_equal + 9 > block_size ? num_common : -1);
      }
    }
  }
}

// If the cache holds all tokens of a prompt, the last block is copied even if copy_min_tokens is
// larger. One token of the prompt must still be computed.
TEST_P(CopyOnWriteTest, APromptThatIsThereAsAWholeIsCopiedWhateverTheMinimum) {
  for (const int32_t block_size : {2, 4, 16}) {
    KvCacheManager cache({.num_blocks = 16, .block_size = block_size, .policy = GetParam()},
                         {.copy_min_tokens = block_size});
    CachedSequence writer(cache, TokenRange(0, 3 * block_size));
    writer.AdmitAndCommit();
    for (int32_t length = 1; length <= 3 * block_size; ++length) {
      const CachedSequence whole(cache, TokenRange(0, length));
      EXPECT_EQ(cache.GetComputedBlocks(whole.tokens, whole.table).num_tokens, length - 1);
      const CachedSequence other(cache, Concat(TokenRange(0, length - 1), {999}));
      const int32_t num_full = (length - 1) / block_size * block_size;
      EXPECT_EQ(cache.GetComputedBlocks(other.tokens, other.table).num_tokens, num_full);
    }
  }
}

TEST_P(CopyOnWriteTest, OfSeveralContinuationsTheLongestIsCopied) {
  for (TokenId last = 0; last < 8; ++last) {
    Cache(Concat(TokenRange(0, 4), {100, 101 + last % 2, 200 + last, 300}));
  }
  CachedSequence fork(cache_, Concat(TokenRange(0, 4), {100, 102, 203, 999, 5}));
  EXPECT_EQ(LookUp(fork).num_tokens, 4 + 3);
  CachedSequence other(cache_, Concat(TokenRange(0, 4), {100, 101, 999, 999, 5}));
  EXPECT_EQ(LookUp(other).num_tokens, 4 + 2);
  CachedSequence none(cache_, Concat(TokenRange(0, 4), {999, 101, 200, 300, 5}));
  EXPECT_EQ(LookUp(none).num_tokens, 4);
}

// Equal tokens after different beginnings have different keys and values, so the cache must not
// copy their block.
TEST_P(CopyOnWriteTest, OnlyTheBlockAfterWhatWasFoundIsCopied) {
  Cache(Concat({1, 2, 3, 4}, TokenRange(50, 4)));
  CachedSequence other(cache_, Concat({9, 2, 3, 4}, TokenRange(50, 4)));
  EXPECT_EQ(LookUp(other).num_tokens, 0);
  CachedSequence later(cache_, TokenRange(50, 5));
  EXPECT_EQ(LookUp(later).num_tokens, 0);
}

TEST_P(CopyOnWriteTest, NothingIsCopiedFromAnotherNamespace) {
  const std::vector<CacheNamespace> namespaces = {
      CacheNamespace{}, MakeCacheNamespace("a", ""), MakeCacheNamespace("b", ""),
      MakeCacheNamespace("a", "salt"), MakeCacheNamespace("a", "pepper")};
  for (const CacheNamespace& writer : namespaces) {
    ASSERT_TRUE(cache_.ResetPrefixCache());
    Cache(TokenRange(0, 8), writer);
    for (const CacheNamespace& reader : namespaces) {
      for (int32_t length = 2; length <= 8; ++length) {
        const CachedSequence probe(cache_, TokenRange(0, length), reader);
        EXPECT_EQ(LookUp(probe).num_tokens, reader == writer ? length - 1 : 0);
      }
    }
  }
}

// Equal tokens that stand for different images have different keys and values.
TEST_P(CopyOnWriteTest, NothingIsCopiedFromOtherMedia) {
  const auto with_media = [&](const std::string& content, int32_t begin) {
    CachedSequence sequence(cache_, TokenRange(0, 12));
    sequence.table.root = cache_.hasher().Root(
        {}, {{.content_hash = content, .token_begin = begin, .num_tokens = 2}});
    sequence.table.hashes.clear();
    cache_.hasher().Extend(sequence.table.root, sequence.tokens, sequence.table.hashes);
    return sequence;
  };
  for (const int32_t begin : {0, 1, 5, 9}) {
    ASSERT_TRUE(cache_.ResetPrefixCache());
    CachedSequence writer = with_media("cat", begin);
    writer.AdmitAndCommit();
    writer.Free();
    EXPECT_EQ(LookUp(with_media("cat", begin)).num_tokens, 11);
    const int32_t num_before = begin / kCopyBlock * kCopyBlock;
    EXPECT_EQ(LookUp(with_media("dog", begin)).num_tokens, num_before);
    EXPECT_EQ(LookUp(CachedSequence(cache_, TokenRange(0, 12))).num_tokens, num_before);
  }
}

TEST_P(CopyOnWriteTest, WhatIsPendingIsNotCopied) {
  CachedSequence writer(cache_, TokenRange(0, 8));
  writer.Admit();
  cache_.Announce(writer.table, writer.tokens);
  CachedSequence again(cache_, TokenRange(0, 8)), fork(cache_, TokenRange(0, 6));
  EXPECT_EQ(LookUp(again).num_tokens, 4);
  EXPECT_EQ(LookUp(again).copy_source, kNoBlock);
  EXPECT_EQ(LookUp(fork).num_tokens, 4);
  writer.Commit();
  EXPECT_EQ(LookUp(again).num_tokens, 7);
  EXPECT_EQ(LookUp(fork).num_tokens, 5);
}

TEST_P(CopyOnWriteTest, TheSourceIsHeldUntilTheStepIsCommittedAndNeverTheDestination) {
  KvCacheManager cache({.num_blocks = 4, .block_size = kCopyBlock, .policy = GetParam()});
  CachedSequence writer(cache, TokenRange(0, 12));
  writer.AdmitAndCommit();
  writer.Free();

  // The sequence needs all four blocks of the cache: two found blocks, one new block, and the
  // source of the copy.
  CachedSequence again(cache, TokenRange(0, 12));
  const ComputedBlocks computed = cache.GetComputedBlocks(again.tokens, again.table);
  EXPECT_EQ(cache.BlocksNeeded(again.table, computed, 12), 4);
  ASSERT_TRUE(cache.AllocateSlots(again.table, computed, 12));
  EXPECT_EQ(cache.num_free(), 0);
  EXPECT_NE(again.table.copy.from, again.table.copy.to);
  EXPECT_EQ(cache.pool().num_users(again.table.copy.from), 1);
  cache.CheckInvariants(std::vector<const BlockTable*>{&again.table});

  again.Commit();
  EXPECT_EQ(cache.num_free(), 1);
  cache.CheckInvariants(std::vector<const BlockTable*>{&again.table});
  again.Free();
}

TEST_P(CopyOnWriteTest, WithoutRoomForTheSourceNothingChanges) {
  KvCacheManager cache({.num_blocks = 3, .block_size = kCopyBlock, .policy = GetParam()});
  CachedSequence writer(cache, TokenRange(0, 12));
  writer.AdmitAndCommit();
  writer.Free();
  CachedSequence again(cache, TokenRange(0, 12));
  EXPECT_FALSE(
      cache.AllocateSlots(again.table, cache.GetComputedBlocks(again.tokens, again.table), 12));
  EXPECT_TRUE(again.table.blocks.empty());
  EXPECT_EQ(again.table.copy.from, kNoBlock);
  EXPECT_EQ(cache.num_cached(), 3);
  const ComputedBlocks whole =
      cache.GetComputedBlocks(again.tokens, again.table, PartialMatch::kNo);
  EXPECT_EQ(whole.num_tokens, 8);
  // Without a copy, the allocation may evict the block that would be the source of the copy.
  EXPECT_TRUE(cache.AllocateSlots(again.table, whole, 12));
  cache.CheckInvariants(std::vector<const BlockTable*>{&again.table});
}

TEST_P(CopyOnWriteTest, AStepThatDidNothingGivesTheSourceBackAndCopiesAgain) {
  Cache(TokenRange(0, 12));
  CachedSequence fork(cache_, TokenRange(0, 11));
  EXPECT_EQ(fork.Admit(), 10);
  const BlockId source = fork.table.copy.from;
  cache_.Rollback(fork.table);
  EXPECT_EQ(cache_.num_used(), 0);
  EXPECT_EQ(fork.table.copy.from, kNoBlock);
  EXPECT_EQ(fork.Admit(), 10);
  EXPECT_EQ(fork.table.copy.from, source);
  fork.Commit();
  Check({&fork.table});
  fork.Free();
}

// After a rollback, the child of a fork must still copy the parent's block, because the child has
// computed nothing yet.
TEST_P(CopyOnWriteTest, TheCopyOfAForkSurvivesAStepThatDidNothing) {
  CachedSequence parent(cache_, TokenRange(0, 6)), child(cache_, TokenRange(0, 6));
  parent.AdmitAndCommit();
  ASSERT_TRUE(cache_.Fork(parent.table, child.table, 6));
  parent.Free();
  child.tokens.push_back(77);
  ASSERT_TRUE(cache_.AllocateSlots(child.table, {}, 7));
  cache_.Announce(child.table, child.tokens);
  const BlockCopy copy = child.table.copy;
  cache_.Rollback(child.table);
  EXPECT_EQ(child.table.copy.from, copy.from);
  EXPECT_EQ(child.table.copy.to, copy.to);
  EXPECT_EQ(child.table.blocks.size(), 2u);
  Check({&child.table});
}

TEST_P(CopyOnWriteTest, ASourceInUseNeedsNoRoom) {
  CachedSequence writer(cache_, TokenRange(0, 8));
  writer.AdmitAndCommit();
  CachedSequence again(cache_, TokenRange(0, 8));
  EXPECT_EQ(cache_.BlocksNeeded(again.table, LookUp(again), 8), 1);
  EXPECT_EQ(again.Admit(), 7);
  EXPECT_EQ(cache_.pool().num_users(writer.table.blocks[1]), 2);
  writer.Free();
  EXPECT_EQ(cache_.pool().num_users(again.table.copy.from), 1);
  Check({&again.table});
  again.Commit();
  Check({&again.table});
}

TEST_P(CopyOnWriteTest, SwitchedOffNothingIsFoundInsideABlock) {
  KvCacheManager cache(
      {.num_blocks = 8, .block_size = kCopyBlock, .copy_on_write = false, .policy = GetParam()});
  CachedSequence writer(cache, TokenRange(0, 8));
  writer.AdmitAndCommit();
  const CachedSequence again(cache, TokenRange(0, 8)), fork(cache, TokenRange(0, 3));
  EXPECT_EQ(cache.GetComputedBlocks(again.tokens, again.table).num_tokens, 4);
  EXPECT_EQ(cache.GetComputedBlocks(fork.tokens, fork.table).num_tokens, 0);
}

TEST_P(CopyOnWriteTest, ABlockOfOneTokenHasNoInside) {
  KvCacheManager cache({.num_blocks = 8, .block_size = 1, .policy = GetParam()});
  CachedSequence writer(cache, TokenRange(0, 4));
  writer.AdmitAndCommit();
  CachedSequence again(cache, TokenRange(0, 4));
  const ComputedBlocks computed = cache.GetComputedBlocks(again.tokens, again.table);
  EXPECT_EQ(computed.num_tokens, 3);
  EXPECT_EQ(computed.copy_source, kNoBlock);
}

// The sequence `bad` copies values that are not finite, before any step has detected them. When a
// step detects them, the source block must be unpublished too. Otherwise, later sequences would
// copy the same values.
TEST_P(CopyOnWriteTest, WhatBadValuesWereCopiedFromIsUnpublishedWithThem) {
  Cache(TokenRange(0, 8));
  CachedSequence bad(cache_, Concat(TokenRange(0, 3), TokenRange(500, 9)));
  EXPECT_EQ(bad.Admit(), 3);
  // The step with the copy has detected the values that are not finite.
  cache_.ReleaseCopySource(bad.table);
  cache_.Announce(bad.table, bad.tokens);
  cache_.Unpublish(bad.table, bad.num_tokens());
  bad.Free();
  EXPECT_EQ(LookUp(CachedSequence(cache_, TokenRange(0, 8))).num_tokens, 0);
  EXPECT_EQ(LookUp(CachedSequence(cache_, bad.tokens)).num_tokens, 0);
  EXPECT_EQ(cache_.num_cached(), 0);
  Check({});

  // After a rollback, the sequence has copied nothing, so the source block stays published.
  Cache(TokenRange(0, 8));
  CachedSequence good(cache_, Concat(TokenRange(0, 3), TokenRange(500, 9)));
  EXPECT_EQ(good.Admit(), 3);
  cache_.Rollback(good.table);
  cache_.Unpublish(good.table, good.num_tokens());
  EXPECT_EQ(LookUp(CachedSequence(cache_, TokenRange(0, 8))).num_tokens, 7);
}

}  // namespace
}  // namespace incipit
