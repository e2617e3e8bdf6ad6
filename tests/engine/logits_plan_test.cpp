#include "engine/logits_plan.h"

#include <string>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/step_builder.h"

namespace incipit {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class LogitsPlanTest : public testing::Test {
 protected:
  LogitsPlanTest() {
    plan_.Reserve(2, 16, 16);
    const int32_t block = 0;
    const TokenId tokens[8] = {};
    step_.AddTokens(tokens, 0, {&block, 1});
  }

  void Sample(int32_t row) { step_.AddSample(row, params_, 0, row + 1); }
  void Score(int32_t row) { step_.AddScore({.row = row, .target = 1}); }

  // Returns the ranges of rows, samples and scores of each chunk as text.
  std::string Chunks() const {
    std::string text;
    for (const LogitsPlan::Chunk& chunk : plan_.chunks()) {
      text += fmt::format("[{} {}, {} {}, {} {}]", chunk.row_begin, chunk.row_end,
                          chunk.sample_begin, chunk.sample_end, chunk.score_begin, chunk.score_end);
    }
    return text;
  }

  LogitsPlan plan_;
  StepBuilder step_;
  const SamplingParams params_;
};

TEST_F(LogitsPlanTest, AStepWithoutSamplesNeedsNoLogits) {
  plan_.Build(step_.Build());
  EXPECT_THAT(plan_.rows(), IsEmpty());
  EXPECT_THAT(plan_.chunks(), IsEmpty());
}

TEST_F(LogitsPlanTest, SamplesAndScoresShareARow) {
  for (const int32_t row : {1, 4, 4}) Sample(row);
  for (const int32_t row : {0, 1, 2, 3, 4}) Score(row);
  plan_.Build(step_.Build());
  EXPECT_THAT(plan_.rows(), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(Chunks(), "[0 2, 0 1, 0 2][2 4, 1 1, 2 4][4 5, 1 3, 4 5]");
  EXPECT_THAT(plan_.sample_rows(), ElementsAre(1, 0, 0));
  EXPECT_THAT(plan_.score_rows(), ElementsAre(0, 1, 0, 1, 0));
}

TEST_F(LogitsPlanTest, AChunkIsFullAtItsMostRowsAndNotBefore) {
  for (const int32_t row : {3, 5, 5, 5, 7}) Sample(row);
  plan_.Build(step_.Build());
  EXPECT_THAT(plan_.rows(), ElementsAre(3, 5, 7));
  EXPECT_EQ(Chunks(), "[0 2, 0 4, 0 0][2 3, 4 5, 0 0]");
  EXPECT_THAT(plan_.sample_rows(), ElementsAre(0, 1, 1, 1, 0));
}

TEST_F(LogitsPlanTest, NothingIsLeftOfTheStepBefore) {
  for (const int32_t row : {3, 5, 7}) Sample(row);
  Score(2);
  plan_.Build(step_.Build());
  StepBuilder next;
  const TokenId token = 0;
  const int32_t block = 0;
  next.AddTokens({&token, 1}, 0, {&block, 1});
  next.AddSample(0, params_, 0, 1);
  plan_.Build(next.Build());
  EXPECT_THAT(plan_.rows(), ElementsAre(0));
  EXPECT_EQ(Chunks(), "[0 1, 0 1, 0 0]");
  EXPECT_THAT(plan_.score_rows(), IsEmpty());
}

}  // namespace
}  // namespace incipit
