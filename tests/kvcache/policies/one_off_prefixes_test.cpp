#include "kvcache/policies/one_off_prefixes.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>

#include "kvcache/kv_cache_manager.h"
#include "tests/kvcache/cached_sequence.h"

namespace incipit {
namespace {

constexpr uint32_t kChat = 0x1234, kTool = 0x9876;
constexpr double kAge = 10;  // age of blocks when they are used again

class OneOffPrefixesTest : public ::testing::Test {
 protected:
  // Counts `num_runs` requests whose prompts begin with `prefix`, one after another. Of the other
  // blocks of each request, the share `share` is used again.
  void Follow(uint32_t prefix, int num_runs, float share) {
    for (int i = 0; i < num_runs; ++i) {
      now_ += 1;
      prefixes_.CountNew(prefix, now_);
      if (share > 0) prefixes_.CountReuse(prefix, share, kAge);
    }
  }

  OneOffPrefixes prefixes_;
  double now_ = 0;
};

TEST_F(OneOffPrefixesTest, IsOneWhoseRunsAreUsedAgainClearlyLessThanOthers) {
  Follow(kChat, 100, 0.6F);
  Follow(kTool, 100, 0.1F);
  EXPECT_TRUE(prefixes_.Contains(kTool));
  EXPECT_FALSE(prefixes_.Contains(kChat));
  // A share of 0.3 is half of the share of kChat (0.6). Only a clearly lower share makes a one-off
  // prefix.
  Follow(3, 100, 0.3F);
  EXPECT_FALSE(prefixes_.Contains(3));
}

TEST_F(OneOffPrefixesTest, FewRunsShowNothing) {
  Follow(kChat, 100, 0.6F);
  Follow(kTool, 10, 0);
  EXPECT_FALSE(prefixes_.Contains(kTool));
  EXPECT_FALSE(prefixes_.Contains(5));  // never seen
}

TEST_F(OneOffPrefixesTest, WhereFewAreUsedAgainMoreMustShowIt) {
  Follow(kChat, 200, 0.05F);
  Follow(kTool, 60, 0);
  EXPECT_FALSE(prefixes_.Contains(kTool));
  Follow(kTool, 140, 0);
  EXPECT_TRUE(prefixes_.Contains(kTool));
}

TEST_F(OneOffPrefixesTest, IsNoneWithoutOthersToCompareWith) {
  Follow(kTool, 100, 0);
  EXPECT_FALSE(prefixes_.Contains(kTool));
  Follow(kChat, 100, 0);  // blocks are used again after neither prefix
  EXPECT_FALSE(prefixes_.Contains(kTool));
}

TEST_F(OneOffPrefixesTest, ManyOfThemAreNoMeasureForEachOther) {
  for (uint32_t tool = 0; tool < 20; ++tool) Follow(kTool + tool, 200, 0.05F);
  Follow(kChat, 200, 0.6F);
  for (uint32_t tool = 0; tool < 20; ++tool) EXPECT_TRUE(prefixes_.Contains(kTool + tool)) << tool;
  EXPECT_FALSE(prefixes_.Contains(kChat));
}

// Blocks after the prefix kLate are used again late: after 20 to 100 further requests, 60 on
// average.
TEST_F(OneOffPrefixesTest, ANewOneIsNoneBeforeAReuseIsPossible) {
  Follow(kChat, 200, 0.6F);
  constexpr uint32_t kLate = 77;
  std::array<int, 128> num_due{};  // element i % 128: number of reuses that happen at request i
  for (size_t i = 0; i < 2000; ++i) {
    now_ += kAge / 60;
    prefixes_.CountNew(kLate, now_);
    ++num_due[(i + 20 + i * 37 % 81) % num_due.size()];
    for (int& due = num_due[i % num_due.size()]; due > 0; --due) {
      prefixes_.CountReuse(kLate, 0.5F, kAge);
    }
    EXPECT_FALSE(prefixes_.Contains(kLate)) << i;
  }
}

// Most blocks after the prefix kChat are used again soon, as in a chat that continues at once.
// A few blocks after the prefix kChat are used again much later.
TEST_F(OneOffPrefixesTest, LateReuseIsNotHiddenByReuseAtOnce) {
  Follow(kChat, 500, 0.3F);
  for (int i = 0; i < 500; ++i) prefixes_.CountReuse(kChat, 0.02F, 60 * kAge);
  constexpr uint32_t kLate = 77;
  for (int i = 0; i < 30; ++i) {
    Follow(kChat, 10, 0.3F);
    prefixes_.CountReuse(kChat, 0.2F, 60 * kAge);
    Follow(kLate, 1, 0);
    EXPECT_FALSE(prefixes_.Contains(kLate)) << i;
  }
}

// As on a busy server, kOnTheirWay other requests arrive before the blocks of a request are used
// again.
TEST_F(OneOffPrefixesTest, HoweverManyAreOnTheirWayRatesAreTheSame) {
  constexpr int kOnTheirWay = 1000, kRare = 100;
  constexpr uint32_t kRareChat = 99;
  for (int i = 0; i < 50 * kOnTheirWay; ++i) {
    now_ += kAge / kOnTheirWay;
    prefixes_.CountNew(kChat, now_);
    prefixes_.CountNew(kTool, now_);
    if (i % kRare == 0) prefixes_.CountNew(kRareChat, now_);
    if (i < kOnTheirWay) continue;
    prefixes_.CountReuse(kChat, 0.25F, kAge);
    prefixes_.CountReuse(kTool, 0.01F, kAge);
    if (i % kRare == 0) prefixes_.CountReuse(kRareChat, 0.25F, kAge);
    EXPECT_FALSE(prefixes_.Contains(kChat));
    EXPECT_FALSE(prefixes_.Contains(kRareChat));
    EXPECT_TRUE(i < 10 * kOnTheirWay || prefixes_.Contains(kTool));
  }
}

TEST_F(OneOffPrefixesTest, WhatItsRunsDoNowCountsMoreThanWhatTheyDid) {
  Follow(kChat, 1000, 0.6F);
  Follow(kTool, 1000, 0);
  ASSERT_TRUE(prefixes_.Contains(kTool));
  Follow(kTool, 300, 0.6F);
  EXPECT_FALSE(prefixes_.Contains(kTool));
  Follow(kTool, 1000, 0);
  EXPECT_TRUE(prefixes_.Contains(kTool));
}

TEST_F(OneOffPrefixesTest, ThoseThatComeOftenAreKnownAmongAnyNumberOfRareOnes) {
  for (uint32_t rare = 0; rare < 20'000; ++rare) {
    Follow(kChat, 1, 0.6F);
    Follow(kTool, 1, 0.05F);
    Follow(1'000'000 + 7 * rare, 1, 0.6F);
  }
  EXPECT_TRUE(prefixes_.Contains(kTool));
  EXPECT_FALSE(prefixes_.Contains(kChat));
}

TEST_F(OneOffPrefixesTest, ThoseThatStayAwayMakeRoom) {
  for (uint32_t gone = 0; gone < 2000; ++gone) Follow(7 * gone + 1, 200, 0.6F);
  for (uint32_t i = 0; i < 200; ++i) {
    Follow(kChat, 1, 0.6F);
    Follow(kTool, 1, 0);
  }
  EXPECT_TRUE(prefixes_.Contains(kTool));
  EXPECT_FALSE(prefixes_.Contains(kChat));
}

// A block that is pinned from the start is not counted as new. If such blocks are used again, more
// reuses than new blocks are counted.
TEST_F(OneOffPrefixesTest, NoMoreRunsAreUsedAgainThanThereWere) {
  Follow(kChat, 200, 0.5F);
  constexpr uint32_t kPinned = 55;
  Follow(kPinned, 1, 1);
  for (int i = 0; i < 10'000; ++i) prefixes_.CountReuse(kPinned, 1, kAge);
  Follow(kPinned, 10, 1);
  EXPECT_FALSE(prefixes_.Contains(kChat));
}

// Runs prompts through a small cache. A random quarter of the prompts is repeated after about 160
// other prompts. Repeated prompts begin with one instruction, and all other prompts begin with the
// instruction `tool`. The cache can hold the repeated prompts, but not all prompts between two
// uses. Returns the share of the repeated prompt tokens that lookups find. `held`: true if another
// sequence always uses the instructions, as on a busy server. `more`: number of tokens of an
// instruction after its last full block, which are copied.
double ShareFound(TokenId tool, bool held = false, int32_t more = 0) {
  constexpr int32_t kBlock = 16, kPrompt = 4 * kBlock;
  const int32_t num_instructions = 2 * kBlock + more;
  KvCacheManager cache({.num_blocks = 400, .block_size = kBlock, .policy_block_size = 512});
  constexpr TokenId kChatInstruction = 1;
  TokenId next = 1'000'000;
  std::deque<TokenId> due;
  std::minstd_rand random(1);
  const auto run = [&](TokenId instruction, TokenId prompt) {
    CachedSequence sequence(
        cache, Concat(TokenRange(instruction, num_instructions), TokenRange(prompt, kPrompt + 1)));
    const int32_t num_found = sequence.AdmitAndCommit();
    sequence.Free();
    return num_found - num_instructions;
  };
  std::deque<CachedSequence> holders;
  for (const TokenId instruction : {kChatInstruction, tool}) {
    if (!held) continue;
    holders.emplace_back(cache, TokenRange(instruction, num_instructions + 1)).AdmitAndCommit();
  }
  int64_t num_found = 0, num_asked = 0;
  for (int i = 0; i < 8000; ++i, next += 2 * kPrompt) {
    const bool comes_back = random() % 4 == 0;
    if (comes_back) due.push_back(next);
    const bool is_due = due.size() > 40;
    if (is_due) {
      num_found += run(kChatInstruction, due.front());
      num_asked += kPrompt;
      due.pop_front();
    }
    run(comes_back ? kChatInstruction : tool, next);
    if (i == 4000) num_found = num_asked = 0;  // counts hits only after the policy has learned
  }
  return static_cast<double>(num_found) / static_cast<double>(num_asked);
}

TEST(AdaptivePolicy, WhatFollowsAnInstructionThatIsNeverAskedAgainMakesRoom) {
  EXPECT_GT(ShareFound(500'000), 0.95);
}

TEST(AdaptivePolicy, SoItDoesBehindAnInstructionThatEndsWithinABlock) {
  EXPECT_GT(ShareFound(500'000, false, 6), 0.9);
}

TEST(AdaptivePolicy, SoItDoesWhileTheInstructionIsNeverFree) {
  EXPECT_GT(ShareFound(500'000, true), 0.95);
}

// All prompts begin with the same instruction, so the policy cannot predict which prompts will be
// repeated.
TEST(AdaptivePolicy, BehindOneInstructionAllPromptsAreAlike) { EXPECT_LT(ShareFound(1), 0.75); }

}  // namespace
}  // namespace incipit
