// Tests the SIMD kernels of every instruction set that this machine supports.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "kernels/cpu/cpu_isa.h"
#include "kernels/cpu/simd/select.h"
#include "kernels/numeric.h"
#include "kernels/quantize.h"
#include "kernels/sampling.h"

namespace incipit {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class SimdTest : public ::testing::TestWithParam<const simd::Kernels*> {};

// How many floats lie between two.
int64_t UnitsBetween(float a, float b) {
  return std::abs(int64_t{std::bit_cast<int32_t>(a)} - std::bit_cast<int32_t>(b));
}

TEST_P(SimdTest, ExpIsWithinTwoUnitsInTheLastPlace) {
  std::vector<float> x, y;
  for (float value = -87.3f; value <= 88; value += 0.00037f) x.push_back(value);
  y.resize(x.size());
  GetParam()->exp(x.data(), std::ssize(x), y.data());
  int64_t worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    worst = std::max(worst, UnitsBetween(y[i], static_cast<float>(std::exp(double{x[i]}))));
  }
  EXPECT_LE(worst, 2);
}

TEST_P(SimdTest, ExpIsExactAtZeroSaturatesAndKeepsNaN) {
  const std::vector<float> x = {0, -0.0f, 1000, -1000, -kInfinity, std::nanf("")};
  std::vector<float> y(x.size());
  GetParam()->exp(x.data(), std::ssize(x), y.data());
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[1], 1);
  EXPECT_GT(y[2], 1e38f);
  EXPECT_LT(y[2], kInfinity);
  EXPECT_LT(y[3], 1.3e-38f);
  EXPECT_LT(y[4], 1.3e-38f);
  EXPECT_TRUE(std::isnan(y[5]));
}

TEST_P(SimdTest, Exp2IsWithinOneUnitInTheLastPlace) {
  std::vector<float> x, y;
  for (float value = -126; value <= 0; value += 0.00037f) x.push_back(value);
  y.resize(x.size());
  GetParam()->exp2(x.data(), std::ssize(x), y.data());
  int64_t worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    worst = std::max(worst, UnitsBetween(y[i], static_cast<float>(std::exp2(double{x[i]}))));
  }
  EXPECT_LE(worst, 1);
}

TEST_P(SimdTest, Exp2IsExactAtWholeNumbersSaturatesAndKeepsNaN) {
  const std::vector<float> x = {0, -0.0f, -1, -20, -126, -1000, -kInfinity, std::nanf("")};
  std::vector<float> y(x.size());
  GetParam()->exp2(x.data(), std::ssize(x), y.data());
  const std::vector<float> expected = {1, 1, 0.5f, 0x1p-20f, 0x1p-126f, 0x1p-126f, 0x1p-126f};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(y[i], expected[i]) << x[i];
  EXPECT_TRUE(std::isnan(y.back()));
}

TEST_P(SimdTest, AnElementIsTheSameWhereverInAVectorItFalls) {
  std::vector<float> x(40);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) * 0.71f - 13;
  std::vector<float> whole(x.size());
  GetParam()->exp(x.data(), std::ssize(x), whole.data());
  for (size_t begin = 0; begin < x.size(); ++begin) {
    std::vector<float> part(x.size() - begin);
    GetParam()->exp(x.data() + begin, std::ssize(part), part.data());
    for (size_t i = 0; i < part.size(); ++i) EXPECT_EQ(part[i], whole[begin + i]);
  }
}

TEST_P(SimdTest, WeighGivesTheDefinedBits) {
  for (const int64_t size : {1, 7, 16, 100, 5000}) {
    std::vector<float> logits(static_cast<size_t>(size)), weights(logits.size());
    float max = -kInfinity;
    for (int64_t i = 0; i < size; ++i) {
      const uint64_t bits = RandomBits(3, 0, static_cast<uint64_t>(i));
      logits[i] = static_cast<float>(bits >> 40) * 0x1p-24f * 80 - 60;
      if (bits % 11 == 0) logits[i] = -kInfinity;
      max = std::max(max, logits[i]);
    }
    for (const float inverse : {1.0f, 1.4285715f, 0.01f}) {
      const uint64_t total = GetParam()->weigh(logits.data(), size, max, inverse, weights.data());
      uint64_t expected = 0;
      for (int64_t i = 0; i < size; ++i) {
        const float weight = WeightOf(logits[i], max, inverse);
        expected += MassOf(weight);
        ASSERT_EQ(std::bit_cast<uint32_t>(weights[i]), std::bit_cast<uint32_t>(weight)) << i;
      }
      EXPECT_EQ(total, expected);
      EXPECT_EQ(GetParam()->weigh(logits.data(), size, max, inverse, nullptr), expected);
    }
  }
}

TEST_P(SimdTest, ChunkMaximaFindTheLargestAndWhatIsNotFinite) {
  for (const int64_t size : {1, 5, 63, 64, 65, 200}) {
    std::vector<float> logits(static_cast<size_t>(size), -3.0f);
    std::vector<float> maxima(static_cast<size_t>((size + simd::kChunk - 1) / simd::kChunk));
    for (int64_t position = 0; position < size; ++position) {
      const auto maxima_with = [&](float value) {
        logits[position] = value;
        const bool finite = GetParam()->chunk_maxima(logits.data(), size, maxima.data());
        logits[position] = -3;
        return finite;
      };
      EXPECT_TRUE(maxima_with(-1));
      for (int64_t chunk = 0; chunk < std::ssize(maxima); ++chunk) {
        EXPECT_EQ(maxima[chunk], chunk == position / simd::kChunk ? -1 : -3);
      }
      EXPECT_TRUE(maxima_with(-kInfinity));
      EXPECT_FALSE(maxima_with(kInfinity));
      EXPECT_FALSE(maxima_with(std::nanf("")));
    }
  }
}

// Returns numbers of all magnitudes, numbers halfway between two bf16 numbers, infinities, NaNs and
// subnormal numbers.
std::vector<float> NumbersOfAllKinds(size_t size) {
  std::vector<float> x(size);
  for (size_t i = 0; i < size; ++i) {
    auto bits = static_cast<uint32_t>(RandomBits(7, 0, i));
    if (i % 5 == 1) bits = (bits & 0xFFFF0000) | 0x8000;
    if (i % 7 == 3) bits |= 0x7F800000;
    if (i % 11 == 5) bits &= 0x807FFFFF;
    if (i % 13 == 7) bits = (bits & 0x80000000) | 0x7F800000;
    x[i] = std::bit_cast<float>(bits);
  }
  return x;
}

TEST_P(SimdTest, NarrowRowRoundsAsItsDefinition) {
  const std::vector<float> all = NumbersOfAllKinds(5000);
  for (size_t size = 0; size <= all.size(); size = size < 70 ? size + 1 : size * 8 + 3) {
    std::vector<uint16_t> out(size + 1, 0xABCD);
    GetParam()->narrow_row(all.data(), static_cast<int64_t>(size), out.data());
    for (size_t i = 0; i < size; ++i) {
      ASSERT_EQ(out[i], NarrowBF16(all[i])) << std::bit_cast<uint32_t>(all[i]) << " at " << i;
    }
    EXPECT_EQ(out[size], 0xABCD);
  }
}

TEST_P(SimdTest, QuantizeRowRoundsAsItsDefinition) {
  for (size_t size = 0; size < 70; ++size) {
    std::vector<float> x(size);
    for (size_t i = 0; i < size; ++i) {
      x[i] = static_cast<float>(static_cast<int64_t>(RandomBits(9, size, i) % 2001) - 1000) / 64;
    }
    std::vector<int8_t> expected(size), numbers(size + 1, 99);
    const float scale = QuantizeRow(x, expected);
    EXPECT_EQ(GetParam()->quantize_row(x.data(), static_cast<int64_t>(size), numbers.data()),
              scale);
    EXPECT_EQ(numbers[size], 99);
    numbers.pop_back();
    EXPECT_EQ(numbers, expected);
  }
}

TEST_P(SimdTest, RowsThatCannotBeQuantizedGiveZeros) {
  for (const float value : {std::nanf(""), kInfinity, -kInfinity, 1e-31f, 0.0f}) {
    std::vector<float> x(37, 1e-31f);
    x[20] = value;
    std::vector<int8_t> numbers(x.size(), 99);
    const float scale = GetParam()->quantize_row(x.data(), std::ssize(x), numbers.data());
    EXPECT_EQ(numbers, std::vector<int8_t>(x.size(), 0)) << value;
    const bool is_finite = std::abs(value) < kInfinity;
    EXPECT_TRUE(is_finite ? scale == 0 : std::isnan(scale)) << value;
  }
}

TEST(CpuIsaTest, EveryTableIsOfANamedSetTheBestFirst) {
  std::vector<CpuIsa> sets;
  for (const simd::Kernels* const kernels : simd::SupportedKernels()) {
    const auto isa = ValueIn(kCpuIsaNames, kernels->name);
    ASSERT_TRUE(isa.has_value()) << kernels->name;
    sets.push_back(*isa);
  }
  // The CPU decides which of the two sets is faster.
  const auto vnni = std::ranges::find(sets, CpuIsa::kAvx512Vnni);
  if (vnni != sets.end() && std::next(vnni) != sets.end() &&
      *std::next(vnni) == CpuIsa::kAvx512Bf16) {
    std::iter_swap(vnni, std::next(vnni));
  }
  EXPECT_TRUE(std::ranges::is_sorted(sets));
  EXPECT_EQ(sets.back(), CpuIsa::kPortable);
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, SimdTest, testing::ValuesIn(simd::SupportedKernels()),
                         [](const auto& info) { return std::string(info.param->name); });

TEST(SamplingArithmeticTest, SamplingExpIsWithinOneUnitInTheLastPlace) {
  int64_t worst = 0;
  for (float x = -64; x <= 0; x += 0.00013f) {
    worst = std::max(worst, UnitsBetween(SamplingExp(x), static_cast<float>(std::exp(double{x}))));
  }
  EXPECT_LE(worst, 1);
  EXPECT_EQ(SamplingExp(0), 1);
  EXPECT_EQ(SamplingExp(-kInfinity), SamplingExp(-64));
}

TEST(SamplingArithmeticTest, MassOfAWeightIsItsFixedPoint) {
  EXPECT_EQ(MassOf(1), uint64_t{1} << kMassBits);
  EXPECT_EQ(MassOf(0), 0u);
  EXPECT_EQ(MassOf(0x1p-40f), 1u);
  EXPECT_EQ(MassOf(0x1p-42f), 0u);
  EXPECT_EQ(MassOf(0.75f), uint64_t{3} << (kMassBits - 2));
}

TEST(SamplingArithmeticTest, LogOfMassIsTheNaturalLogarithm) {
  for (uint64_t mass = uint64_t{1} << kMassBits; mass < uint64_t{1} << 62; mass += mass / 7) {
    const double expected = std::log(static_cast<double>(mass)) - kMassBits * std::log(2.0);
    EXPECT_NEAR(LogOfMass(mass), expected, 1e-13);
  }
  EXPECT_EQ(LogOfMass(uint64_t{1} << kMassBits), 0);
}

TEST(SamplingArithmeticTest, OrderKeysOrderLogits) {
  const float ascending[] = {-kInfinity, -1e30f, -1, -1e-40f, 0, 1e-40f, 1, 1e30f};
  for (size_t i = 1; i < std::size(ascending); ++i) {
    EXPECT_LT(OrderKey(ascending[i - 1]), OrderKey(ascending[i]));
  }
  EXPECT_EQ(OrderKey(-0.0f), OrderKey(0.0f));
}

}  // namespace
}  // namespace incipit
