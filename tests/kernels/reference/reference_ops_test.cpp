#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/numeric.h"
#include "kernels/reference/ops.h"

namespace incipit::reference {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;

TEST(ReferenceOpsTest, RmsNormDividesByTheRootMeanSquareAndScales) {
  const std::vector<float> x = {3, 4}, weight = {1, 2};
  std::vector<float> out(2);
  RmsNorm(x, weight, 0, out);  // the root mean square of (3, 4) is sqrt(12.5)
  EXPECT_THAT(out, ElementsAre(FloatNear(3 / std::sqrt(12.5f), 1e-6f),
                               FloatNear(8 / std::sqrt(12.5f), 1e-6f)));
}

TEST(ReferenceOpsTest, RmsNormOfZerosIsZeroWithAnEpsilon) {
  const std::vector<float> x = {0, 0}, weight = {1, 1};
  std::vector<float> out(2, 7);
  RmsNorm(x, weight, 1e-5f, out);
  EXPECT_THAT(out, ElementsAre(0, 0));
}

TEST(ReferenceOpsTest, MultiplyTakesOneWeightRowForEachOutput) {
  const std::vector<float> x = {1, 2, 3};
  std::vector<float> weight = {1, 0, 0, 0, 1, 1};
  std::vector<float> y(2);
  Multiply(x, {.data = weight.data(), .dtype = DType::kF32, .rows = 2, .cols = 3}, y);
  EXPECT_THAT(y, ElementsAre(1, 5));
}

TEST(ReferenceOpsTest, MultiplyWidensSixteenBitWeights) {
  const std::vector<float> x = {2};
  const std::array<uint16_t, 2> bf16 = {NarrowBF16(1.5f), NarrowBF16(-3)};
  std::vector<float> y(2);
  Multiply(x, {.data = bf16.data(), .dtype = DType::kBF16, .rows = 2, .cols = 1}, y);
  EXPECT_THAT(y, ElementsAre(3, -6));
  const std::array<uint16_t, 2> f16 = {0x3E00, 0xC200};  // 1.5, -3
  Multiply(x, {.data = f16.data(), .dtype = DType::kF16, .rows = 2, .cols = 1}, y);
  EXPECT_THAT(y, ElementsAre(3, -6));
}

TEST(ReferenceOpsTest, RotatePairsTheHalvesOfAHead) {
  std::vector<float> head = {1, 10, 0, 0};
  // Two cosines, then two sines: 90 degrees, 0 degrees.
  const std::vector<float> rope = {0, 1, 1, 0};
  Rotate(rope, head);
  EXPECT_THAT(head, ElementsAre(0, 10, 1, 0));
}

TEST(ReferenceOpsTest, SiluMultiplyGatesTheSecondInput) {
  const std::vector<float> gate = {0, 1, -100}, up = {5, 2, 3};
  std::vector<float> out(3);
  SiluMultiply(gate, up, out);
  EXPECT_THAT(out, ElementsAre(0, FloatNear(1.4621172f, 1e-6f), FloatNear(0, 1e-30f)));
}

TEST(ReferenceOpsTest, AttendAveragesValuesByTheSoftmaxOfScores) {
  const std::vector<float> query = {1, 0}, keys = {0, 9, std::log(3.0f), 5}, values = {0, 4, 8, 4};
  std::vector<float> out(2);
  Attend({.query = query, .keys = keys, .values = values, .scale = 1}, out);
  EXPECT_THAT(out, ElementsAre(FloatNear(6, 1e-5f), FloatNear(4, 1e-5f)));
}

TEST(NumericTest, NarrowingToBF16RoundsToNearestEven) {
  EXPECT_EQ(NarrowBF16(1.0f), 0x3F80);
  EXPECT_EQ(NarrowBF16(1.00390625f), 0x3F80);  // halfway between 0x3F80 and 0x3F81, rounded to even
  EXPECT_EQ(NarrowBF16(1.01171875f), 0x3F82);  // halfway between 0x3F81 and 0x3F82, rounded to even
  EXPECT_EQ(NarrowBF16(std::numeric_limits<float>::max()), 0x7F80);  // rounds to infinity
  EXPECT_TRUE(std::isnan(WidenBF16(NarrowBF16(std::bit_cast<float>(0x7F800001u)))));
}

TEST(NumericTest, WideningBF16ThenNarrowingChangesNothing) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float wide = WidenBF16(static_cast<uint16_t>(bits));
    if (std::isnan(wide)) continue;
    EXPECT_EQ(NarrowBF16(wide), bits);
  }
}

TEST(NumericTest, WidenF16IsExact) {
  EXPECT_EQ(WidenF16(0x3C00), 1.0f);
  EXPECT_EQ(WidenF16(0x7BFF), 65504.0f);
  EXPECT_EQ(WidenF16(0x0001), 0x1p-24f);  // the smallest subnormal number
  EXPECT_EQ(WidenF16(0x83FF), -0x1.FF8p-15f);
  EXPECT_EQ(WidenF16(0xFC00), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(WidenF16(0x7E00)));
}

}  // namespace
}  // namespace incipit::reference
