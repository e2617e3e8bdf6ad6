#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/cuda/device/norm.h"
#include "kernels/cuda/device/product/skinny_product.h"
#include "kernels/cuda/device/product/tiled_product.h"
#include "tests/kernels/cuda/product_problem.h"

namespace incipit::cuda {
namespace {

template <int kTokens, class Epilogue>
using Skinny = SkinnyProduct<SkinnyShape<kTokens, Epilogue>>;
using StoreF32 = StoreRows<float>;
using Large = TiledProduct<LargeTiles<StoreF32>>;
using Small = TiledProduct<SmallTiles<StoreF32>>;

// Runs `Kernel`, whose epilogue is StoreRows<float>, and compares its results with sums in double.
// Returns the results.
template <class Kernel>
std::vector<float> CheckedProduct(ProductProblem& problem, const ProductRun& run, bool biased) {
  const ProductShape& shape = problem.shape();
  const auto width = static_cast<size_t>(shape.width);
  std::vector<float> out(static_cast<size_t>(shape.rows) * width, -7);
  const StoreF32::Args args = {out.data(), biased ? problem.bias().data() : nullptr, shape.width};
  EXPECT_EQ(RunProduct<Kernel>(run, problem.input(), args), "");
  for (int row = 0; row < shape.rows; ++row) {
    for (int column = 0; column < shape.width; ++column) {
      const auto index = static_cast<size_t>(row) * width + static_cast<size_t>(column);
      const double bias =
          biased ? static_cast<double>(problem.bias()[static_cast<size_t>(column)]) : 0;
      const double exact = problem.Exact(row, column) + bias;
      EXPECT_NEAR(static_cast<double>(out[index]), exact, problem.Tolerance(row, column))
          << row << ", " << column;
      if (testing::Test::HasFailure()) return out;
    }
  }
  return out;
}

TEST(SkinnyProduct, EqualsDoubleAtOddSizes) {
  ProductProblem tiny({.rows = 1, .columns = 8, .width = 1});
  CheckedProduct<Skinny<8, StoreF32>>(tiny, {.num_blocks = 2}, false);
  ProductProblem short_runs({.rows = 7, .columns = 136, .width = 50});
  CheckedProduct<Skinny<8, StoreF32>>(short_runs, {.num_blocks = 3}, true);
  ProductProblem long_runs({.rows = 13, .columns = 1000, .width = 36});
  CheckedProduct<Skinny<16, StoreF32>>(long_runs, {.num_blocks = 1}, true);
}

TEST(SkinnyProduct, ServesEveryNumberOfTokenColumns) {
  const int columns = 328, width = 100;
  ProductProblem p24({.rows = 23, .columns = columns, .width = width});
  CheckedProduct<Skinny<24, StoreF32>>(p24, {.num_blocks = 1, .seed = 2}, false);
  ProductProblem p32({.rows = 32, .columns = columns, .width = width});
  CheckedProduct<Skinny<32, StoreF32>>(p32, {.num_blocks = 2, .seed = 3}, false);
  ProductProblem p48({.rows = 41, .columns = columns, .width = width});
  CheckedProduct<Skinny<48, StoreF32>>(p48, {.num_blocks = 1, .seed = 4}, false);
  ProductProblem p64({.rows = 64, .columns = columns, .width = width});
  CheckedProduct<Skinny<64, StoreF32>>(p64, {.num_blocks = 2, .seed = 5}, true);
}

// The weight is so large that the kernel needs several passes. The ring of stages in shared memory
// is filled several times. Each seed gives another order of events.
TEST(SkinnyProduct, GoesOverTheColumnsForEachPass) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    ProductProblem narrow({.rows = 8, .columns = 520, .width = 16 * 9});
    CheckedProduct<Skinny<8, StoreF32>>(narrow, {.num_blocks = 1, .seed = seed}, false);
    ProductProblem wide({.rows = 30, .columns = 520, .width = 16 * 17});
    CheckedProduct<Skinny<32, StoreF32>>(wide, {.num_blocks = 2, .seed = seed}, false);
  }
}

TEST(TiledProduct, EqualsDoubleAtOddSizes) {
  ProductProblem tiny({.rows = 1, .columns = 8, .width = 1});
  CheckedProduct<Small>(tiny, {.num_blocks = 2}, false);
  CheckedProduct<Large>(tiny, {.num_blocks = 1}, false);
  ProductProblem two_tiles({.rows = 129, .columns = 328, .width = 36});
  CheckedProduct<Small>(two_tiles, {.num_blocks = 1}, true);
  ProductProblem wide({.rows = 193, .columns = 136, .width = 147});
  CheckedProduct<Large>(wide, {.num_blocks = 3}, false);
}

// The rows have more than one group of tiles, and each thread block computes several tiles.
TEST(TiledProduct, WalksEveryTileOnce) {
  ProductProblem many({.rows = 17 * 128 + 3, .columns = 16, .width = 150});
  CheckedProduct<Small>(many, {.num_blocks = 5}, false);
}

// The ring of stages in shared memory is filled several times, and each seed gives another order of
// events.
TEST(TiledProduct, MultipliesForManySeeds) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    ProductProblem problem({.rows = 70, .columns = 1480, .width = 136});
    CheckedProduct<Small>(problem, {.num_blocks = 1, .seed = seed}, true);
    CheckedProduct<Large>(problem, {.num_blocks = 1, .seed = seed}, true);
  }
}

// The results of a row have the same bits in every kernel and beside any number of other rows.
TEST(Products, GiveARowTheSameBitsAmongAnyRows) {
  for (const int columns : {8, 136, 456, 1032}) {
    ProductProblem problem({.rows = 64, .columns = columns, .width = 70});
    const std::vector<float> all =
        CheckedProduct<Skinny<64, StoreF32>>(problem, {.num_blocks = 2}, true);
    std::vector<float> out(all.size(), -7);
    const StoreF32::Args args = {out.data(), problem.bias().data(), 70};
    const ProductInput input = problem.input();
    ASSERT_EQ(RunProduct<Small>({.num_blocks = 1}, input, args), "");
    EXPECT_EQ(out, all);
    std::fill(out.begin(), out.end(), -7.0F);
    ASSERT_EQ(RunProduct<Large>({.num_blocks = 2}, input, args), "");
    EXPECT_EQ(out, all);
    for (const int rows : {1, 3, 8}) {
      problem.SetRows(rows);
      std::fill(out.begin(), out.end(), -7.0F);
      ASSERT_EQ((RunProduct<Skinny<8, StoreF32>>({.num_blocks = rows}, input, args)), "");
      std::vector<float> expected = all;
      std::fill(expected.begin() + rows * 70, expected.end(), -7.0F);
      EXPECT_EQ(out, expected) << rows;  // the kernel writes only the first `rows` rows
    }
  }
}

// Runs a norm, a product that prepares the next norm, and the product that uses this norm. Each
// kernel starts before the previous kernel has ended.
TEST(Products, WaitForWhatTheKernelsBeforeThemWrite) {
  constexpr int kRows = 20, kHidden = 72, kInner = 136;
  ProductProblem down({.rows = kRows, .columns = kInner, .width = kHidden}, 1);
  ProductProblem up({.rows = kRows, .columns = kHidden, .width = kInner}, 2);
  const auto units = static_cast<size_t>(down.num_units());
  std::mt19937 random(3);
  const std::vector<float> norm = RandomF32(random, kHidden);
  const std::vector<float> source = RandomF32(random, kRows * kInner);
  const std::vector<float> source_norm = RandomF32(random, kInner);
  using First = Norm<NormShape>;
  using Second = Skinny<24, AddToHidden>;
  using Third = Skinny<32, StoreF32>;
  std::vector<float> expected;
  for (uint64_t seed = 0; seed <= 12; ++seed) {
    std::vector<float> hidden(kRows * kHidden, 1), squares(kRows * units, NAN);
    std::vector<float> out(kRows * kInner, NAN);
    std::vector<uint16_t> x(kRows * kInner, NarrowBF16(NAN)), next(kRows * kHidden, 0x7FFF);
    const ProductInput down_input = down.input(), up_input = up.input();
    First::Args first = {.num_rows = down_input.num_rows,
                         .hidden = source.data(),
                         .weight = source_norm.data(),
                         .hidden_size = kInner,
                         .x = DeviceBF16(x)};
    Second::Args second = {down_input,
                           {.hidden = hidden.data(),
                            .next_norm = norm.data(),
                            .x = DeviceBF16(next),
                            .squares = squares.data(),
                            .hidden_size = kHidden}};
    second.input.x = DeviceBF16(x);
    Third::Args third = {up_input, {out.data(), nullptr, kInner}};
    third.input.x = DeviceBF16(next);
    third.input.squares = squares.data();
    third.input.num_squares = static_cast<int32_t>(units);
    const bool dependent = seed > 0;
    const emulator::KernelLaunch launches[] = {
        {emulator::CodeOf<First>("norm"), &first, sizeof(first), 3},
        {emulator::CodeOf<Second>("down"), &second, sizeof(second), 2, 1, dependent},
        {emulator::CodeOf<Third>("up"), &third, sizeof(third), 4, Third::kCluster, dependent}};
    ASSERT_EQ(emulator::RunKernels({.seed = seed}, launches).fault, "");
    if (expected.empty()) expected = out;
    ASSERT_EQ(out, expected) << seed;
  }
}

}  // namespace
}  // namespace incipit::cuda
