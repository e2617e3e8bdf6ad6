// Tests product kernels whose epilogue writes queries, keys and values. Every kernel must give the
// bits that a separate Append kernel gives. The tests also find planted mistakes.
#include "kernels/cuda/device/product/append_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "kernels/cuda/device/product/skinny_product.h"
#include "kernels/cuda/device/product/tiled_product.h"
#include "tests/kernels/cuda/append_rows_problem.h"
#include "tests/kernels/cuda/library_product.h"

namespace incipit::cuda {
namespace {

using Outcome = AppendRowsProblem::Outcome;

// Returns the result of two separate kernels, a product and Append. Each result is computed once
// and used in all tests.
const Outcome& Apart(const AppendRowsShape& shape) {
  static auto& outcomes = *new std::map<AppendRowsShape, Outcome>;
  const auto [entry, is_new] = outcomes.try_emplace(shape);
  if (is_new) entry->second = AppendRowsProblem(shape).RunApart();
  return entry->second;
}

template <int kTokens>
struct Skinny {
  static constexpr int kRowsMax = kTokens;
  template <class Epilogue>
  using Kernel = SkinnyProduct<SkinnyShape<kTokens, Epilogue>>;
};
template <template <class> class Tiles>
struct Tiled {
  static constexpr int kRowsMax = 200;
  template <class Epilogue>
  using Kernel = TiledProduct<Tiles<Epilogue>>;
};

template <class Choice>
class AppendRowsTest : public testing::Test {
 protected:
  using Kernel = typename Choice::template Kernel<AppendRows>;

  static void ExpectAsApart(const AppendRowsShape& shape) {
    if (shape.rows > Choice::kRowsMax) return;
    SCOPED_TRACE(testing::Message() << shape.rows << " rows, head_dim " << shape.head_dim
                                    << ", pages of " << shape.page_size);
    AppendRowsProblem problem(shape);
    const Outcome outcome = problem.Run<Kernel>();
    ASSERT_EQ(outcome.fault, "");
    EXPECT_TRUE(outcome == Apart(shape));
  }
};
using Choices = testing::Types<Skinny<8>, Skinny<16>, Skinny<32>, Skinny<64>, Tiled<SmallTiles>,
                               Tiled<LargeTiles>>;
TYPED_TEST_SUITE(AppendRowsTest, Choices);

TYPED_TEST(AppendRowsTest, GivesTheBitsOfAppendForHeadsOfEverySize) {
  for (const int head_dim : {16, 64, 80, 96, 128}) {
    for (const bool has_bias : {false, true}) {
      TestFixture::ExpectAsApart({.rows = 7, .head_dim = head_dim, .has_bias = has_bias});
    }
  }
}

TYPED_TEST(AppendRowsTest, GivesTheBitsOfAppendForAnyNumberOfRows) {
  for (const int rows : {1, 3, 17, 64, 65, 200}) {
    TestFixture::ExpectAsApart({.rows = rows, .head_dim = 16});
    TestFixture::ExpectAsApart({.rows = rows, .has_bias = true});
  }
}

TYPED_TEST(AppendRowsTest, StoresToPagesOfEverySize) {
  for (const int page_size : {16, 32, 64}) {
    for (const int head_dim : {80, 128}) {
      TestFixture::ExpectAsApart({.rows = 8, .head_dim = head_dim, .page_size = page_size});
    }
  }
}

TYPED_TEST(AppendRowsTest, TakesHeadsInEveryGroup) {
  TestFixture::ExpectAsApart({.rows = 5, .num_heads = 7, .num_kv_heads = 1});
  TestFixture::ExpectAsApart({.rows = 5, .num_heads = 1, .num_kv_heads = 1});
  TestFixture::ExpectAsApart({.rows = 5, .head_dim = 32, .num_heads = 14, .num_kv_heads = 7});
}

// Rows beyond the step hold anything.
TYPED_TEST(AppendRowsTest, LeavesWhatIsNoTokenAlone) {
  constexpr int kReal = 3;
  AppendRowsProblem problem({.rows = 8});
  for (int row = kReal; row < 8; ++row) {
    problem.step_row(row) = {.position = 1 << 30, .slot = 1 << 30, .table = 0, .length = 0};
    problem.SetX(row, 1, std::numeric_limits<float>::quiet_NaN());
  }
  problem.SetRows(kReal);
  const Outcome outcome = problem.template Run<typename TestFixture::Kernel>({.seed = 5});
  EXPECT_TRUE(outcome == problem.RunApart());
  const auto is_untouched = [](uint16_t x) { return x == AppendRowsProblem::kUntouched; };
  const auto queries = int64_t{kReal * 2 * 64}, keys = int64_t{kReal * 2 * 64};
  EXPECT_EQ(std::ranges::count_if(outcome.query, is_untouched),
            std::ssize(outcome.query) - queries);
  EXPECT_EQ(std::ranges::count_if(outcome.pool, is_untouched), std::ssize(outcome.pool) - keys);

  for (int row = 0; row < kReal; ++row) problem.step_row(row).slot = -1;
  const Outcome nothing = problem.template Run<typename TestFixture::Kernel>();
  EXPECT_EQ(nothing.fault, "");
  EXPECT_TRUE(std::ranges::all_of(nothing.query, is_untouched));
  EXPECT_TRUE(std::ranges::all_of(nothing.pool, is_untouched));
}

TYPED_TEST(AppendRowsTest, KeepsANanToItsRow) {
  AppendRowsProblem problem({.rows = 7, .has_bias = true});
  const Outcome clean = problem.template Run<typename TestFixture::Kernel>();
  problem.SetX(4, 70, std::numeric_limits<float>::quiet_NaN());
  const Outcome dirty = problem.template Run<typename TestFixture::Kernel>();
  for (size_t i = 0; i < clean.query.size(); ++i) {
    if (i / (2 * 64) == 4) {
      EXPECT_TRUE(std::isnan(WidenBF16(dirty.query[i])));
    } else {
      EXPECT_EQ(dirty.query[i], clean.query[i]) << i;
    }
  }
}

// The emulated library may sum in another order than Incipit's kernels, but uses the same order for
// both epilogues.
TEST(AppendRowsOfALibrary, GivesTheBitsOfAppend) {
  for (const int head_dim : {16, 80, 128}) {
    for (const int rows : {1, 3, 17, 65}) {
      AppendRowsProblem problem({.rows = rows, .head_dim = head_dim, .has_bias = rows != 3});
      const Outcome outcome = problem.Run<LibraryProduct<AppendRows>>();
      ASSERT_EQ(outcome.fault, "");
      EXPECT_TRUE(outcome == problem.RunApart<LibraryProduct<StoreRows<float>>>());
    }
  }
}

// ---- planted

enum class Bug : uint8_t {
  kNone,
  kHalvesSwapped,
  kSlotOffByOne,
  kAnotherPosition,
  kBiasInPackedOrder,
  kRowsWithoutASlot,
};

template <Bug kBug>
struct Planted : AppendRows {
  static INCIPIT_DEVICE Row LoadRow(const Args& args, const Results& at) {
    Row row = AppendRows::LoadRow(args, at);
    if (kBug == Bug::kAnotherPosition && at.valid && at.row > 0) {
      row.position = RowAt(RowsOf(args.step), at.row - 1).position;
    }
    if (kBug == Bug::kSlotOffByOne && row.slot > 0) --row.slot;
    if (kBug == Bug::kRowsWithoutASlot && row.slot < 0) row.slot = 0;
    return row;
  }
  static INCIPIT_DEVICE Early Begin(const Args& args, const Results& at, Row row) {
    Early early = AppendRows::Begin(args, at, row);
    if (kBug == Bug::kHalvesSwapped) {
      for (float& sine : early.sine) sine = -sine;
    }
    return early;
  }
  static INCIPIT_DEVICE void Run(const Args& args, Results& results, const Early& early) {
    Args with = args;
    if (kBug != Bug::kBiasInPackedOrder) return AppendRows::Run(with, results, early);
    AddConstantFloats(args.bias + results.unit * kUnitRows + results.quad * 4, results.y);
    with.bias = nullptr;
    AppendRows::Run(with, results, early);
  }
};

template <Bug kBug>
bool IsFound() {
  AppendRowsProblem problem({.rows = 20, .has_bias = true, .num_heads = 2, .num_kv_heads = 2});
  const auto outcome = problem.Run<SkinnyProduct<SkinnyShape<32, Planted<kBug>>>>();
  return !(outcome == problem.RunApart());
}

TEST(AppendRowsBugs, HalvesThatAreSwappedAreFound) {
  EXPECT_FALSE(IsFound<Bug::kNone>());
  EXPECT_TRUE(IsFound<Bug::kHalvesSwapped>());
}

TEST(AppendRowsBugs, ASlotOffByOneIsFound) { EXPECT_TRUE(IsFound<Bug::kSlotOffByOne>()); }

TEST(AppendRowsBugs, AnotherTokensPositionIsFound) {
  EXPECT_TRUE(IsFound<Bug::kAnotherPosition>());
}

TEST(AppendRowsBugs, ABiasInPackedOrderIsFound) { EXPECT_TRUE(IsFound<Bug::kBiasInPackedOrder>()); }

TEST(AppendRowsBugs, StoringATokenWithoutASlotIsFound) {
  EXPECT_TRUE(IsFound<Bug::kRowsWithoutASlot>());
}

// Plants a mistake: the weight is packed in plain order, or in rotary order for heads of another
// size.
TEST(AppendRowsBugs, AWeightInAnotherOrderIsFound) {
  for (const int head_dim : {0, 32, 64}) {
    AppendRowsProblem problem({});
    const ProductShape shape = {.rows = 3,
                                .columns = 72,
                                .width = problem.width(),
                                .order = head_dim == 0 ? RowOrder::kPlain : RowOrder::kRotary,
                                .head_dim = head_dim};
    problem.product() = ProductProblem(shape);
    const auto outcome = problem.Run<SkinnyProduct<SkinnyShape<8, AppendRows>>>();
    EXPECT_EQ(outcome == problem.RunApart(), head_dim == 64);
  }
}

}  // namespace
}  // namespace incipit::cuda
