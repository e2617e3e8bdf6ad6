// Compares the bytes that product kernels move with the formulas in their headers, and checks that
// no access has a bank conflict.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/cuda/device/product/skinny_product.h"
#include "kernels/cuda/device/product/tiled_product.h"
#include "tests/kernels/cuda/append_rows_problem.h"
#include "tests/kernels/cuda/product_problem.h"

namespace incipit::cuda {
namespace {

using emulator::AccessKind;

// Checks that no memory access has a bank conflict, and that copies of the product's input x read
// whole sectors.
void ExpectNothingWasted(const emulator::Report& report) {
  EXPECT_EQ(report.fault, "");
  EXPECT_FALSE(report.sites.empty());
  for (const emulator::SiteCounts& site : report.sites) {
    const std::string where = site.file + ":" + std::to_string(site.line);
    EXPECT_EQ(site.bank_conflicts, 0) << where;
    if (site.kind == AccessKind::kGlobalCopy) {
      EXPECT_EQ(site.lane_bytes, 16) << where;
      EXPECT_EQ(site.sectors, site.fewest_sectors) << where;
    }
  }
}

template <int kTokens>
void CheckSkinny() {
  using Kernel = SkinnyProduct<SkinnyShape<kTokens, SiluGate>>;
  constexpr int kUnits = 11, kColumns = 640;
  ProductProblem problem(
      {.rows = kTokens, .columns = kColumns, .width = 16 * kUnits, .order = RowOrder::kGateUp});
  std::vector<uint16_t> out(kTokens * 8 * kUnits);
  const auto report =
      ReportOfProduct<Kernel>({.num_blocks = 1, .count_accesses = true}, problem.input(),
                              {DeviceBF16(out), nullptr, 8 * kUnits});
  ExpectNothingWasted(report);
  const int of_pass = Kernel::kMaxUnits * Kernel::kCluster;
  const int passes = (kUnits + of_pass - 1) / of_pass;
  EXPECT_EQ(report.bulk_bytes, kUnits * NumTiles(kColumns) * 2048);
  EXPECT_EQ(report.async_bytes, 2 * kTokens * kColumns * passes);
  EXPECT_EQ(report.store_bytes, 2 * kTokens * 8 * kUnits);
  EXPECT_LE(report.load_bytes + report.constant_bytes, 4 * Kernel::kThreads * Kernel::kCluster);
}

TEST(SkinnyProduct, MovesWhatItSays) {
  CheckSkinny<8>();
  CheckSkinny<16>();
  CheckSkinny<24>();
  CheckSkinny<32>();
  CheckSkinny<48>();
  CheckSkinny<64>();
}

// Checks a product that uses the sums of squares for the preceding norm, and that stores such sums
// for the next norm.
template <int kTokens>
void CheckSkinnyNorms() {
  using Kernel = SkinnyProduct<SkinnyShape<kTokens, AddToHidden>>;
  constexpr int kColumns = 640, kWidth = 8 * 19, kParts = kColumns / kUnitRows;
  ProductProblem problem({.rows = kTokens, .columns = kColumns, .width = kWidth});
  const int64_t units = problem.num_units();
  std::vector<float> hidden(kTokens * kWidth), squares(kTokens * kParts, 1);
  std::vector<float> next_squares(static_cast<size_t>(kTokens * units));
  std::vector<uint16_t> x(kTokens * kWidth);
  const std::vector<float> norm(kWidth, 1);
  ProductInput input = problem.input();
  input.squares = squares.data();
  input.num_squares = kParts;
  const auto report = ReportOfProduct<Kernel>({.num_blocks = 2, .count_accesses = true}, input,
                                              {.hidden = hidden.data(),
                                               .next_norm = norm.data(),
                                               .x = DeviceBF16(x),
                                               .squares = next_squares.data(),
                                               .hidden_size = kWidth});
  ExpectNothingWasted(report);
  EXPECT_EQ(report.load_bytes, 4 * kTokens * (kParts * report.num_blocks + kWidth));
  EXPECT_EQ(report.store_bytes, kTokens * (6 * kWidth + 4 * units));
}

TEST(SkinnyProduct, MovesWhatItSaysOfNorms) {
  CheckSkinnyNorms<8>();
  CheckSkinnyNorms<24>();
  CheckSkinnyNorms<32>();
  CheckSkinnyNorms<64>();
}

// Checks the bytes of a product that appends queries, keys and values. The formula for the
// constants is in append_rows.h.
template <class Kernel>
void CheckAppend(int rows, int num_blocks) {
  for (const int head_dim : {64, 128}) {
    AppendRowsProblem problem(
        {.rows = rows, .head_dim = head_dim, .page_size = 64, .columns = 128});
    AppendRowsProblem::Outcome outcome;
    int real_rows = 0;
    for (int row = 0; row < rows; ++row) real_rows += problem.step_row(row).slot >= 0;
    const auto report =
        ReportOfProduct<Kernel>({.num_blocks = num_blocks, .count_accesses = true},
                                problem.product().input(), problem.ArgsFor(outcome));
    ExpectNothingWasted(report);
    const int units = problem.width() / kUnitRows, rotated_units = units / 4 * 3;
    EXPECT_EQ(report.store_bytes, 2 * real_rows * problem.width());
    EXPECT_EQ(report.load_bytes, 0);
    // For each row and unit, four lanes load 32 bytes of cosines and sines each. Each of these
    // lanes also loads 20 bytes: 4 bytes that locate the row, and 16 bytes of the row. The 20 bytes
    // are loaded once for all units, or once for each unit.
    const int row_bytes = 4 * (4 + 16) * rows, rope_bytes = 4 * 32 * rotated_units * real_rows;
    EXPECT_GE(report.constant_bytes, row_bytes + rope_bytes);
    EXPECT_LE(report.constant_bytes,
              row_bytes * units + rope_bytes + 4 * Kernel::kThreads * report.num_blocks);
    for (const emulator::SiteCounts& site : report.sites) {
      if (site.kind != AccessKind::kGlobalStore) continue;
      EXPECT_EQ(site.lane_bytes, 8) << site.file << ":" << site.line;
      EXPECT_LE(site.sectors, 2 * site.fewest_sectors) << site.file << ":" << site.line;
    }
  }
}

TEST(SkinnyProduct, MovesWhatItSaysOfAppending) {
  CheckAppend<SkinnyProduct<SkinnyShape<8, AppendRows>>>(8, 2);
  CheckAppend<SkinnyProduct<SkinnyShape<16, AppendRows>>>(16, 2);
  CheckAppend<SkinnyProduct<SkinnyShape<32, AppendRows>>>(32, 1);
  CheckAppend<SkinnyProduct<SkinnyShape<64, AppendRows>>>(64, 1);
}

template <template <class> class Tiles>
void CheckTiled() {
  using Kernel = TiledProduct<Tiles<AddToHidden>>;
  constexpr int kColumns = 320, kTiles = 2, kTokenTile = Kernel::kTokenTile;
  constexpr int kWidth = kUnitRows * Kernel::kUnits * kTiles;
  ProductProblem problem({.rows = kTokenTile, .columns = kColumns, .width = kWidth});
  std::vector<float> hidden(size_t{kTokenTile} * kWidth);
  const auto report =
      ReportOfProduct<Kernel>({.num_blocks = 1, .count_accesses = true}, problem.input(),
                              {.hidden = hidden.data(), .hidden_size = kWidth});
  ExpectNothingWasted(report);
  EXPECT_EQ(report.bulk_bytes + report.async_bytes,
            kTiles * NumTiles(kColumns) * (2048 * Kernel::kUnits + 128 * kTokenTile));
  EXPECT_EQ(report.load_bytes + report.store_bytes, int64_t{8} * kTokenTile * kWidth);
  EXPECT_LE(report.constant_bytes, 4 * Kernel::kThreads);
}

TEST(TiledProduct, MovesWhatItSaysOfAppending) {
  CheckAppend<TiledProduct<LargeTiles<AppendRows>>>(200, 2);
  CheckAppend<TiledProduct<SmallTiles<AppendRows>>>(200, 3);
}

TEST(TiledProduct, MovesWhatItSays) {
  CheckTiled<LargeTiles>();
  CheckTiled<SmallTiles>();
}

}  // namespace
}  // namespace incipit::cuda
