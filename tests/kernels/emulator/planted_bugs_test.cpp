// Tests that a correct kernel passes with every seed, and that the emulator finds each planted
// mistake. A mistake is found by a reported fault or by a wrong result. docs/testing.md lists the
// mistakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "kernels/emulator/run.h"
#include "tests/kernels/emulator/bulk_ring_product.h"
#include "tests/kernels/emulator/copy_ring_product.h"
#include "tests/kernels/emulator/kernel_chain.h"
#include "tests/kernels/emulator/split_sum.h"
#include "tests/kernels/emulator/warp_sums.h"
#include "tests/kernels/emulator/warpgroup_ring_product.h"

namespace incipit::emulator {
namespace {

constexpr uint64_t kCorrectSeeds = 25, kBuggySeeds = 8;

// Runs a kernel. Returns the fault or a description of the wrong result. Returns an empty text if
// the run is correct.
using Trial = std::function<std::string(uint64_t seed)>;

void ExpectCorrect(const Trial& trial) {
  for (uint64_t seed = 1; seed <= kCorrectSeeds; ++seed) ASSERT_EQ(trial(seed), "") << seed;
}

// Expects that every seed finds the mistake, not only some seeds by chance.
void ExpectAlwaysFound(const Trial& trial, const std::string& words) {
  for (uint64_t seed = 1; seed <= kBuggySeeds; ++seed) {
    EXPECT_THAT(trial(seed), testing::HasSubstr(words)) << seed;
  }
}

template <class T>
std::string Judge(const Report& report, const std::vector<T>& result,
                  const std::vector<T>& expected) {
  if (!report.fault.empty()) return report.fault;
  return result == expected ? "" : "wrong result";
}

// Two matrices of small whole numbers, and their product a[M x K] * b[N x K]^T.
struct WholeProduct {
  WholeProduct(size_t m, size_t n, size_t k) : a(m * k), b(n * k), expected(m * n) {
    for (size_t i = 0; i < a.size(); ++i) a[i] = dev::ToBF16(static_cast<float>(i % 5) - 2);
    for (size_t i = 0; i < b.size(); ++i) b[i] = dev::ToBF16(static_cast<float>(i % 7) - 3);
    for (size_t index = 0; index < expected.size(); ++index) {
      for (size_t i = 0; i < k; ++i) {
        expected[index] += dev::ToFloat(a[index / n * k + i]) * dev::ToFloat(b[index % n * k + i]);
      }
    }
  }
  std::vector<dev::bf16> a, b;
  std::vector<float> expected;
};

template <RingBug kBug>
std::string CopyRing(uint64_t seed) {
  constexpr int kM = 64, kN = 64, kK = 320;
  const WholeProduct product(kM, kN, kK);
  std::vector<float> out(kM * kN, NAN);
  const auto report = emulator::Run<CopyRingProduct<kBug>>(
      {.seed = seed}, {product.a.data(), product.b.data(), out.data(), kN, kK});
  return Judge(report, out, product.expected);
}

TEST(PlantedBugs, ARingOfCopiesIsRight) { ExpectCorrect(CopyRing<RingBug::kNone>); }
TEST(PlantedBugs, WaitingForOneGroupLessIsFound) {
  ExpectAlwaysFound(CopyRing<RingBug::kWaitsForOneGroupLess>, "which has not waited");
}
TEST(PlantedBugs, AMissingBarrierAfterTheWaitIsFound) {
  ExpectAlwaysFound(CopyRing<RingBug::kNoBarrierAfterWait>, "race");
}
TEST(PlantedBugs, RefillingAStageInUseIsFound) {
  ExpectAlwaysFound(CopyRing<RingBug::kRefillsStageInUse>, "race");
}
TEST(PlantedBugs, ComputingAStageBeforeItsTurnIsFound) {
  ExpectAlwaysFound(CopyRing<RingBug::kComputesStageBeforeItsTurn>, "which has not waited");
}

template <BulkBug kBug>
std::string BulkRing(uint64_t seed) {
  using Kernel = BulkRingProduct<kBug>;
  constexpr int kBlocks = 3, kK = 48;
  std::vector<float> tiles(kBlocks * Kernel::kRows * kK), x(kK);
  for (size_t i = 0; i < tiles.size(); ++i) tiles[i] = static_cast<float>(i % 13) - 6;
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3;
  std::vector<float> sums(kBlocks * Kernel::kRows, NAN), expected(sums.size());
  for (size_t row = 0; row < sums.size(); ++row) {
    for (size_t k = 0; k < kK; ++k) {
      const size_t tile = row / Kernel::kRows * (kK / 4) + k / 4;
      expected[row] += tiles[(tile * Kernel::kRows + row % Kernel::kRows) * 4 + k % 4] * x[k];
    }
  }
  const auto report = emulator::Run<Kernel>({.num_blocks = kBlocks, .seed = seed},
                                            {tiles.data(), x.data(), sums.data(), kK});
  return Judge(report, sums, expected);
}

TEST(PlantedBugs, ARingOfBulkCopiesIsRight) { ExpectCorrect(BulkRing<BulkBug::kNone>); }
TEST(PlantedBugs, AConsumersWrongParityIsFound) {
  ExpectAlwaysFound(BulkRing<BulkBug::kWrongFullParity>, "race");
}
TEST(PlantedBugs, AProducersWrongParityIsFound) {
  ExpectAlwaysFound(BulkRing<BulkBug::kWrongEmptyParity>, "bulk_ring_product.h");
}
TEST(PlantedBugs, UnexpectedBytesAreFound) {
  ExpectAlwaysFound(BulkRing<BulkBug::kNoExpectedBytes>, "expects only 0 more");
}
TEST(PlantedBugs, BytesThatNeverComeAreFound) {
  ExpectAlwaysFound(BulkRing<BulkBug::kExpectsTooMany>, "deadlock");
}
TEST(PlantedBugs, FreeingAStageBeforeReadingItIsFound) {
  ExpectAlwaysFound(BulkRing<BulkBug::kFreesStageBeforeReading>, "race");
}
TEST(PlantedBugs, AWarpThatNeverFreesIsFound) {
  ExpectAlwaysFound(BulkRing<BulkBug::kOneWarpNeverFrees>, "deadlock");
}
TEST(PlantedBugs, AMissingFenceAfterInitBarrierIsFound) {
  ExpectAlwaysFound(BulkRing<BulkBug::kNoFenceAfterInit>, "not called FenceBarriers");
}
TEST(PlantedBugs, ReadingABulkCopyWithoutWaitingIsFound) {
  ExpectAlwaysFound(BulkRing<BulkBug::kReadsWithoutWaiting>, "race");
}

template <WarpgroupBug kBug>
std::string WarpgroupRing(uint64_t seed) {
  constexpr int kK = 448;
  const WholeProduct product(64, 128, kK);
  std::vector<float> out(64 * 128, NAN);
  const auto report = emulator::Run<WarpgroupRingProduct<kBug>>(
      {.seed = seed}, {product.a.data(), product.b.data(), out.data(), kK});
  return Judge(report, out, product.expected);
}

TEST(PlantedBugs, AWarpgroupsProductIsRight) { ExpectCorrect(WarpgroupRing<WarpgroupBug::kNone>); }
TEST(PlantedBugs, MultiplyingUnfencedCopiesIsFound) {
  ExpectAlwaysFound(WarpgroupRing<WarpgroupBug::kNoFenceAfterCopies>, "without FenceBulkShared");
}
TEST(PlantedBugs, FencingCopiesAfterAnnouncingThemIsFound) {
  ExpectAlwaysFound(WarpgroupRing<WarpgroupBug::kFencesAfterArriving>, "without FenceBulkShared");
}
TEST(PlantedBugs, FreeingAStageThatIsBeingMultipliedIsFound) {
  ExpectAlwaysFound(WarpgroupRing<WarpgroupBug::kFreesStageInFlight>, "may still read");
}
TEST(PlantedBugs, TakingSumsInFlightIsFound) {
  ExpectAlwaysFound(WarpgroupRing<WarpgroupBug::kTakesSumsInFlight>, "wrong result");
}
TEST(PlantedBugs, WritingSumsInFlightIsFound) {
  ExpectAlwaysFound(WarpgroupRing<WarpgroupBug::kWritesSumsInFlight>, "wrote sums");
}
TEST(PlantedBugs, TakingSumsThatWereNotEndedIsFound) {
  ExpectAlwaysFound(WarpgroupRing<WarpgroupBug::kTakesSumsWithoutEnd>, "wrong result");
}
TEST(PlantedBugs, TouchingSumsAfterTheirFenceIsFound) {
  ExpectAlwaysFound(WarpgroupRing<WarpgroupBug::kTouchesFencedSums>, "not call FenceMultiplies");
}
TEST(PlantedBugs, AMissingFenceOfSumsIsFound) {
  ExpectAlwaysFound(WarpgroupRing<WarpgroupBug::kNoFenceOfSums>, "not call FenceMultiplies");
}
TEST(PlantedBugs, AWarpThatMultipliesLessThanItsGroupIsFound) {
  ExpectAlwaysFound(WarpgroupRing<WarpgroupBug::kOneWarpMultipliesLess>, "its warpgroup");
}
TEST(PlantedBugs, AMatrixThatIsNotAlignedIsFound) {
  ExpectAlwaysFound(WarpgroupRing<WarpgroupBug::kUnalignedMatrix>,
                    "its remainder modulo 1024 must be less than 128");
}
TEST(PlantedBugs, EndingBeforeMultiplicationsHaveEndedIsFound) {
  ExpectAlwaysFound(WarpgroupRing<WarpgroupBug::kEndsInFlight>, "had not waited for");
}
TEST(PlantedBugs, MultiplyingWhatIsNotThereIsFound) {
  ExpectAlwaysFound(WarpgroupRing<WarpgroupBug::kOrdersNothing>, "race");
}

template <SplitBug kBug>
std::string Split(uint64_t seed) {
  using Kernel = SplitSum<kBug>;
  constexpr int kSplits = 6, kRows = 5, kColumns = Kernel::kColumns;
  std::vector<float> in(kSplits * kRows * kColumns), parts(kSplits * kColumns, NAN);
  for (size_t i = 0; i < in.size(); ++i) in[i] = 1.0F / static_cast<float>(i + 1);
  std::vector<float> out(kColumns, NAN), expected(kColumns);
  for (size_t c = 0; c < kColumns; ++c) {
    for (size_t split = 0; split < kSplits; ++split) {
      float part = 0;
      for (size_t r = 0; r < kRows; ++r) part += in[(split * kRows + r) * kColumns + c];
      expected[c] += part;
    }
  }
  uint32_t arrivals = 0;
  const typename Kernel::Args args{in.data(), parts.data(), &arrivals, out.data(), kRows};
  const RunOptions options{.num_blocks = kSplits, .seed = seed};
  for (int launch = 0; launch < 2; ++launch) {
    const auto report = emulator::Run<Kernel>(options, args);
    if (auto wrong = Judge(report, out, expected); !wrong.empty()) return wrong;
    out.assign(out.size(), NAN);
  }
  return "";
}

TEST(PlantedBugs, ASumInPartsIsRight) { ExpectCorrect(Split<SplitBug::kNone>); }
TEST(PlantedBugs, AnUnorderedCombineIsFound) {
  // Mistake: the last thread block to arrive starts the sum at its own part. For one of the six
  // thread blocks, this is the correct part, so some seeds do not find the mistake.
  int found = 0;
  for (uint64_t seed = 1; seed <= kCorrectSeeds; ++seed) {
    found += Split<SplitBug::kStartsCombiningAtItsOwn>(seed) == "wrong result";
  }
  EXPECT_GE(found, 10);
}
TEST(PlantedBugs, ADroppedSplitIsFound) {
  ExpectAlwaysFound(Split<SplitBug::kDropsSplit>, "wrong result");
}
TEST(PlantedBugs, ArrivingBeforeAllHaveStoredIsFound) {
  ExpectAlwaysFound(Split<SplitBug::kArrivesBeforeAllHaveStored>, "race");
}
TEST(PlantedBugs, ReadingTheArrivalWithoutABarrierIsFound) {
  ExpectAlwaysFound(Split<SplitBug::kReadsFlagWithoutBarrier>, "race");
}
TEST(PlantedBugs, CombiningBeforeTheLastArrivalIsFound) {
  ExpectAlwaysFound(Split<SplitBug::kEveryBlockCombines>, "race");
}
TEST(PlantedBugs, ACounterThatIsNotResetIsFound) {
  ExpectAlwaysFound(Split<SplitBug::kCounterIsNotReset>, "wrong result");
}

template <ChainBug kBug>
std::string Chain(uint64_t seed) {
  constexpr int kBlocks = 5, kCount = kBlocks * 64;
  std::vector<float> from(kCount), middle(kCount, NAN), weights(kCount), to(kCount, NAN);
  std::vector<float> expected(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    from[i] = static_cast<float>(i);
    weights[i] = static_cast<float>(i % 3);
    expected[i] = weights[i] * 2 * from[i];
  }
  // The second kernel writes its result to the memory that the first kernel reads.
  const Doubled::Args first{from.data(), middle.data()};
  const typename Weighted<kBug>::Args second{weights.data(), middle.data(), from.data()};
  const KernelLaunch launches[] = {
      {CodeOf<Doubled>(), &first, sizeof(first), kBlocks, 1, false},
      {CodeOf<Weighted<kBug>>(), &second, sizeof(second), kBlocks, 1, true}};
  const auto report = RunKernels({.seed = seed}, launches);
  return Judge(report, from, expected);
}

TEST(PlantedBugs, AKernelThatStartsEarlyIsRight) { ExpectCorrect(Chain<ChainBug::kNone>); }
TEST(PlantedBugs, AMissingWaitForTheKernelBeforeIsFound) {
  ExpectAlwaysFound(Chain<ChainBug::kDoesNotWait>, "race");
}
TEST(PlantedBugs, ReadingBeforeTheKernelBeforeHasEndedIsFound) {
  ExpectAlwaysFound(Chain<ChainBug::kReadsBeforeWaiting>, "race");
}
TEST(PlantedBugs, WritingBeforeTheKernelBeforeHasEndedIsFound) {
  ExpectAlwaysFound(Chain<ChainBug::kWritesBeforeWaiting>, "race");
}
TEST(PlantedBugs, WaitingInOneThreadAloneIsFound) {
  ExpectAlwaysFound(Chain<ChainBug::kOneThreadWaitsWithoutBarrier>, "race");
}
TEST(PlantedBugs, ReadingAResultAsAConstantIsFound) {
  ExpectAlwaysFound(Chain<ChainBug::kReadsResultAsConstant>, "as a constant");
}

template <FenceBug kBug>
std::string Fences(uint64_t seed) {
  constexpr int kBlocks = 3, kCount = kBlocks * 64;
  std::vector<float> from(kCount), middle(kCount), to(kCount, NAN), expected(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    from[i] = static_cast<float>(i % 7);
    expected[i] = 2 * from[i] + static_cast<float>(i);
  }
  const Doubled::Args first{from.data(), middle.data()};
  const typename CopiedOver<kBug>::Args second{middle.data(), to.data()};
  const KernelLaunch launches[] = {
      {CodeOf<Doubled>(), &first, sizeof(first), kBlocks, 1, false},
      {CodeOf<CopiedOver<kBug>>(), &second, sizeof(second), kBlocks, 1, true}};
  const auto report = RunKernels({.seed = seed}, launches);
  return Judge(report, to, expected);
}

TEST(PlantedBugs, ABulkCopyOfWhatOrdinaryAccessesWroteIsRight) {
  ExpectCorrect(Fences<FenceBug::kNone>);
}
TEST(PlantedBugs, AMissingFenceAfterTheKernelBeforeIsFound) {
  ExpectAlwaysFound(Fences<FenceBug::kNoFenceAfterTheKernelBefore>,
                    "FenceBulkGlobal was not called after");
}
TEST(PlantedBugs, AMissingFenceBeforeABulkCopyOverwritesIsFound) {
  ExpectAlwaysFound(Fences<FenceBug::kNoFenceBeforeOverwriting>, "without FenceBulkShared over");
}

TEST(PlantedBugs, AFenceOfTheOtherMemoryIsFound) {
  ExpectAlwaysFound(Fences<FenceBug::kFencesTheOtherMemory>,
                    "FenceBulkGlobal was not called after");
}

template <ClusterBug kBug>
std::string Clusters(uint64_t seed) {
  using Kernel = ClusterSum<kBug>;
  constexpr int kClusters = 3, kBlocks = kClusters * Kernel::kBlocks;
  std::vector<uint32_t> value(kBlocks), out(kBlocks), expected(kBlocks);
  for (uint32_t i = 0; i < kBlocks; ++i) value[i] = i * i;
  for (size_t i = 0; i < kBlocks; ++i) {
    for (size_t rank = 0; rank < Kernel::kBlocks; ++rank) {
      const uint32_t one = value[i / Kernel::kBlocks * Kernel::kBlocks + rank];
      expected[i] += one + one * one;
    }
  }
  const auto report =
      emulator::Run<Kernel>({.num_blocks = kBlocks, .cluster = Kernel::kBlocks, .seed = seed},
                            {value.data(), out.data()});
  return Judge(report, out, expected);
}

TEST(PlantedBugs, AClustersSumIsRight) { ExpectCorrect(Clusters<ClusterBug::kNone>); }
TEST(PlantedBugs, ReadingAnotherBlocksMemoryTooEarlyIsFound) {
  ExpectAlwaysFound(Clusters<ClusterBug::kNoSyncBeforeReading>, "race");
}
TEST(PlantedBugs, EndingWhileAnotherBlockReadsIsFound) {
  ExpectAlwaysFound(Clusters<ClusterBug::kEndsWhileOthersRead>, "ended");
}
TEST(PlantedBugs, EndingWithASyncClusterThatOrdersNoReadsIsFound) {
  ExpectAlwaysFound(Clusters<ClusterBug::kTakesTheFirstSyncForTheLast>, "ended");
}
TEST(PlantedBugs, EndingWithoutWaitingForTheClusterIsFound) {
  ExpectAlwaysFound(Clusters<ClusterBug::kEndsWithoutWaiting>, "ended");
}
TEST(PlantedBugs, OverwritingWhatAnotherBlockReadsIsFound) {
  ExpectAlwaysFound(Clusters<ClusterBug::kOverwritesBeforeWaiting>, "may still read");
  ExpectAlwaysFound(Clusters<ClusterBug::kOverwritesAfterSyncCluster>, "may still read");
}
TEST(PlantedBugs, ReadingBetweenArrivingAndWaitingIsFound) {
  ExpectAlwaysFound(Clusters<ClusterBug::kReadsBetweenArrivingAndWaiting>, "between");
}
TEST(PlantedBugs, ReadingOnesOwnMemoryTooEarlyIsFound) {
  ExpectAlwaysFound(Clusters<ClusterBug::kReadsOwnMemoryTooEarly>, "race");
}

template <ApartBug kBug>
std::string Apart(uint64_t seed) {
  using Kernel = WarpSums<kBug>;
  constexpr int kRounds = 3;
  std::vector<uint32_t> value(kRounds * Kernel::kThreads), out(1), expected(1);
  for (uint32_t i = 0; i < value.size(); ++i) expected[0] += value[i] = i * i + 1;
  const auto report = emulator::Run<Kernel>({.seed = seed}, {value.data(), out.data(), kRounds});
  return Judge(report, out, expected);
}

TEST(PlantedBugs, SumsOfWarpsAreRight) { ExpectCorrect(Apart<ApartBug::kNone>); }
TEST(PlantedBugs, AskingForTheWarpInOneLaneIsFound) {
  ExpectAlwaysFound(Apart<ApartBug::kAsksForTheWarpInOneLane>, "wait for Warp");
}
TEST(PlantedBugs, AShuffleInTwoPlacesIsFound) {
  ExpectAlwaysFound(Apart<ApartBug::kShufflesInTwoPlaces>, "other lanes of its warp wait in");
}
TEST(PlantedBugs, ABarrierInTwoPlacesIsFound) {
  ExpectAlwaysFound(Apart<ApartBug::kBarrierInTwoPlaces>, "other lanes of its warp wait in");
}
TEST(PlantedBugs, LeavingALoopOfShufflesLaneByLaneIsFound) {
  ExpectAlwaysFound(Apart<ApartBug::kLeavesTheLoopLaneByLane>, "other lanes of its warp wait in");
}

}  // namespace
}  // namespace incipit::emulator
