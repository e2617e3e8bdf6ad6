// Compares the bytes that the small kernels move with the formulas in their headers, and checks
// that no access has a bank conflict. Small kernels are all kernels except products and attention.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/cuda/device/attention/append.h"
#include "kernels/cuda/device/attention/simple_attention.h"
#include "kernels/cuda/device/copy_pages.h"
#include "kernels/cuda/device/embed.h"
#include "kernels/cuda/device/norm.h"
#include "kernels/cuda/device/pad_rows.h"
#include "kernels/cuda/device/product/finish_product.h"
#include "kernels/cuda/device/product/unpack_weight.h"
#include "tests/kernels/cuda/attention_case.h"
#include "tests/kernels/cuda/product_problem.h"

namespace incipit::cuda {
namespace {

using emulator::AccessKind;

constexpr int kBlocks = 2;

// Numbers of bytes that a kernel moves. If the lanes of a warp access the same bytes, the sectors
// of these bytes count. Otherwise the bytes of each lane count.
struct Moved {
  int64_t loaded = 0, stored = 0, constants = 0;

  int64_t all() const { return loaded + stored + constants; }
};

Moved MovedBy(const emulator::Report& report) {
  EXPECT_EQ(report.fault, "");
  EXPECT_FALSE(report.sites.empty());
  EXPECT_EQ(report.bulk_bytes + report.async_bytes + report.atomic_bytes, 0);
  Moved moved;
  for (const emulator::SiteCounts& site : report.sites) {
    const std::string where = site.file + ":" + std::to_string(site.line);
    EXPECT_EQ(site.bank_conflicts, 0) << where;
    constexpr int64_t kSectorBytes = 32;
    const int64_t bytes =
        std::min(site.lane_accesses * site.lane_bytes, site.sectors * kSectorBytes);
    if (site.kind == AccessKind::kGlobalLoad) moved.loaded += bytes;
    if (site.kind == AccessKind::kGlobalStore) moved.stored += bytes;
    if (site.kind == AccessKind::kConstantLoad) moved.constants += bytes;
  }
  return moved;
}

template <class Kernel>
Moved MovedBy(const typename Kernel::Args& args) {
  return MovedBy(emulator::Run<Kernel>({.num_blocks = kBlocks, .count_accesses = true}, args));
}

// Expects that `moved` differs from `formula` by at most 2 %. Both are numbers of bytes.
void ExpectBytes(int64_t moved, int64_t formula) {
  EXPECT_NEAR(static_cast<double>(moved), static_cast<double>(formula),
              static_cast<double>(formula) / 50);
}

TEST(SmallCosts, EmbedMovesARowOfTheTableAndOneOfHidden) {
  constexpr int kRows = 12, kVocab = 21, kHidden = 4096;
  std::vector<uint16_t> table(32 * kHidden, 0x3F80);
  struct {
    StepHeader header = {.num_tokens = kRows, .tokens = sizeof(StepHeader)};
    std::array<int32_t, kRows> tokens = {20, 0, 3, 19, 7, 2, 5};
  } step;
  std::vector<float> hidden(kRows * kHidden);
  const Moved moved = MovedBy<Embed<EmbedShape>>({.step = &step.header,
                                                  .table = DeviceBF16(table),
                                                  .vocab = kVocab,
                                                  .hidden_size = kHidden,
                                                  .hidden = hidden.data()});
  ExpectBytes(moved.all(), kRows * (6 * kHidden + 4));
}

TEST(SmallCosts, NormReadsARowTwiceAndItsWeightOnce) {
  constexpr int kRows = 12, kHidden = 4096;
  const int32_t num_rows = kRows;
  const std::vector<float> hidden(kRows * kHidden, 1), weight(kHidden, 1);
  std::vector<float> squares(kRows);
  std::vector<uint16_t> x(kRows * kHidden);
  Norm<NormShape>::Args args = {.num_rows = &num_rows,
                                .hidden = hidden.data(),
                                .weight = weight.data(),
                                .epsilon = 1,
                                .hidden_size = kHidden,
                                .x = DeviceBF16(x)};
  for (float* const to : {static_cast<float*>(nullptr), squares.data()}) {
    args.squares = to;
    const Moved moved = MovedBy<Norm<NormShape>>(args);
    ExpectBytes(moved.loaded, kRows * 8 * kHidden);
    ExpectBytes(moved.constants, kRows * 4 * kHidden);
    ExpectBytes(moved.stored, kRows * 2 * kHidden);
  }
}

TEST(SmallCosts, CopyPagesMovesTheTokensThatItCopies) {
  for (const int head_dim : {24, 64, 128}) {
    SCOPED_TRACE(head_dim);
    constexpr int kLayers = 2, kPages = 6, kCount = 2, kTokens = 7 + 16;
    const KvLayout layout = {.page_size = 16, .num_kv_heads = 16, .head_dim = head_dim};
    std::vector<uint16_t> pool(static_cast<size_t>(kLayers * layout.LayerSize(kPages)));
    const std::array<dev::Vec4, kCount> copies = {{{{0, 5, 7}}, {{3, 1, 16}}}};
    const int32_t count = kCount;
    CopyPages<CopyPagesShape>::Args args = {
        .count = &count, .copies = copies.data(), .pool = reinterpret_cast<char*>(pool.data())};
    args.SetLayout(layout, kLayers, kPages);
    const Moved moved = MovedBy<CopyPages<CopyPagesShape>>(args);
    const int64_t bytes = int64_t{kLayers} * args.tiles_per_page * kTokens * args.row_bytes;
    EXPECT_EQ(moved.loaded, bytes);
    EXPECT_EQ(moved.stored, bytes);
    ExpectBytes(moved.all(), 2 * bytes);
  }
}

TEST(SmallCosts, PadRowsMovesRowsAndPaddedRows) {
  constexpr int kRows = 20, kColumns = 1002, kPadded = 1008;
  const int32_t num_rows = kRows;
  std::vector<uint16_t> x(kRows * kColumns), out(kRows * kPadded);
  const Moved moved = MovedBy<PadRows>(
      {.num_rows = &num_rows, .x = DeviceBF16(x), .columns = kColumns, .out = DeviceBF16(out)});
  ExpectBytes(moved.all(), 2 * kRows * (kColumns + kPadded));
}

TEST(SmallCosts, UnpackWeightMovesTilesAndRows) {
  for (const int columns : {640, 712}) {
    SCOPED_TRACE(columns);
    ProductProblem problem({.rows = 1, .columns = columns, .width = 16 * 5});
    const ProductInput input = problem.input();
    std::vector<dev::Vec4> out(static_cast<size_t>(2 * 16 * input.num_units * columns) / 16);
    const Moved moved = MovedBy<UnpackWeight>({.weight = input.weight,
                                               .num_units = input.num_units,
                                               .columns = columns,
                                               .out = reinterpret_cast<dev::bf16*>(out.data())});
    EXPECT_EQ(moved.all(), 2 * 16 * input.num_units * (64 * NumTiles(columns) + columns));
  }
}

template <class Epilogue>
Moved MovedByFinish(const ProductInput& input, const typename Epilogue::Args& epilogue) {
  std::vector<dev::Vec4> sums(static_cast<size_t>(*input.num_rows * 16 * input.num_units) / 4);
  return MovedBy<FinishProduct<Epilogue>>({.product = {input, epilogue},
                                           .sums = reinterpret_cast<const float*>(sums.data()),
                                           .first_row = 0,
                                           .max_rows = *input.num_rows});
}

TEST(SmallCosts, FinishProductMovesSumsAndWhatTheEpilogueDoes) {
  constexpr int kRows = 20, kWidth = 16 * 45;
  constexpr int64_t kSums = 4 * kRows * kWidth;
  ProductProblem problem({.rows = kRows, .columns = 64, .width = kWidth});
  const ProductInput input = problem.input();
  std::vector<float> out(kRows * kWidth);
  std::vector<uint16_t> half(kRows * kWidth / 2);
  ExpectBytes(MovedByFinish<StoreRows<float>>(input, {out.data(), nullptr, kWidth}).all(),
              kSums + 4 * kRows * kWidth);
  ExpectBytes(
      MovedByFinish<AddToHidden>(input, {.hidden = out.data(), .hidden_size = kWidth}).all(),
      kSums + 8 * kRows * kWidth);
  ExpectBytes(MovedByFinish<SiluGate>(input, {DeviceBF16(half), nullptr, kWidth / 2}).all(),
              kSums + 2 * kRows * kWidth / 2);
}

TEST(SmallCosts, AppendMovesAProductAndReadsAnglesForEachHead) {
  for (const int head_dim : {64, 128}) {
    SCOPED_TRACE(head_dim);
    constexpr int kHeads = 8, kKvHeads = 2, kEnd = 71;
    AttentionCase step({.num_heads = kHeads, .num_kv_heads = kKvHeads, .head_dim = head_dim},
                       {{0, 3, 20}, {1, 60, kEnd}});
    const int64_t tokens = step.num_tokens(), heads = kHeads + 2 * kKvHeads;
    const std::vector<float> product(static_cast<size_t>(tokens * heads * head_dim), 1);
    const std::vector<float> rope(static_cast<size_t>(kEnd * head_dim), 1);
    const auto report = emulator::Run<Append<float>>(
        {.num_blocks = kBlocks, .count_accesses = true}, {.step = &step.header(),
                                                          .product = product.data(),
                                                          .rope = rope.data(),
                                                          .query = step.query.data(),
                                                          .pool = step.pool.data(),
                                                          .layout = step.layout(),
                                                          .num_heads = kHeads});
    const Moved moved = MovedBy(report);
    EXPECT_EQ(moved.loaded, tokens * heads * head_dim * 4);
    EXPECT_EQ(moved.stored, tokens * heads * head_dim * 2);
    // Each lane loads angles, the row of its token in the plan, and 8 bytes that locate this row.
    const int64_t angles = tokens * (kHeads + kKvHeads) * head_dim * 4;
    const int64_t plan = tokens * heads * LanesPerHead(head_dim) * int64_t{sizeof(StepRow)};
    EXPECT_EQ(report.constant_bytes, angles + plan + 8 * kBlocks * Append<float>::kThreads);
  }
}

TEST(SmallCosts, SimpleAttentionReadsWhatItSeesForEachHead) {
  constexpr int kHeads = 4, kKvHeads = 2, kHeadDim = 32;
  AttentionCase step({.num_heads = kHeads, .num_kv_heads = kKvHeads, .head_dim = kHeadDim},
                     {{0, 250, 253}, {1, 99, 100}});
  int64_t positions = 0;
  for (const int32_t position : step.positions) positions += position + 1;
  const Moved moved = MovedBy(step.Run<SimpleAttention>(kBlocks, 1, true));
  const int64_t seen = positions * kKvHeads * 2 * 2 * kHeadDim;
  ExpectBytes(moved.loaded, kHeads / kKvHeads * seen);
  EXPECT_EQ(moved.stored, step.num_tokens() * kHeads * kHeadDim * 2);
}

}  // namespace
}  // namespace incipit::cuda
