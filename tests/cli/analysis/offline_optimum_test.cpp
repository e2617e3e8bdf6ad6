#include "cli/analysis/offline_optimum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>

#include "tests/cli/analysis/random_block_log.h"

namespace incipit {
namespace {

// Returns a log of `prompts`, in which each character is one block.
std::unique_ptr<BlockLog> LogOf(const std::vector<std::string>& prompts) {
  auto log = std::make_unique<BlockLog>(1, 1);
  for (const std::string& prompt : prompts) {
    EXPECT_TRUE(log->Add({}, std::as_bytes(std::span(prompt))).ok());
  }
  return log;
}

TEST(OfflineOptimum, WhatIsUsedSoonestIsKept) {
  const auto log = LogOf({"ab", "ac", "ab", "ac"});
  EXPECT_EQ(OfflineOptimumHits(*log, 0), 0);
  EXPECT_EQ(OfflineOptimumHits(*log, 1), 3);  // a
  EXPECT_EQ(OfflineOptimumHits(*log, 2), 4);  // keeps a and b, because b is used before c
  EXPECT_EQ(OfflineOptimumHits(*log, 3), 5);
  EXPECT_EQ(OfflineOptimumHits(*log, 1000), 5);
}

TEST(OfflineOptimum, WhatNeverComesBackTakesNoRoom) {
  EXPECT_EQ(OfflineOptimumHits(*LogOf({"ab", "cdefgh", "ijk", "ab"}), 2), 2);
}

TEST(OfflineOptimum, OfAPromptThatIsLongerThanTheCacheTheBeginningIsKept) {
  EXPECT_EQ(OfflineOptimumHits(*LogOf({"abcdef", "abcdef", "abcdef"}), 4), 8);
}

TEST(OfflineOptimum, PromptsWithoutABlockCountNothing) {
  EXPECT_EQ(OfflineOptimumHits(*LogOf({"", ""}), 3), 0);
  EXPECT_EQ(OfflineOptimumHits(*LogOf({"a", "", "a"}), 3), 1);
}

// Returns the largest number of hits of any cache. Tries all sets of blocks that a cache can hold
// after each request.
int64_t MostHitsOfAnyCache(const BlockLog& log, int capacity) {
  // [cached blocks, as bits]: the largest number of hits so far.
  std::map<uint32_t, int64_t> best = {{0, 0}};
  for (size_t r = 0; r < log.num_requests(); ++r) {
    std::map<uint32_t, int64_t> next;
    uint32_t used = 0;
    for (const BlockNode node : log.chain(r)) used |= 1u << node;
    for (const auto& [held, num_hits] : best) {
      int64_t num_found = 0;
      for (const BlockNode node : log.chain(r)) {
        if ((held >> node & 1) == 0) break;
        ++num_found;
      }
      const uint32_t all = held | used;
      for (uint32_t kept = all;; kept = (kept - 1) & all) {
        if (std::popcount(kept) <= capacity) {
          int64_t& value = next[kept];
          value = std::max(value, num_hits + num_found);
        }
        if (kept == 0) break;
      }
    }
    best = std::move(next);
  }
  int64_t most = 0;
  for (const auto& [held, num_hits] : best) most = std::max(most, num_hits);
  return most;
}

TEST(OfflineOptimum, NoCacheHitsMoreAndOneHitsAsMuch) {
  int num_compared = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const RandomBlockLog made = MakeRandomBlockLog(seed);
    if (made.log->num_nodes() > 7) continue;
    for (int capacity = 1; capacity <= 5; ++capacity) {
      EXPECT_EQ(OfflineOptimumHits(*made.log, capacity), MostHitsOfAnyCache(*made.log, capacity))
          << "seed " << seed << ", capacity " << capacity;
      ++num_compared;
    }
  }
  EXPECT_GT(num_compared, 100);
}

// The log has more than a few thousand block uses. OfflineOptimum stores the set of uses in a
// bitmap, which then has several levels.
TEST(OfflineOptimum, ALongLogHasTheHitsOfItsParts) {
  std::vector<std::string> prompts;
  for (int i = 0; i < 30'000; ++i) prompts.push_back(i % 3 == 2 ? "abc" : std::string(1, 'd'));
  // The prompts d, d and abc repeat. With four blocks, all uses except the first are hits. With two
  // blocks, the cache keeps a and d.
  EXPECT_EQ(OfflineOptimumHits(*LogOf(prompts), 4), 19'999 + 3 * 9'999);
  EXPECT_EQ(OfflineOptimumHits(*LogOf(prompts), 2), 19'999 + 9'999);
}

}  // namespace
}  // namespace incipit
