#include "transformer/rope.h"

#include <cmath>

#include "gtest/gtest.h"

namespace incipit {
namespace {

// tests/golden/hf_test.cpp compares the frequencies of each scaling method with those of
// transformers.

TEST(RopeTest, TheTableHoldsCosinesThenSinesOfEveryPosition) {
  RopeConfig rope;
  rope.theta = 100;
  const std::vector<float> table = RopeTable(rope, 4, 3);  // the frequencies are 1 and 1/10
  ASSERT_EQ(table.size(), 12U);
  for (int position = 0; position < 3; ++position) {
    const float* row = table.data() + 4 * position;
    EXPECT_FLOAT_EQ(row[0], std::cos(1.0F * position));
    EXPECT_FLOAT_EQ(row[1], std::cos(0.1F * position));
    EXPECT_FLOAT_EQ(row[2], std::sin(1.0F * position));
    EXPECT_FLOAT_EQ(row[3], std::sin(0.1F * position));
  }
}

TEST(RopeTest, YarnScalesCosinesAndSines) {
  RopeConfig rope;
  rope.type = RopeType::kYarn;
  rope.factor = 4;
  rope.original_max_positions = 64;
  EXPECT_FLOAT_EQ(RopeAttentionFactor(rope), 0.1F * std::log(4.0F) + 1);
  EXPECT_FLOAT_EQ(RopeTable(rope, 8, 1).front(), RopeAttentionFactor(rope));
  rope.factor = 0.5;
  EXPECT_FLOAT_EQ(RopeAttentionFactor(rope), 1);
  rope.attention_factor = 1.25;
  EXPECT_FLOAT_EQ(RopeAttentionFactor(rope), 1.25);
}

TEST(RopeTest, YarnSurvivesRangesThatAreEmptyOrReversed) {
  for (const double fast : {1e-3, 1.0, 32.0, 1e6}) {
    for (const double slow : {1e-3, 1.0, 1e6}) {
      RopeConfig rope;
      rope.type = RopeType::kYarn;
      rope.theta = 1.001;
      rope.factor = 8;
      rope.original_max_positions = 1;
      rope.beta_fast = fast;
      rope.beta_slow = slow;
      for (const float frequency : InverseFrequencies(rope, 64)) {
        EXPECT_TRUE(std::isfinite(frequency)) << fast << " " << slow;
      }
    }
  }
}

}  // namespace
}  // namespace incipit
