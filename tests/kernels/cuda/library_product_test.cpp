// Tests the kernels before and after a product by a library: they unpack the weight, and finish the
// product. Also tests the bytes that these kernels move, and finds planted mistakes. The tests of
// the epilogues are in product_epilogues_test.cpp.
#include "tests/kernels/cuda/library_product.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace incipit::cuda {
namespace {

using ::testing::HasSubstr;

// Returns the number of rows in `unpacked` that differ from the matrix that the layout of
// packed_weight.h defines.
int WrongRows(ProductProblem& problem, const std::vector<Vec4>& unpacked) {
  const ProductShape& shape = problem.shape();
  const ProductInput input = problem.input();
  const auto columns = static_cast<size_t>(shape.columns);
  const auto* const bits = reinterpret_cast<const uint16_t*>(unpacked.data());
  const auto* const packed = reinterpret_cast<const uint16_t*>(input.weight);
  const size_t elements = static_cast<size_t>(NumTiles(shape.columns) * kTileElements) *
                          static_cast<size_t>(problem.num_units());
  std::vector<uint16_t> row(columns);
  int wrong = 0;
  for (int i = 0; i < problem.num_units() * kUnitRows; ++i) {
    const int64_t source = SourceRow(shape.order, shape.width, i, shape.head_dim);
    std::fill(row.begin(), row.end(), uint16_t{0});
    if (source >= 0) {
      UnpackRow({packed, elements}, shape.order, shape.width, source, row, shape.head_dim);
    }
    if (!std::equal(row.begin(), row.end(), bits + static_cast<size_t>(i) * columns)) ++wrong;
  }
  return wrong;
}

TEST(UnpackWeight, WritesEveryRowInItsPackedOrder) {
  for (const RowOrder order : {RowOrder::kPlain, RowOrder::kGateUp}) {
    for (const auto& [width, columns] :
         {std::pair{16, 8}, {44, 72}, {46, 104}, {138, 328}, {32, 1104}, {250, 512}}) {
      SCOPED_TRACE(testing::Message() << width << " x " << columns);
      ProductProblem problem({.rows = 1, .columns = columns, .width = width, .order = order});
      emulator::Report report;
      const std::vector<Vec4> unpacked = Unpacked(problem.input(), report);
      ASSERT_EQ(report.fault, "");
      EXPECT_EQ(WrongRows(problem, unpacked), 0);
    }
  }
}

TEST(UnpackWeight, WritesHeadsWithTheirHalvesSideBySide) {
  for (const int head_dim : {16, 80, 128}) {
    ProductProblem problem({.rows = 1,
                            .columns = 104,
                            .width = 3 * head_dim,
                            .order = RowOrder::kRotary,
                            .head_dim = head_dim});
    emulator::Report report;
    const std::vector<Vec4> unpacked = Unpacked(problem.input(), report);
    ASSERT_EQ(report.fault, "");
    EXPECT_EQ(WrongRows(problem, unpacked), 0);
  }
}

// A sector of memory (32 bytes), aligned like device memory.
struct alignas(32) Sector {
  Vec4 halves[2];
};

void ExpectWholeSectors(const emulator::Report& report) {
  for (const emulator::SiteCounts& site : report.sites) {
    if (site.lane_bytes != 16) continue;
    EXPECT_EQ(site.sectors, site.fewest_sectors) << site.file << ":" << site.line;
  }
}

TEST(UnpackWeight, MovesWhatItSays) {
  for (const int columns : {320, 328}) {
    ProductProblem problem({.rows = 1, .columns = columns, .width = 96});
    const ProductInput input = problem.input();
    const auto tiles = static_cast<size_t>(input.num_units * NumTiles(columns));
    std::vector<Sector> weight(tiles * kTileBytes / sizeof(Sector));
    std::memcpy(weight.data(), input.weight, tiles * kTileBytes);
    std::vector<Sector> out(static_cast<size_t>(96 * columns / 16));
    const auto report =
        emulator::Run<UnpackWeight>({.num_blocks = 3, .count_accesses = true},
                                    {.weight = reinterpret_cast<const dev::bf16*>(weight.data()),
                                     .num_units = input.num_units,
                                     .columns = columns,
                                     .out = reinterpret_cast<dev::bf16*>(out.data())});
    ASSERT_EQ(report.fault, "");
    EXPECT_EQ(report.constant_bytes + report.load_bytes + report.store_bytes,
              2 * 96 * (64 * NumTiles(columns) + columns));
    for (const emulator::SiteCounts& site : report.sites) {
      EXPECT_EQ(site.lane_bytes, 16) << site.line;
    }
    // If `columns` is not a multiple of 16, every second row of bf16 numbers begins in the middle
    // of a memory sector (32 bytes).
    if (columns % 16 == 0) ExpectWholeSectors(report);
  }
}

TEST(FinishProduct, MovesWhatItSays) {
  constexpr int kRows = 24, kHidden = 1104, kUnits = kHidden / kUnitRows;
  const std::vector<Sector> sums(size_t{kRows} * kHidden / 8);
  std::vector<Sector> hidden(size_t{kRows} * kHidden / 8);
  const int32_t num_rows = kRows;
  const auto report = emulator::Run<FinishProduct<AddToHidden>>(
      {.num_blocks = 2, .count_accesses = true},
      {.product = {.input = {.num_rows = &num_rows, .columns = 64, .num_units = kUnits},
                   .epilogue = {.hidden = reinterpret_cast<float*>(hidden.data()),
                                .hidden_size = kHidden}},
       .sums = reinterpret_cast<const float*>(sums.data()),
       .first_row = 0,
       .max_rows = kRows});
  ASSERT_EQ(report.fault, "");
  EXPECT_EQ(report.load_bytes + report.store_bytes, int64_t{12} * kRows * kHidden);
  EXPECT_EQ(report.bank_conflicts, 0);
  ExpectWholeSectors(report);
}

// ---- planted mistakes: each mistake is found, and the correct code passes

// Plants a mistake: tiles are unpacked in their order in memory, as if consecutive tiles formed no
// runs.
TEST(LibraryProductBugs, TilesTakenInTheOrderOfMemoryAreFound) {
  ProductProblem problem({.rows = 1, .columns = 512, .width = 32});
  ProductInput input = problem.input();
  emulator::Report report;
  std::vector<Vec4> unpacked = Unpacked(input, report);
  ASSERT_EQ(WrongRows(problem, unpacked), 0);
  // Unpacks the same memory as if each row of the weight had one tile, so that consecutive tiles
  // form no runs. Eight units of this weight have the memory of one unit with eight tiles.
  input.num_units *= NumTiles(512);
  input.columns = kTileColumns;
  const std::vector<Vec4> tiles = Unpacked(input, report);
  ASSERT_EQ(report.fault, "");
  for (int i = 0; i < 32; ++i) {
    for (int chunk = 0; chunk < 64; ++chunk) {
      const int tile = i / 16 * 8 + chunk / 8;
      unpacked[static_cast<size_t>(i * 64 + chunk)] =
          tiles[static_cast<size_t>((tile * 16 + i % 16) * 8 + chunk % 8)];
    }
  }
  EXPECT_GT(WrongRows(problem, unpacked), 0);
}

template <bool kWaits>
struct MakeSums {
  static constexpr int kThreads = 64, kSharedBytes = 0, kBlocksPerSm = 1;
  struct Args {
    float* out = nullptr;
    int32_t count = 0;
  };
  static INCIPIT_DEVICE void Run(const Args& args) {
    dev::LetNextKernelStart();
    if (kWaits) dev::WaitForEarlierKernels();
    for (int i = dev::Thread(); i < args.count; i += kThreads) dev::StoreGlobal(args.out + i, 1.0F);
  }
};

// Runs a kernel that writes new sums after a kernel that reads the old sums. If `kWaits` is true,
// the writing kernel waits for the reading kernel. Returns the fault.
template <bool kWaits>
std::string FaultOfTwoSlabs() {
  constexpr int kRows = 8, kHidden = 64;
  std::vector<Vec4> sums(size_t{kRows} * kHidden / 4);
  std::vector<float> hidden(size_t{kRows} * kHidden);
  const int32_t num_rows = kRows;
  const FinishProduct<AddToHidden>::Args finish = {
      .product = {.input = {.num_rows = &num_rows, .columns = 64, .num_units = kHidden / kUnitRows},
                  .epilogue = {.hidden = hidden.data(), .hidden_size = kHidden}},
      .sums = reinterpret_cast<const float*>(sums.data()),
      .first_row = 0,
      .max_rows = kRows};
  const typename MakeSums<kWaits>::Args make = {reinterpret_cast<float*>(sums.data()),
                                                kRows * kHidden};
  const emulator::KernelLaunch launches[] = {
      {.code = emulator::CodeOf<FinishProduct<AddToHidden>>("finish"),
       .args = &finish,
       .args_bytes = sizeof(finish)},
      {.code = emulator::CodeOf<MakeSums<kWaits>>("make sums"),
       .args = &make,
       .args_bytes = sizeof(make),
       .dependent = true}};
  std::string fault;
  for (uint64_t seed = 1; seed <= 20 && fault.empty(); ++seed) {
    fault = emulator::RunKernels({.seed = seed}, launches).fault;
  }
  return fault;
}

TEST(LibraryProductBugs, SumsWrittenWhileTheyAreFinishedAreFound) {
  EXPECT_EQ(FaultOfTwoSlabs<true>(), "");
  EXPECT_THAT(FaultOfTwoSlabs<false>(), HasSubstr("finish_product.h"));
}

// Plants a mistake: the second slab of rows is finished as if it were the first slab.
TEST(LibraryProductBugs, ASlabOfOtherRowsIsFound) {
  constexpr int kHidden = 40;
  ProductProblem problem({.rows = 16, .columns = 72, .width = kHidden});
  const ProductInput input = problem.input();
  emulator::Report report;
  const std::vector<float> all = SumsOf(input, Unpacked(input, report), 16);
  const size_t slab = size_t{8} * static_cast<size_t>(input.num_units) * kUnitRows;
  std::vector<Vec4> sums(slab / 4);
  std::memcpy(sums.data(), &all[slab], slab * sizeof(float));
  for (const bool right : {true, false}) {
    std::vector<float> hidden(size_t{16} * kHidden);
    ASSERT_EQ(emulator::Run<FinishProduct<AddToHidden>>(
                  {.num_blocks = 1},
                  {.product = {input, {.hidden = hidden.data(), .hidden_size = kHidden}},
                   .sums = reinterpret_cast<const float*>(sums.data()),
                   .first_row = right ? 8 : 0,
                   .max_rows = 8})
                  .fault,
              "");
    const double miss =
        std::abs(static_cast<double>(hidden[9 * kHidden + 3]) - problem.Exact(9, 3));
    EXPECT_EQ(miss < problem.Tolerance(9, 3), right);
  }
}

}  // namespace
}  // namespace incipit::cuda
