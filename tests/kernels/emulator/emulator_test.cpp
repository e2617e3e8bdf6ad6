#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/emulator/run.h"
#include "tests/kernels/emulator/bulk_ring_product.h"
#include "tests/kernels/emulator/copy_ring_product.h"

namespace incipit::emulator {
namespace {

TEST(Emulator, MultipliesInARingOfCopiesForManySeeds) {
  constexpr int kM = 64, kN = 128, kK = 256;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<dev::bf16> a(kM * kK), b(kN * kK);
  for (auto& x : a) x = dev::ToBF16(normal(random));
  for (auto& x : b) x = dev::ToBF16(normal(random));
  std::vector<float> expected(kM * kN);
  for (int i = 0; i < kM; ++i) {
    for (int j = 0; j < kN; ++j) {
      float sum = 0;
      for (int k = 0; k < kK; ++k) sum += dev::ToFloat(a[i * kK + k]) * dev::ToFloat(b[j * kK + k]);
      expected[i * kN + j] = sum;
    }
  }
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    std::vector<float> out(kM * kN, NAN);
    const auto report = emulator::Run<CopyRingProduct<RingBug::kNone>>(
        {.num_blocks = 2, .seed = seed}, {a.data(), b.data(), out.data(), kN, kK});
    ASSERT_EQ(report.fault, "");
    EXPECT_EQ(out, expected);
    EXPECT_EQ(report.async_bytes, 2 * kK * (kM * kN / 64) * 2);
  }
}

template <RingBug kBug>
int64_t BankConflictsOfRing() {
  constexpr int kK = 128;
  std::vector<dev::bf16> a(64 * kK), b(64 * kK);
  std::vector<float> out(64 * 64);
  const auto report = emulator::Run<CopyRingProduct<kBug>>(
      {.count_accesses = true}, {a.data(), b.data(), out.data(), 64, kK});
  EXPECT_EQ(report.fault, "");
  return report.bank_conflicts;
}

TEST(Emulator, CountsTheConflictsThatASwizzleAvoids) {
  EXPECT_EQ(BankConflictsOfRing<RingBug::kNone>(), 0);
  // Without the swizzle, 8 rows of 128 bytes begin at the same bank, so the rows are accessed one
  // after another.
  EXPECT_GE(BankConflictsOfRing<RingBug::kUnswizzled>(), 2 * 4 * 4 * 4 * 7);
}

TEST(Emulator, MultipliesInARingOfBulkCopiesForManySeeds) {
  using Kernel = BulkRingProduct<BulkBug::kNone>;
  constexpr int kBlocks = 5, kK = 64;
  std::vector<float> tiles(kBlocks * Kernel::kRows * kK), x(kK);
  for (size_t i = 0; i < tiles.size(); ++i) tiles[i] = static_cast<float>(i % 13) - 6;
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<float> sums(kBlocks * Kernel::kRows, NAN);
    const auto report = emulator::Run<Kernel>({.num_blocks = kBlocks, .seed = seed},
                                              {tiles.data(), x.data(), sums.data(), kK});
    ASSERT_EQ(report.fault, "");
    for (int row = 0; row < kBlocks * Kernel::kRows; ++row) {
      float sum = 0;
      for (int k = 0; k < kK; ++k) {
        const int tile = row / Kernel::kRows * (kK / 4) + k / 4;
        sum += tiles[(tile * Kernel::kRows + row % Kernel::kRows) * 4 + k % 4] * x[k];
      }
      ASSERT_EQ(sums[row], sum) << row;
    }
    EXPECT_EQ(report.bulk_bytes, 4 * kBlocks * Kernel::kRows * kK);
  }
}

}  // namespace
}  // namespace incipit::emulator
