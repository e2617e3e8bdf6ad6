#include "cli/analysis/analyze_sharing.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "tests/cli/analysis/random_block_log.h"

namespace incipit {
namespace {

// Returns the number of leading blocks that prompt `index` shares with any earlier prompt.
int64_t NumShared(std::span<const std::string> prompts, size_t index, size_t group) {
  size_t longest = 0;
  for (size_t i = 0; i < index; ++i) {
    size_t equal = 0;
    while (equal < std::min(prompts[i].size(), prompts[index].size()) &&
           prompts[i][equal] == prompts[index][equal]) {
      ++equal;
    }
    longest = std::max(longest, equal / group);
  }
  return static_cast<int64_t>(longest);
}

TEST(SharingTest, EachPromptSharesItsLongestCommonPrefixWithAnEarlierOne) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const RandomBlockLog made = MakeRandomBlockLog(seed, 4);
    for (const size_t group : {1, 2, 3}) {
      const auto prompts = WholeBlocks(made, group);
      const Sharing sharing =
          MeasureSharing(BlockView(*made.log, static_cast<int32_t>(group)), 1000);
      std::vector<int64_t> shared;
      for (size_t i = 0; i < prompts.size(); ++i) shared.push_back(NumShared(prompts, i, group));
      for (const Sharing::Bin& bin : sharing.bins) {
        ASSERT_EQ(bin.num_requests, std::ranges::count_if(shared, [&](int64_t blocks) {
                    return blocks >= bin.blocks_from && blocks <= bin.blocks_to;
                  }));
      }
      ASSERT_GE(sharing.bins.back().blocks_to, *std::ranges::max_element(shared));
      ASSERT_EQ(sharing.num_sharing,
                std::ranges::count_if(shared, [](int64_t blocks) { return blocks > 0; }));
      std::ranges::sort(shared);
      const auto tokens = static_cast<int64_t>(group) * 4;
      ASSERT_EQ(sharing.shared_tokens.max, shared.back() * tokens);
      ASSERT_EQ(sharing.shared_tokens.p50, shared[(shared.size() + 1) / 2 - 1] * tokens);
    }
  }
}

TEST(SharingTest, StretchesAreWhatTheSameRequestsRunThrough) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const RandomBlockLog made = MakeRandomBlockLog(seed);
    for (const size_t group : {1, 2}) {
      std::map<std::string, int64_t> uses;
      for (const std::string& prompt : made.prompts) {
        for (size_t end = group; end <= prompt.size(); end += group) ++uses[prompt.substr(0, end)];
      }
      const Sharing sharing =
          MeasureSharing(BlockView(*made.log, static_cast<int32_t>(group)), 1000);
      ASSERT_EQ(sharing.num_distinct, uses.size());
      ASSERT_EQ(sharing.num_used_once,
                std::ranges::count_if(uses, [](const auto& use) { return use.second == 1; }));
      ASSERT_EQ(sharing.num_prefixes, sharing.top.size());
      int64_t num_saved = 0;
      for (const SharedPrefix& prefix : sharing.top) {
        const size_t line = static_cast<size_t>(prefix.first_line) - 1;
        const size_t length = static_cast<size_t>(prefix.num_blocks) * group;
        const size_t begin = length - static_cast<size_t>(prefix.num_own_blocks) * group;
        const std::string text = made.prompts[line].substr(0, length);
        ASSERT_EQ(text.size(), length);
        for (size_t i = 0; i < line; ++i) ASSERT_FALSE(made.prompts[i].starts_with(text));
        for (size_t end = begin + group; end <= length; end += group) {
          ASSERT_EQ(uses[text.substr(0, end)], prefix.num_requests);
        }
        if (begin > 0) {
          ASSERT_GT(uses[text.substr(0, begin)], prefix.num_requests);
        }
        num_saved += prefix.num_saved;
      }
      const int64_t num_uses =
          std::accumulate(uses.begin(), uses.end(), int64_t{0},
                          [](int64_t sum, const auto& use) { return sum + use.second; });
      ASSERT_EQ(num_saved, num_uses - static_cast<int64_t>(uses.size()));
      ASSERT_TRUE(std::ranges::is_sorted(sharing.top, std::greater(), &SharedPrefix::num_saved));
    }
  }
}

TEST(SharingTest, AStretchKnowsItsFirstBlocks) {
  BlockLog log(1, 1);
  for (const std::string prompt : {"abcdefgh", "abcdefgh", "abxy"}) {
    ASSERT_TRUE(log.Add({0, 8, 1}, std::as_bytes(std::span(prompt))).ok());
  }
  const BlockView view(log, 2);
  const Sharing sharing = MeasureSharing(view, 1);
  ASSERT_EQ(sharing.top.size(), 1);
  EXPECT_EQ(sharing.num_prefixes, 2);
  const auto text = [&](int64_t num_blocks_max) {
    std::string found;
    for (const BlockNode node : FirstBlocks(view, sharing.top[0], num_blocks_max)) {
      found.push_back(static_cast<char>(log.content(node)[0]));
    }
    return found;
  };
  EXPECT_EQ(text(2), "cdef");
  EXPECT_EQ(text(100), "cdefgh");
}

}  // namespace
}  // namespace incipit
