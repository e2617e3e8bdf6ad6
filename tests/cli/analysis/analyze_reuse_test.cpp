#include "cli/analysis/analyze_reuse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <set>

#include "tests/cli/analysis/random_block_log.h"

namespace incipit {
namespace {

using ::testing::ElementsAre;

// A naive prefix cache, with which the measured hits are compared. When a sequence ends, its blocks
// join a queue, the last block first. A new block evicts the block that has waited in the queue for
// the longest time. The key of a block is the prefix that ends with the block.
class QueueCache {
 public:
  QueueCache(size_t capacity, size_t group) : capacity_(capacity), group_(group) {}

  // Returns the number of blocks found.
  size_t Run(const std::string& prompt) {
    const size_t num_blocks = prompt.size() / group_;
    size_t num_hits = 0;
    while (num_hits < num_blocks && Contains(Block(prompt, num_hits))) ++num_hits;
    const size_t num_kept = std::min(num_blocks, capacity_);
    std::vector<std::string> table;
    for (size_t i = 0; i < num_kept; ++i) {
      table.push_back(Block(prompt, i));
      std::erase(queue_, table.back());
    }
    while (queue_.size() + num_kept > capacity_) queue_.pop_front();
    queue_.insert(queue_.end(), table.rbegin(), table.rend());
    return num_hits;
  }

 private:
  std::string Block(const std::string& prompt, size_t index) const {
    return prompt.substr(0, (index + 1) * group_);
  }
  bool Contains(const std::string& block) const {
    return std::ranges::find(queue_, block) != queue_.end();
  }

  const size_t capacity_, group_;
  std::deque<std::string> queue_;
};

std::set<std::string> DistinctBlocks(std::span<const std::string> prompts, size_t group) {
  std::set<std::string> blocks;
  for (const std::string& prompt : prompts) {
    for (size_t end = group; end <= prompt.size(); end += group)
      blocks.insert(prompt.substr(0, end));
  }
  return blocks;
}

TEST(ReuseTest, EveryCapacityHitsAsOftenAsACacheOfThatSize) {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    const RandomBlockLog made = MakeRandomBlockLog(seed, 4);
    for (const size_t group : {1, 2, 3}) {
      const BlockView view(*made.log, static_cast<int32_t>(group));
      const ReuseCurve curve = MeasureReuse(view, {}).curve;
      const auto distinct = DistinctBlocks(made.prompts, group);
      ASSERT_EQ(curve.num_distinct(), distinct.size());
      size_t num_blocks = 0;
      for (const std::string& prompt : made.prompts) num_blocks += prompt.size() / group;
      ASSERT_EQ(curve.all().blocks, num_blocks);
      ASSERT_EQ(curve.attainable().blocks, num_blocks - distinct.size());
      for (size_t capacity = 0; capacity <= distinct.size() + 1; ++capacity) {
        QueueCache cache(capacity, group);
        size_t num_hits = 0;
        for (const std::string& prompt : made.prompts) num_hits += cache.Run(prompt);
        ASSERT_EQ(curve.HitsWith(static_cast<int64_t>(capacity)).blocks, num_hits) << capacity;
        ASSERT_EQ(curve.HitsWith(static_cast<int64_t>(capacity)).tokens, num_hits * group * 4);
      }
    }
  }
}

TEST(ReuseTest, TheSizeNeededForAShareIsTheFirstThatHasIt) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    const RandomBlockLog made = MakeRandomBlockLog(seed);
    const ReuseCurve curve = MeasureReuse(BlockView(*made.log, 1), {}).curve;
    for (int32_t percent = 1; percent <= 100; ++percent) {
      const auto is_enough = [&](int64_t num_blocks) {
        return 100 * curve.HitsWith(num_blocks).blocks >= percent * curve.attainable().blocks;
      };
      const int64_t found = curve.BlocksFor(percent);
      ASSERT_TRUE(is_enough(found));
      ASSERT_TRUE(found == 0 || !is_enough(found - 1)) << seed << " " << percent;
    }
  }
}

// Returns the number of distinct blocks in all prompts whose time is in (now - window, now]. If
// `is_timed` is false, the time of a prompt is its number (1, 2, ...).
size_t NumInWindow(const RandomBlockLog& made, size_t group, bool is_timed, double now,
                   double window) {
  std::vector<std::string> inside;
  for (size_t i = 0; i < made.prompts.size(); ++i) {
    const double time = is_timed ? made.times[i] : static_cast<double>(i + 1);
    if (time <= now && time > now - window) inside.push_back(made.prompts[i]);
  }
  return DistinctBlocks(inside, group).size();
}

void CheckWorkingSet(const RandomBlockLog& made, size_t group, bool is_timed) {
  const WorkingSetOptions options = {is_timed, {1, 3, 10, 1000}, 7};
  const WorkingSet set =
      MeasureReuse(BlockView(*made.log, static_cast<int32_t>(group)), options).working_set;
  ASSERT_FALSE(set.samples.empty());
  ASSERT_LE(set.samples.size(), 7);
  double before = -1;
  for (const WorkingSet::Sample& sample : set.samples) {
    ASSERT_GT(sample.at, before);
    before = sample.at;
    for (size_t w = 0; w < options.windows.size(); ++w) {
      ASSERT_EQ(sample.blocks[w],
                NumInWindow(made, group, is_timed, sample.at, options.windows[w]));
    }
    ASSERT_EQ(sample.num_distinct, NumInWindow(made, group, is_timed, sample.at, 1e9));
  }
  ASSERT_EQ(set.samples.back().num_requests, made.prompts.size());
  for (size_t w = 0; w < options.windows.size(); ++w) {
    size_t peak = 0;
    for (size_t i = 0; i < made.prompts.size(); ++i) {
      const double now = is_timed ? made.times[i] : static_cast<double>(i + 1);
      peak = std::max(peak, NumInWindow(made, group, is_timed, now, options.windows[w]));
    }
    ASSERT_EQ(set.peaks[w].blocks, peak);
    ASSERT_EQ(NumInWindow(made, group, is_timed, set.peaks[w].at, options.windows[w]), peak);
  }
}

TEST(ReuseTest, WorkingSetsAreTheDistinctBlocksOfTheirWindows) {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    const RandomBlockLog made = MakeRandomBlockLog(seed);
    for (const size_t group : {1, 2}) {
      for (const bool is_timed : {false, true}) CheckWorkingSet(made, group, is_timed);
    }
  }
}

TEST(ReuseTest, ALogWithoutABlockHasNothingToHit) {
  BlockLog log(1, 16);
  ASSERT_TRUE(log.Add({0, 5, 1}, {}).ok());
  const Reuse reuse = MeasureReuse(BlockView(log, 1), DefaultWindows(log));
  EXPECT_EQ(reuse.curve.num_distinct(), 0);
  EXPECT_EQ(reuse.curve.BlocksFor(50), 0);
  EXPECT_EQ(reuse.curve.BlockHitRatio(reuse.curve.attainable()), 0);
  EXPECT_EQ(reuse.curve.all().tokens, 5);
}

TEST(ReuseTest, WindowsAreRoundPartsOfTheLog) {
  BlockLog log(1, 1);
  for (int i = 0; i <= 3600; ++i) ASSERT_TRUE(log.Add({i * 1.0, 0, i + 1}, {}).ok());
  EXPECT_TRUE(DefaultWindows(log).is_timed);
  EXPECT_THAT(DefaultWindows(log).windows, ElementsAre(60, 300, 900));
  BlockLog untimed(1, 1);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(untimed.Add({0, 0, i + 1}, {}).ok());
  EXPECT_FALSE(DefaultWindows(untimed).is_timed);
  EXPECT_THAT(DefaultWindows(untimed).windows, ElementsAre(20, 50, 200));
}

}  // namespace
}  // namespace incipit
