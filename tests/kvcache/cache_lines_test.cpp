// Counts the cache lines that a call of a KV cache operation touches and that the previous call of
// the operation did not touch. The count must not depend on the size of the pool.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <vector>

#include "base/check.h"
#include "kvcache/kv_cache_manager.h"
#include "tests/kvcache/policies/policy_kinds.h"
#include "tests/kvcache/touched_lines.h"

namespace incipit {
namespace {

constexpr int32_t kBlockSize = 16;
constexpr int32_t kPromptBlocks = 16, kPromptTokens = kPromptBlocks * kBlockSize;
constexpr int kRounds = 200;

class SplitMix {
 public:
  explicit SplitMix(uint64_t seed) : state_(seed << 32) {}
  uint64_t operator()() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

// Counts the cache lines that a call of an operation touches and that the previous call did not
// touch. Each call is for 16 blocks, and no block is in two consecutive calls.
class NewLines {
 public:
  template <typename Operation>
  void Count(const Operation& operation) {
    BeginTouching();
    operation();
    std::vector<uintptr_t> lines = EndTouching(), fresh;
    std::ranges::set_difference(lines, before_, std::back_inserter(fresh));
    if (!before_.empty()) counts_.push_back(static_cast<double>(fresh.size()));
    before_ = std::move(lines);
  }
  // Returns the median over all calls, so that rare work of a policy does not count.
  double PerCall() const {
    std::vector<double> sorted = counts_;
    std::ranges::sort(sorted);
    return sorted[sorted.size() / 2];
  }
  double PerBlock() const { return PerCall() / kPromptBlocks; }

 private:
  std::vector<uintptr_t> before_;
  std::vector<double> counts_;
};

struct LinesPer {
  double missing_prompt = 0;  // cache lines for a lookup that finds no block
  double found_block = 0, taken_block = 0, published_block = 0, freed_block = 0;
};

// Stores prompts and finds them again, one after another, in a full pool. All prompts have the same
// number of blocks.
class Traffic {
 public:
  Traffic(EvictionPolicyKind policy, int32_t num_blocks)
      : cache_({.num_blocks = num_blocks, .block_size = kBlockSize, .policy = policy}) {
    table_.hashes.reserve(kPromptBlocks);
    table_.blocks.reserve(kPromptBlocks);
    for (int32_t i = 0; i < num_blocks / kPromptBlocks * 5 / 4; ++i) Store(next_prompt_++);
  }

  LinesPer Count() {
    NewLines missing, found, taken, published, freed;
    for (int round = 0; round < kRounds; ++round) {
      Begin(FindStored());
      found.Count([&] {
        const ComputedBlocks computed = cache_.GetComputedBlocks(tokens_, table_);
        EXPECT_TRUE(cache_.AllocateSlots(table_, computed, computed.num_tokens));
      });
      EXPECT_EQ(table_.blocks.size(), static_cast<size_t>(kPromptBlocks));
      freed.Count([&] { cache_.Free(table_); });

      Begin(next_prompt_++);
      missing.Count([&] { EXPECT_EQ(cache_.GetComputedBlocks(tokens_, table_).num_tokens, 0); });
      taken.Count([&] { EXPECT_TRUE(cache_.AllocateSlots(table_, {}, kPromptTokens)); });
      published.Count([&] { cache_.CacheBlocks(table_, tokens_, kPromptTokens); });
      cache_.Free(table_);
      for (int i = 0; i < 3; ++i) Store(next_prompt_++);
    }
    EXPECT_EQ(cache_.num_cached(), cache_.num_blocks() / kPromptBlocks * kPromptBlocks);
    return {.missing_prompt = missing.PerCall(),
            .found_block = found.PerBlock(),
            .taken_block = taken.PerBlock(),
            .published_block = published.PerBlock(),
            .freed_block = freed.PerBlock()};
  }

 private:
  // Real keys are digests, which random numbers imitate well.
  void Begin(uint64_t prompt) {
    SplitMix random(prompt);
    // A prompt has one token after its full blocks, because a lookup never finds the last token.
    tokens_.resize(kPromptTokens + 1);
    for (TokenId& token : tokens_) token = static_cast<TokenId>(random() >> 33);
    table_.hashes.resize(kPromptBlocks);
    for (BlockHash& hash : table_.hashes) {
      const uint64_t words[] = {random(), random(), random(), random()};
      std::memcpy(hash.bytes.data(), words, sizeof(words));
    }
  }
  void Store(uint64_t prompt) {
    Begin(prompt);
    INCIPIT_CHECK(cache_.AllocateSlots(table_, {}, kPromptTokens));
    cache_.CacheBlocks(table_, tokens_, kPromptTokens);
    cache_.Free(table_);
  }
  // Returns a random prompt of which the cache holds all blocks.
  uint64_t FindStored() {
    while (true) {
      const uint64_t prompt = random_() % next_prompt_;
      Begin(prompt);
      const auto num_found = cache_.GetComputedBlocks(tokens_, table_).blocks.size();
      if (num_found == kPromptBlocks) return prompt;
    }
  }

  KvCacheManager cache_;
  uint64_t next_prompt_ = 0;
  std::vector<TokenId> tokens_;
  BlockTable table_;
  SplitMix random_{~uint64_t{0}};
};

// What docs/kv_cache.md states.
LinesPer AtMost(EvictionPolicyKind policy) {
  // These eviction policies also search a table of evicted blocks, which touches more cache lines.
  const bool has_ghosts = policy == EvictionPolicyKind::kLru2 ||
                          policy == EvictionPolicyKind::kArc ||
                          policy == EvictionPolicyKind::kS3Fifo;
  const double ghosts = has_ghosts ? 2 : 0;
  return {.missing_prompt = 14,
          .found_block = 2.75,
          .taken_block = 4 + ghosts,
          .published_block = 4.25 + ghosts,
          .freed_block = 1.75};
}

class CacheLinesTest : public testing::TestWithParam<EvictionPolicyKind> {};

INSTANTIATE_TEST_SUITE_P(Policies, CacheLinesTest, testing::ValuesIn(kPolicyKinds), PolicyTestName);

TEST_P(CacheLinesTest, AnOperationTouchesNoMoreOfThemInALargePoolThanInASmallOne) {
  // Allowed number of additional cache lines in a larger pool. In a smaller pool, two blocks of one
  // call more often share a cache line of the index.
  constexpr double kShared = 0.25;
  constexpr double LinesPer::*kOperations[] = {&LinesPer::missing_prompt, &LinesPer::found_block,
                                               &LinesPer::taken_block, &LinesPer::published_block,
                                               &LinesPer::freed_block};
  const LinesPer small = Traffic(GetParam(), 10'000).Count();
  for (const int32_t num_blocks : {10'000, 100'000, 1'000'000}) {
    const LinesPer lines = num_blocks == 10'000 ? small : Traffic(GetParam(), num_blocks).Count();
    for (const auto operation : kOperations) {
      SCOPED_TRACE(testing::Message() << num_blocks << " blocks, operation "
                                      << std::ranges::find(kOperations, operation) - kOperations);
      EXPECT_GE(lines.*operation, 1);
      EXPECT_LE(lines.*operation, AtMost(GetParam()).*operation);
      EXPECT_LE(lines.*operation, small.*operation + kShared);
    }
  }
}

// With the policy `lru`, the numbers of cache lines differ only because blocks share lines of the
// index.
TEST(LruCacheLinesTest, TouchesAsManyInAPoolOfAnySize) {
  const LinesPer small = Traffic(EvictionPolicyKind::kLru, 10'000).Count();
  const LinesPer large = Traffic(EvictionPolicyKind::kLru, 1'000'000).Count();
  EXPECT_NEAR(small.missing_prompt, large.missing_prompt, 2);
  EXPECT_NEAR(small.found_block, large.found_block, 0.2);
  EXPECT_NEAR(small.taken_block, large.taken_block, 0.2);
  EXPECT_NEAR(small.published_block, large.published_block, 0.2);
  EXPECT_NEAR(small.freed_block, large.freed_block, 0.2);
}

}  // namespace
}  // namespace incipit
