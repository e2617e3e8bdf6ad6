#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cuda/device/copy_pages.h"
#include "kernels/cuda/device/embed.h"
#include "kernels/cuda/device/norm.h"
#include "tests/kernels/cuda/product_problem.h"

namespace incipit::cuda {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <class Kernel>
std::string RunBlocks(int num_blocks, const typename Kernel::Args& args) {
  return emulator::Run<Kernel>({.num_blocks = num_blocks}, args).fault;
}

// Expects that `out` is `exact` rounded to bf16, or a neighbour of this bf16 number.
void ExpectRounded(uint16_t out, double exact) {
  EXPECT_NEAR(static_cast<double>(WidenBF16(out)), exact, std::abs(exact) / 200 + 1e-30);
}

std::vector<uint16_t> Packed(const std::vector<ConstTensorView>& parts, RowOrder order) {
  const UnpackedWeight weight = {parts, order};
  std::vector<uint16_t> packed(static_cast<size_t>(weight.packed_bytes() / 2));
  PackUnits(weight, 0, packed);
  return packed;
}

TEST(PackedWeight, GivesBackWhatWasPackedInEveryOrderAndType) {
  std::mt19937 random(1);
  for (const RowOrder order : {RowOrder::kPlain, RowOrder::kGateUp}) {
    for (const auto& [rows, columns] : {std::pair{44, 8}, {44, 72}, {44, 100}, {444, 328}}) {
      const int width = columns;
      const auto count = static_cast<size_t>(rows / 2 * columns);
      const std::vector<uint16_t> bf16 = RandomBF16(random, count, 1);
      std::vector<float> f32(count);
      for (size_t i = 0; i < count; ++i) f32[i] = WidenBF16(bf16[count - 1 - i]);
      const std::vector<uint16_t> packed = Packed({{bf16.data(), DType::kBF16, rows / 2, columns},
                                                   {f32.data(), DType::kF32, rows / 2, columns}},
                                                  order);
      std::vector<uint16_t> row(static_cast<size_t>(width));
      for (int i = 0; i < rows; ++i) {
        UnpackRow(packed, order, rows, i, row);
        for (int j = 0; j < width; ++j) {
          const auto index = static_cast<size_t>(i % (rows / 2) * columns + j);
          const uint16_t expected = i < rows / 2 ? bf16[index] : NarrowBF16(f32[index]);
          ASSERT_EQ(row[static_cast<size_t>(j)], expected) << i << ", " << j;
        }
      }
    }
  }
}

// A unit of 16 rows has eight rows from the first half of a head. Its other eight rows, from the
// second half, are those that are rotated together with the first eight.
TEST(PackedWeight, HasTheHalvesOfEachHeadSideBySide) {
  std::mt19937 random(3);
  constexpr int kColumns = 72;
  for (const int head_dim : {16, 48, 128}) {
    const int rows = 3 * head_dim;
    const std::vector<uint16_t> values =
        RandomBF16(random, static_cast<size_t>(rows * kColumns), 1);
    const ConstTensorView part = {values.data(), DType::kBF16, rows, kColumns};
    const UnpackedWeight weight = {{&part, 1}, RowOrder::kRotary, head_dim};
    std::vector<uint16_t> packed(static_cast<size_t>(weight.packed_bytes() / 2)), row(kColumns);
    PackUnits(weight, 0, packed);
    const auto element = [&](int source, int column) {
      return values[static_cast<size_t>(source * kColumns + column)];
    };
    for (int i = 0; i < rows; ++i) {
      const int head = i / head_dim, unit = i % head_dim / 16, half = i % 16 / 8;
      const int source = head * head_dim + half * head_dim / 2 + unit * 8 + i % 8;
      ASSERT_EQ(SourceRow(weight.order, rows, i, head_dim), source);
      const auto index = PackedElement(NumTiles(kColumns), i, 65);
      ASSERT_EQ(packed[static_cast<size_t>(index)], element(source, 65));
      UnpackRow(packed, weight.order, rows, i, row, head_dim);
      for (int j = 0; j < kColumns; ++j) ASSERT_EQ(row[static_cast<size_t>(j)], element(i, j));
    }
  }
}

TEST(PackedWeight, IsPackedPieceByPieceAsAtOnce) {
  std::mt19937 random(2);
  const std::vector<uint16_t> values = RandomBF16(random, 70 * 72, 1);
  const std::vector<ConstTensorView> parts = {{values.data(), DType::kF16, 70, 72}};
  const std::vector<uint16_t> whole = Packed(parts, RowOrder::kPlain);
  const UnpackedWeight weight = {parts, RowOrder::kPlain};
  std::vector<uint16_t> pieces(whole.size(), 1);
  const auto unit = static_cast<size_t>(weight.unit_elements());
  ASSERT_EQ(pieces.size(), 5 * unit);
  PackUnits(weight, 3, std::span(pieces).subspan(3 * unit));
  PackUnits(weight, 0, std::span(pieces).first(3 * unit));
  EXPECT_EQ(pieces, whole);
}

TEST(Embed, GathersTokensAndThoseThatTheLastStepSampled) {
  constexpr int kVocab = 21, kHidden = 72;
  std::mt19937 random(3);
  const std::vector<uint16_t> table = RandomBF16(random, kVocab * kHidden, 1);
  std::vector<uint16_t> packed =
      Packed({{table.data(), DType::kBF16, kVocab, kHidden}}, RowOrder::kPlain);
  struct {
    StepHeader header;
    std::array<int32_t, 7> tokens = {20, 0, -1, -3, 7, -2, 5};
  } step;
  step.header = {.num_tokens = 6, .tokens = sizeof(StepHeader)};
  const std::array<int32_t, 3> sampled = {4, -1, 19};
  const std::array<int32_t, 6> expected = {20, 0, 4, 19, 7, 0};
  std::vector<float> hidden(step.tokens.size() * kHidden, -1);
  ASSERT_EQ(RunBlocks<Embed<EmbedShape>>(4, {.step = &step.header,
                                             .sampled = sampled.data(),
                                             .table = DeviceBF16(packed),
                                             .vocab = kVocab,
                                             .hidden_size = kHidden,
                                             .hidden = hidden.data()}),
            "");
  for (size_t i = 0; i < hidden.size(); ++i) {
    const size_t row = i / kHidden, column = i % kHidden;
    const float value =
        row < expected.size()
            ? WidenBF16(table[static_cast<size_t>(expected[row]) * kHidden + column])
            : -1;
    ASSERT_EQ(hidden[i], value) << row << ", " << column;
  }
}

struct NormCase {
  int rows = 5, hidden = 1032;
  std::vector<float> values, weight;
  std::vector<uint16_t> x;
  int32_t num_rows = 0;

  explicit NormCase(uint32_t seed) {
    std::mt19937 random(seed);
    values = RandomF32(random, static_cast<size_t>(rows * hidden));
    weight = RandomF32(random, static_cast<size_t>(hidden));
    x.assign(values.size(), 0xABCD);
    num_rows = rows;
  }
  double Mean(int row) const {
    double squares = 0;
    for (int i = 0; i < hidden; ++i) squares += Value(row, i) * Value(row, i);
    return squares / hidden;
  }
  double Value(int row, int column) const {
    return static_cast<double>(values[static_cast<size_t>(row * hidden + column)]);
  }
  Norm<NormShape>::Args args() {
    return {.num_rows = &num_rows,
            .hidden = values.data(),
            .weight = weight.data(),
            .epsilon = 1e-3F,
            .hidden_size = hidden,
            .x = DeviceBF16(x)};
  }
};

TEST(Norm, DividesByTheRootOfTheMeanSquare) {
  NormCase test(4);
  ASSERT_EQ(RunBlocks<Norm<NormShape>>(2, test.args()), "");
  for (int row = 0; row < test.rows; ++row) {
    const double scale = 1 / std::sqrt(test.Mean(row) + 1e-3);
    for (int i = 0; i < test.hidden; ++i) {
      ExpectRounded(
          test.x[static_cast<size_t>(row * test.hidden + i)],
          test.Value(row, i) * scale * static_cast<double>(test.weight[static_cast<size_t>(i)]));
    }
  }
}

TEST(Norm, LeavesTheScaleToTheProductWhereItIsAsked) {
  NormCase test(5);
  std::vector<float> squares(static_cast<size_t>(test.rows), kNan);
  auto args = test.args();
  args.squares = squares.data();
  ASSERT_EQ(RunBlocks<Norm<NormShape>>(3, args), "");
  for (int row = 0; row < test.rows; ++row) {
    EXPECT_NEAR(static_cast<double>(squares[static_cast<size_t>(row)]),
                test.Mean(row) * test.hidden, 1e-2);
    for (int i = 0; i < test.hidden; ++i) {
      ExpectRounded(test.x[static_cast<size_t>(row * test.hidden + i)],
                    test.Value(row, i) * static_cast<double>(test.weight[static_cast<size_t>(i)]));
    }
  }
}

TEST(Norm, GathersRowsAndLeavesOutThePadding) {
  NormCase all(6), some(6);
  ASSERT_EQ(RunBlocks<Norm<NormShape>>(2, all.args()), "");
  const std::array<int32_t, 4> rows = {4, -1, 0, 2};
  some.num_rows = 3;
  auto args = some.args();
  args.rows = rows.data();
  ASSERT_EQ(RunBlocks<Norm<NormShape>>(2, args), "");
  const auto hidden = static_cast<size_t>(all.hidden);
  for (size_t i = 0; i < hidden; ++i) {
    ASSERT_EQ(some.x[i], all.x[4 * hidden + i]);
    ASSERT_EQ(some.x[hidden + i], 0xABCD);
    ASSERT_EQ(some.x[2 * hidden + i], all.x[i]);
    ASSERT_EQ(some.x[3 * hidden + i], 0xABCD);
  }
}

TEST(Norm, KeepsANanToItsRow) {
  NormCase clean(7), dirty(7);
  ASSERT_EQ(RunBlocks<Norm<NormShape>>(1, clean.args()), "");
  dirty.values[static_cast<size_t>(2 * dirty.hidden + 17)] = kNan;
  ASSERT_EQ(RunBlocks<Norm<NormShape>>(1, dirty.args()), "");
  for (int row = 0; row < clean.rows; ++row) {
    for (int i = 0; i < clean.hidden; ++i) {
      const auto index = static_cast<size_t>(row * clean.hidden + i);
      if (row == 2) {
        ASSERT_TRUE(std::isnan(WidenBF16(dirty.x[index])));
      } else {
        ASSERT_EQ(dirty.x[index], clean.x[index]);
      }
    }
  }
}

class PageCopies : public testing::TestWithParam<int> {};

TEST_P(PageCopies, CopyTheFirstTokensOfEveryHeadAndLayer) {
  const KvLayout layout = {.page_size = 16, .num_kv_heads = 3, .head_dim = GetParam()};
  constexpr int kLayers = 2, kPages = 6;
  const auto layer = static_cast<size_t>(layout.LayerSize(kPages));
  std::vector<uint16_t> pool(kLayers * layer);
  for (size_t i = 0; i < pool.size(); ++i) pool[i] = static_cast<uint16_t>(i * 40503 % 65521);
  const std::vector<uint16_t> before = pool;
  const std::array<dev::Vec4, 4> copies = {{{{0, 5, 7}}, {{3, 1, 16}}, {{0, 2, 0}}, {{3, 4, 1}}}};
  const int32_t count = 3;
  CopyPages<CopyPagesShape>::Args args = {
      .count = &count, .copies = copies.data(), .pool = reinterpret_cast<char*>(pool.data())};
  args.SetLayout(layout, kLayers, kPages);
  ASSERT_EQ(RunBlocks<CopyPages<CopyPagesShape>>(4, args), "");
  std::vector<uint16_t> expected = before;
  for (int l = 0; l < kLayers; ++l) {
    for (int c = 0; c < count; ++c) {
      const auto& copy = copies[static_cast<size_t>(c)].word;
      for (const KvPart part : {KvPart::kKey, KvPart::kValue}) {
        for (int head = 0; head < layout.num_kv_heads; ++head) {
          for (int row = 0; row < static_cast<int>(copy[2]); ++row) {
            for (int dim = 0; dim < layout.head_dim; ++dim) {
              const size_t from = static_cast<size_t>(l) * layer +
                                  static_cast<size_t>(layout.Offset(static_cast<int>(copy[0]), part,
                                                                    head, row, dim));
              const size_t to = static_cast<size_t>(l) * layer +
                                static_cast<size_t>(
                                    layout.Offset(static_cast<int>(copy[1]), part, head, row, dim));
              expected[to] = before[from];
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(pool, expected);
}

INSTANTIATE_TEST_SUITE_P(HeadDims, PageCopies, testing::Values(24, 64, 128));

}  // namespace
}  // namespace incipit::cuda
