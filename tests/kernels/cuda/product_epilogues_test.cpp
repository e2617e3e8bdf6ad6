// Tests the epilogues of products, the operations on the results of a product, in both product
// kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cuda/device/norm.h"
#include "kernels/cuda/device/product/skinny_product.h"
#include "kernels/cuda/device/product/tiled_product.h"
#include "tests/kernels/cuda/library_product.h"
#include "tests/kernels/cuda/product_problem.h"

namespace incipit::cuda {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct SkinnyOf16 {
  template <class Epilogue>
  using Kernel = SkinnyProduct<SkinnyShape<16, Epilogue>>;
};
struct InSmallTiles {
  template <class Epilogue>
  using Kernel = TiledProduct<SmallTiles<Epilogue>>;
};
struct InLargeTiles {
  template <class Epilogue>
  using Kernel = TiledProduct<LargeTiles<Epilogue>>;
};

template <class Choice>
class ProductEpilogues : public testing::Test {
 public:
  template <class Epilogue>
  using Kernel = typename Choice::template Kernel<Epilogue>;
};
struct InALibrary {
  template <class Epilogue>
  using Kernel = LibraryProduct<Epilogue>;
};
using Choices = testing::Types<SkinnyOf16, InSmallTiles, InLargeTiles, InALibrary>;
TYPED_TEST_SUITE(ProductEpilogues, Choices);

double Rounding(double exact) { return std::abs(exact) / 200; }  // of bf16

TYPED_TEST(ProductEpilogues, StoreBF16) {
  for (const int width : {44, 45}) {
    ProductProblem problem({.rows = 9, .columns = 136, .width = width});
    const auto count = static_cast<size_t>(9 * width);
    std::vector<uint16_t> out(count + 1, 0xABCD);
    using Kernel = typename TestFixture::template Kernel<StoreRows<dev::bf16>>;
    ASSERT_EQ(
        RunProduct<Kernel>({}, problem.input(), {DeviceBF16(out), problem.bias().data(), width}),
        "");
    for (size_t i = 0; i < count; ++i) {
      const int row = static_cast<int>(i) / width, column = static_cast<int>(i) % width;
      const double exact = problem.Exact(row, column) +
                           static_cast<double>(problem.bias()[static_cast<size_t>(column)]);
      EXPECT_NEAR(static_cast<double>(WidenBF16(out[i])), exact,
                  Rounding(exact) + problem.Tolerance(row, column));
    }
    EXPECT_EQ(out[count], 0xABCD);
  }
}

TYPED_TEST(ProductEpilogues, AddToHiddenAndMakeTheNextProductReady) {
  constexpr int kRows = 11, kHidden = 56;
  ProductProblem problem({.rows = kRows, .columns = 328, .width = kHidden});
  std::mt19937 random(1);
  const std::vector<float> before = RandomF32(random, kRows * kHidden);
  const std::vector<float> norm = RandomF32(random, kHidden);
  const auto units = static_cast<size_t>(problem.num_units());
  std::vector<float> hidden = before, squares(kRows * units, kNan);
  std::vector<uint16_t> x(kRows * kHidden, 0xABCD);
  using Kernel = typename TestFixture::template Kernel<AddToHidden>;
  ASSERT_EQ(RunProduct<Kernel>({.seed = 3}, problem.input(),
                               {.hidden = hidden.data(),
                                .bias = problem.bias().data(),
                                .next_norm = norm.data(),
                                .x = DeviceBF16(x),
                                .squares = squares.data(),
                                .hidden_size = kHidden}),
            "");
  for (int row = 0; row < kRows; ++row) {
    double sum = 0;
    for (int column = 0; column < kHidden; ++column) {
      const auto index = static_cast<size_t>(row * kHidden + column);
      const double exact = static_cast<double>(before[index]) + problem.Exact(row, column) +
                           static_cast<double>(problem.bias()[static_cast<size_t>(column)]);
      EXPECT_NEAR(static_cast<double>(hidden[index]), exact, problem.Tolerance(row, column));
      const double next = exact * static_cast<double>(norm[static_cast<size_t>(column)]);
      EXPECT_NEAR(static_cast<double>(WidenBF16(x[index])), next,
                  Rounding(next) + problem.Tolerance(row, column));
      sum += exact * exact;
    }
    double parts = 0;
    for (size_t i = 0; i < units; ++i) {
      parts += static_cast<double>(squares[static_cast<size_t>(row) * units + i]);
    }
    EXPECT_NEAR(parts, sum, 1e-5 * sum);
  }
}

// The input that an epilogue prepares for the next product has the same bits as the input that a
// separate norm computes.
TYPED_TEST(ProductEpilogues, MakeTheNextProductReadyAsANormDoes) {
  constexpr int kRows = 3, kHidden = 1112, kWidth = 24;
  ProductProblem problem({.rows = kRows, .columns = 72, .width = kHidden});
  ProductProblem after({.rows = kRows, .columns = kHidden, .width = kWidth});
  std::mt19937 random(4);
  const std::vector<float> norm = RandomF32(random, kHidden);
  const auto units = static_cast<size_t>(problem.num_units());
  std::vector<float> hidden = RandomF32(random, kRows * kHidden), squares(kRows * units, kNan);
  std::vector<uint16_t> x(kRows * kHidden, 0xABCD), normed(kRows * kHidden, 0xABCD);
  using Kernel = typename TestFixture::template Kernel<AddToHidden>;
  ASSERT_EQ(RunProduct<Kernel>({}, problem.input(),
                               {.hidden = hidden.data(),
                                .next_norm = norm.data(),
                                .x = DeviceBF16(x),
                                .squares = squares.data(),
                                .hidden_size = kHidden}),
            "");
  std::vector<float> sums(kRows, kNan);
  ASSERT_EQ(emulator::Run<Norm<NormShape>>({.num_blocks = 2}, {.num_rows = problem.input().num_rows,
                                                               .hidden = hidden.data(),
                                                               .weight = norm.data(),
                                                               .hidden_size = kHidden,
                                                               .x = DeviceBF16(normed),
                                                               .squares = sums.data()})
                .fault,
            "");
  EXPECT_EQ(normed, x);
  std::vector<float> out[2];
  for (const bool parts : {false, true}) {
    std::vector<float>& result = out[parts ? 1 : 0];
    result.assign(kRows * kWidth, kNan);
    ProductInput input = after.input();
    input.x = DeviceBF16(x);
    input.squares = parts ? squares.data() : sums.data();
    input.num_squares = parts ? static_cast<int32_t>(units) : 1;
    using Next = typename TestFixture::template Kernel<StoreRows<float>>;
    ASSERT_EQ(RunProduct<Next>({}, input, {result.data(), nullptr, kWidth}), "");
  }
  EXPECT_EQ(out[0], out[1]);
}

TYPED_TEST(ProductEpilogues, ScaleByTheSquaresThatAreGivenInParts) {
  constexpr int kRows = 10, kColumns = 72, kWidth = 20;
  ProductProblem problem({.rows = kRows, .columns = kColumns, .width = kWidth});
  std::mt19937 random(2);
  for (const int parts : {1, 5, 40}) {
    std::vector<float> squares = RandomF32(random, static_cast<size_t>(kRows * parts));
    for (float& value : squares) value = std::abs(value) * 50;
    std::vector<float> out(kRows * kWidth, kNan);
    ProductInput input = problem.input();
    input.squares = squares.data();
    input.num_squares = parts;
    input.epsilon = 0.5F;
    using Kernel = typename TestFixture::template Kernel<StoreRows<float>>;
    ASSERT_EQ(RunProduct<Kernel>({}, input, {out.data(), nullptr, kWidth}), "");
    for (int row = 0; row < kRows; ++row) {
      double sum = 0;
      for (int i = 0; i < parts; ++i) {
        sum += static_cast<double>(squares[static_cast<size_t>(row * parts + i)]);
      }
      const double scale = 1 / std::sqrt(sum / kColumns + 0.5);
      for (int column = 0; column < kWidth; ++column) {
        EXPECT_NEAR(static_cast<double>(out[static_cast<size_t>(row * kWidth + column)]),
                    scale * problem.Exact(row, column), 2 * problem.Tolerance(row, column));
      }
    }
  }
}

TYPED_TEST(ProductEpilogues, MultiplyUpBySiluOfGate) {
  constexpr int kRows = 12, kWidth = 40;
  ProductProblem problem(
      {.rows = kRows, .columns = 136, .width = 2 * kWidth, .order = RowOrder::kGateUp});
  for (const bool biased : {false, true}) {
    const float* const bias = biased ? problem.bias().data() : nullptr;
    std::vector<uint16_t> out(kRows * kWidth + 1, 0xABCD);
    using Kernel = typename TestFixture::template Kernel<SiluGate>;
    ASSERT_EQ(
        RunProduct<Kernel>({.num_blocks = 2}, problem.input(), {DeviceBF16(out), bias, kWidth}),
        "");
    for (int i = 0; i < kRows * kWidth; ++i) {
      const int row = i / kWidth, column = i % kWidth;
      double gate = problem.Exact(row, column), up = problem.Exact(row, kWidth + column);
      if (biased) {
        gate += static_cast<double>(bias[column]);
        up += static_cast<double>(bias[kWidth + column]);
      }
      const double exact = gate / (1 + std::exp(-gate)) * up;
      EXPECT_NEAR(static_cast<double>(WidenBF16(out[static_cast<size_t>(i)])), exact,
                  Rounding(exact) + 1e-4);
    }
    EXPECT_EQ(out.back(), 0xABCD);
  }
}

TYPED_TEST(ProductEpilogues, NameTheGreatestLogitOfEachUnit) {
  constexpr int kRows = 9, kVocab = 51;
  ProductProblem problem({.rows = kRows, .columns = 72, .width = kVocab});
  // One row has equal logits, and the logits of another row are not finite.
  std::fill_n(problem.x().begin() + 2 * 72, 72, uint16_t{0});
  problem.x()[5 * 72 + 3] = NarrowBF16(kNan);
  const auto units = static_cast<size_t>(problem.num_units());
  std::vector<float> logits(kRows * kVocab, kNan), best(kRows * units, kNan);
  std::vector<int32_t> tokens(kRows * units, -5);
  using Kernel = typename TestFixture::template Kernel<StoreLogits>;
  ASSERT_EQ(
      RunProduct<Kernel>({}, problem.input(), {logits.data(), best.data(), tokens.data(), kVocab}),
      "");
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t unit = 0; unit < units; ++unit) {
      const auto* const first = &logits[row * kVocab + unit * 16];
      const size_t count = std::min<size_t>(16, kVocab - unit * 16);
      if (row == 5) {
        EXPECT_TRUE(std::isnan(best[row * units + unit]));
        EXPECT_EQ(tokens[row * units + unit], static_cast<int32_t>(unit * 16));
        continue;
      }
      const auto* const greatest = std::max_element(first, first + count);
      EXPECT_EQ(best[row * units + unit], *greatest);
      EXPECT_EQ(tokens[row * units + unit], greatest - &logits[row * kVocab]) << row;
    }
  }
}

TYPED_TEST(ProductEpilogues, KeepANanToItsRow) {
  constexpr int kRows = 16, kHidden = 40;
  using Kernel = typename TestFixture::template Kernel<AddToHidden>;
  std::vector<float> results[2];
  for (const bool dirty : {false, true}) {
    ProductProblem problem({.rows = kRows, .columns = 136, .width = kHidden});
    if (dirty) problem.x()[6 * 136 + 100] = NarrowBF16(kNan);
    std::vector<float>& hidden = results[dirty ? 1 : 0];
    hidden.assign(kRows * kHidden, 1);
    ASSERT_EQ(
        RunProduct<Kernel>({}, problem.input(), {.hidden = hidden.data(), .hidden_size = kHidden}),
        "");
  }
  for (size_t i = 0; i < results[0].size(); ++i) {
    if (i / kHidden == 6) {
      EXPECT_TRUE(std::isnan(results[1][i]));
    } else {
      EXPECT_EQ(results[1][i], results[0][i]) << i;
    }
  }
}

// Rows of padding may contain any values, and must stay unchanged.
TYPED_TEST(ProductEpilogues, LeaveThePaddingAlone) {
  constexpr int kRows = 16, kReal = 5, kHidden = 40;
  ProductProblem problem({.rows = kRows, .columns = 72, .width = kHidden});
  std::fill(problem.x().begin() + kReal * 72, problem.x().end(), NarrowBF16(kNan));
  problem.SetRows(kReal);
  std::vector<float> hidden(kRows * kHidden, 1);
  using Kernel = typename TestFixture::template Kernel<AddToHidden>;
  ASSERT_EQ(
      RunProduct<Kernel>({}, problem.input(), {.hidden = hidden.data(), .hidden_size = kHidden}),
      "");
  for (size_t i = 0; i < hidden.size(); ++i) {
    EXPECT_EQ(hidden[i] == 1, i >= kReal * kHidden) << i;
    EXPECT_TRUE(std::isfinite(hidden[i]));
  }
  problem.SetRows(0);
  std::vector<float> untouched = hidden;
  ASSERT_EQ(
      RunProduct<Kernel>({}, problem.input(), {.hidden = hidden.data(), .hidden_size = kHidden}),
      "");
  EXPECT_EQ(hidden, untouched);
}

TEST(Silu, IsRightWhereTheExponentialIsZeroOrInfinite) {
  EXPECT_EQ(Silu(1e30F), 1e30F);
  EXPECT_EQ(Silu(-300), 0);
  EXPECT_NEAR(Silu(1.5F), 1.5 / (1 + std::exp(-1.5)), 1e-6);
}

}  // namespace
}  // namespace incipit::cuda
