// Plants mistakes between a product that prepares a norm and the product that uses the norm. The
// checks of the product tests must find each mistake.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/device/norm.h"
#include "kernels/cuda/device/product/skinny_product.h"
#include "tests/kernels/cuda/product_problem.h"

namespace incipit::cuda {
namespace {

constexpr int kRows = 5, kHidden = 264, kWidth = 24;

using Add = SkinnyProduct<SkinnyShape<16, AddToHidden>>;
using Next = SkinnyProduct<SkinnyShape<16, StoreRows<float>>>;

enum class Bug : uint8_t { kNone, kSquaresOfAnotherRow, kOnePartLess, kXOfAnEarlierHidden };

// Plants `bug` into a norm that AddToHidden prepares. Returns the errors of the next product,
// compared with a separate norm.
std::vector<float> ErrorsOfNext(Bug bug) {
  ProductProblem problem({.rows = kRows, .columns = 72, .width = kHidden});
  ProductProblem after({.rows = kRows, .columns = kHidden, .width = kWidth});
  std::mt19937 random(6);
  const std::vector<float> norm = RandomF32(random, kHidden);
  const auto units = static_cast<size_t>(problem.num_units());
  std::vector<float> hidden = RandomF32(random, kRows * kHidden), squares(kRows * units, NAN);
  std::vector<uint16_t> x(kRows * kHidden, NarrowBF16(NAN)), earlier;
  const auto add = [&] {
    EXPECT_EQ(RunProduct<Add>({}, problem.input(),
                              {.hidden = hidden.data(),
                               .next_norm = norm.data(),
                               .x = DeviceBF16(x),
                               .squares = squares.data(),
                               .hidden_size = kHidden}),
              "");
  };
  add();
  earlier = x;
  add();
  if (bug == Bug::kXOfAnEarlierHidden) x = std::move(earlier);
  if (bug == Bug::kSquaresOfAnotherRow) {
    std::rotate(squares.begin(), squares.begin() + static_cast<int>(units), squares.end());
  }
  ProductInput input = after.input();
  input.x = DeviceBF16(x);
  input.squares = squares.data();
  input.num_squares = static_cast<int32_t>(units) - (bug == Bug::kOnePartLess ? 1 : 0);
  std::vector<float> out(kRows * kWidth, NAN);
  EXPECT_EQ(RunProduct<Next>({}, input, {out.data(), nullptr, kWidth}), "");
  // From a norm of its own.
  std::vector<uint16_t> normed(kRows * kHidden);
  std::vector<float> sums(kRows);
  const std::string fault =
      emulator::Run<Norm<NormShape>>({.num_blocks = 2}, {.num_rows = input.num_rows,
                                                         .hidden = hidden.data(),
                                                         .weight = norm.data(),
                                                         .hidden_size = kHidden,
                                                         .x = DeviceBF16(normed),
                                                         .squares = sums.data()})
          .fault;
  EXPECT_EQ(fault, "");
  input.x = DeviceBF16(normed);
  input.squares = sums.data();
  input.num_squares = 1;
  std::vector<float> expected(kRows * kWidth, NAN);
  EXPECT_EQ(RunProduct<Next>({}, input, {expected.data(), nullptr, kWidth}), "");
  for (size_t i = 0; i < out.size(); ++i) out[i] -= expected[i];
  return out;
}

bool IsFound(Bug bug) {
  return !std::ranges::all_of(ErrorsOfNext(bug), [](float error) { return error == 0; });
}

TEST(ProductBugs, SquaresOfAnotherRowAreFound) {
  EXPECT_FALSE(IsFound(Bug::kNone));
  EXPECT_TRUE(IsFound(Bug::kSquaresOfAnotherRow));
}

TEST(ProductBugs, APartOfTheSquaresThatIsLeftOutIsFound) {
  EXPECT_TRUE(IsFound(Bug::kOnePartLess));
}

TEST(ProductBugs, XOfAnEarlierHiddenIsFound) { EXPECT_TRUE(IsFound(Bug::kXOfAnEarlierHidden)); }

// Plants a mistake: a product writes the input x of the next product over its own input x, which it
// still reads.
TEST(ProductBugs, WritingWhatTheSameProductReadsIsFound) {
  ProductProblem problem({.rows = kRows, .columns = kHidden, .width = kHidden});
  const std::vector<float> norm(kHidden, 1);
  const ProductInput input = problem.input();
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    for (const bool is_planted : {false, true}) {
      std::vector<float> hidden(kRows * kHidden, 1), squares(kRows * kHidden);
      std::vector<uint16_t> x(kRows * kHidden), read = problem.x();
      ProductInput from = input;
      from.x = DeviceBF16(read);
      const std::string fault = RunProduct<Add>({.seed = seed}, from,
                                                {.hidden = hidden.data(),
                                                 .next_norm = norm.data(),
                                                 .x = DeviceBF16(is_planted ? read : x),
                                                 .squares = squares.data(),
                                                 .hidden_size = kHidden});
      EXPECT_EQ(!fault.empty(), is_planted) << seed << ": " << fault;
    }
  }
}

}  // namespace
}  // namespace incipit::cuda
