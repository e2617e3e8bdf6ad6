#include "kernels/cuda/host/attention_plan.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace incipit::cuda {
namespace {

struct Sequence {
  int begin = 0, end = 0;  // positions [begin, end) of the tokens in the step
};

struct Arrays {
  explicit Arrays(const std::vector<Sequence>& sequences, int page_size = 16) {
    for (const Sequence& sequence : sequences) {
      for (int p = sequence.begin; p < sequence.end; ++p) positions.push_back(p);
      token_begin.push_back(static_cast<int32_t>(positions.size()));
      for (int p = 0; p < sequence.end; p += page_size) {
        blocks.push_back(BlockId{static_cast<int32_t>(1000 + blocks.size() * 7 % 1000)});
      }
      block_begin.push_back(static_cast<int32_t>(blocks.size()));
    }
  }
  Step step() const {
    return {.positions = positions,
            .token_begin = token_begin,
            .block_begin = block_begin,
            .blocks = blocks};
  }
  std::vector<int32_t> positions, token_begin = {0}, block_begin = {0};
  std::vector<BlockId> blocks;
};

struct Built {
  Built(const Arrays& step, AttentionPlanOptions options) {
    options.max_tokens = static_cast<int32_t>(step.positions.size());
    options.max_sequences = static_cast<int32_t>(step.token_begin.size()) - 1;
    options.max_pages = static_cast<int32_t>(step.blocks.size());
    AttentionPlan plan(options);
    memory.resize((plan.max_bytes() + 15) / 16);
    bytes = plan.Build(step.step(), std::as_writable_bytes(std::span(memory)));
    EXPECT_LE(bytes, plan.max_bytes());
  }
  template <class T>
  const T* At(int32_t offset) const {
    return reinterpret_cast<const T*>(reinterpret_cast<const char*>(memory.data()) + offset);
  }
  const StepHeader& header() const { return *At<StepHeader>(0); }
  std::span<const DecodeItem> items(int list = 0) const {
    const AttentionList& at = header().lists[list];
    return {At<DecodeItem>(at.decode_items), static_cast<size_t>(at.num_decode_items)};
  }
  std::span<const PrefillTile> tiles(int list = 0) const {
    const AttentionList& at = header().lists[list];
    return {At<PrefillTile>(at.prefill_tiles), static_cast<size_t>(at.num_prefill_tiles)};
  }
  std::vector<__int128> memory;
  size_t bytes = 0;
};

using Row = std::pair<int, int>;  // token, and head within its group
using Cuts = std::vector<std::pair<int, int>>;

// Returns, for each row (token and head), the ranges of positions for which the plan computes a
// partial result.
std::map<Row, Cuts> CutsOf(const Built& built, int group, int window, int list = 0) {
  std::map<Row, Cuts> cuts;
  const auto add = [&](int token, int position, int row, int begin, int end) {
    position += row / group;
    begin = std::max(begin, position + 1 - Span(position, window));
    end = std::min(end, position + 1);
    if (begin < end) cuts[{token + row / group, row % group}].push_back({begin, end});
  };
  for (const DecodeItem& item : built.items(list)) {
    for (int row = item.first_row; row < item.first_row + item.num_rows; ++row) {
      add(item.token, item.position, row, item.begin, item.end);
    }
  }
  for (const PrefillTile& tile : built.tiles(list)) {
    EXPECT_EQ(tile.split_length & (tile.split_length - 1), 0);
    for (int row = tile.first_row; row < tile.first_row + tile.num_rows; ++row) {
      for (int cut = tile.begin / tile.split_length * tile.split_length; cut < tile.end;
           cut += tile.split_length) {
        add(tile.token, tile.position, row, std::max(cut, tile.begin),
            std::min(cut + tile.split_length, tile.end));
      }
    }
  }
  for (auto& [row, list_of_cuts] : cuts) std::sort(list_of_cuts.begin(), list_of_cuts.end());
  return cuts;
}

void ExpectCovered(const Arrays& step, const Built& built, int group, int window, int list = 0) {
  const std::map<Row, Cuts> cuts = CutsOf(built, group, window, list);
  EXPECT_EQ(cuts.size(), step.positions.size() * group);
  for (const auto& [row, of_row] : cuts) {
    const int position = step.positions[row.first], span = Span(position, window);
    int next = position + 1 - span;
    for (const auto& [begin, end] : of_row) {
      ASSERT_EQ(begin, next);
      ASSERT_TRUE(end == position + 1 || end % SplitLength(span) == 0);
      next = end;
    }
    ASSERT_EQ(next, position + 1);
    ASSERT_LE(of_row.size(), static_cast<size_t>(kMaxSplits));
  }
}

TEST(AttentionPlan, CoversWhatEveryRowSeesOnceInCutsOfItsOwn) {
  std::mt19937 random(3);
  for (const int window : {0, 1, 100, 4096}) {
    for (const int group : {1, 4, 7, 20}) {
      std::vector<Sequence> sequences = {{2040, 2056}, {16380, 16386}, {511, 700}, {0, 1}};
      for (int i = 0; i < 10; ++i) {
        const int begin = static_cast<int>(random() % 50000);
        sequences.push_back({begin, begin + 1 + static_cast<int>(random() % 40)});
      }
      const Arrays step(sequences);
      ExpectCovered(step, Built(step, {.group = group, .windows = {window}}), group, window);
    }
  }
}

TEST(AttentionPlan, CutsARowAlikeWhateverElseIsInTheStep) {
  const Arrays alone({{3000, 3001}});
  const Arrays among({{0, 700}, {3000, 3001}, {100000, 100016}});
  const Arrays chunk({{2900, 3100}});
  const Cuts cuts = CutsOf(Built(alone, {.group = 2}), 2, 0).at({0, 1});
  EXPECT_EQ(CutsOf(Built(among, {.group = 2}), 2, 0).at({700, 1}), cuts);
  EXPECT_EQ(CutsOf(Built(chunk, {.group = 2}), 2, 0).at({100, 1}), cuts);
}

TEST(AttentionPlan, KeepsAListForEachWindow) {
  const Arrays step({{5000, 5003}, {0, 40}});
  const Built built(step, {.group = 4, .windows = {0, 512}});
  ExpectCovered(step, built, 4, 0, 0);
  ExpectCovered(step, built, 4, 512, 1);
  EXPECT_LT(built.items(1).size(), built.items(0).size());
}

TEST(AttentionPlan, SendsWhatDoesNotFitToPrefillTiles) {
  const Arrays step({{9000, 9001}, {9000, 9001}, {9000, 9001}});
  const Built few_items(step, {.group = 4, .max_decode_items = 40});
  EXPECT_EQ(few_items.items().size(), 36U);  // two sequences with 18 splits each
  EXPECT_EQ(few_items.tiles().size(), 1U);
  ExpectCovered(step, few_items, 4, 0);
  const Built few_rows(step, {.group = 4, .max_partial_rows = 18 * 4});
  EXPECT_EQ(few_rows.items().size(), 18U);
  EXPECT_EQ(few_rows.tiles().size(), 2U);
  ExpectCovered(step, few_rows, 4, 0);
}

TEST(AttentionPlan, GivesEverySplitASlotOfItsOwn) {
  const Arrays step({{1000, 1003}, {5000, 5001}, {100, 101}});
  const Built built(step, {.group = 7});
  std::set<int> rows;
  std::map<int, int> arrivals, expected;
  for (const DecodeItem& item : built.items()) {
    ++arrivals[item.tile];
    expected[item.tile] = item.num_splits;
    if (item.num_splits == 1) continue;
    for (int row = 0; row < item.num_rows; ++row) {
      EXPECT_TRUE(rows.insert(item.partial + item.split * item.num_rows + row).second);
    }
  }
  EXPECT_EQ(arrivals, expected);
}

TEST(AttentionPlan, PutsTheLongestFirst) {
  const Arrays step({{300, 301}, {100, 101}, {5000, 5001}, {0, 100}, {2000, 2300}});
  const Built built(step, {});
  const auto is_longer = [](const auto& a, const auto& b) {
    return (a.end - a.begin + 63) / 64 > (b.end - b.begin + 63) / 64;
  };
  EXPECT_TRUE(std::is_sorted(built.items().begin(), built.items().end(), is_longer));
  EXPECT_TRUE(std::is_sorted(built.tiles().begin(), built.tiles().end(), is_longer));
}

TEST(AttentionPlan, SaysWhereEachTokenGoes) {
  const Arrays step({{15, 18}, {64, 65}}, 32);
  const Built built(step, {.page_size = 32});
  ASSERT_EQ(built.header().num_tokens, 4);
  const StepRow* rows = built.At<StepRow>(built.header().rows);
  const int32_t* pages = built.At<int32_t>(built.header().page_tables);
  EXPECT_EQ(rows[1].position, 16);
  EXPECT_EQ(rows[1].slot, static_cast<int>(step.blocks[0]) * 32 + 16);
  EXPECT_EQ(rows[1].length, 18);
  EXPECT_EQ(rows[3].slot, static_cast<int>(step.blocks[3]) * 32);
  EXPECT_EQ(rows[3].table, 1);
  EXPECT_EQ(pages[3], static_cast<int>(step.blocks[3]));
}

TEST(SplitLength, IsAPowerOfTwoThatGrowsSoThatThereAreFewCuts) {
  int last = 256;
  for (int span = 1; span < 1 << 20; span += 63) {
    const int length = SplitLength(span);
    ASSERT_EQ(length & (length - 1), 0);
    ASSERT_GE(length, last);
    ASSERT_LE(span, 32 * length);
    last = length;
  }
}

}  // namespace
}  // namespace incipit::cuda
