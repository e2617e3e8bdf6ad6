// Tests that each function of kernels/cuda/device/device.h works on the host as its comment says,
// and that the emulator reports misuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/emulator/run.h"

namespace incipit::emulator {
namespace {

using testing::HasSubstr;

// A kernel that calls one function with an array of words.
template <int kNumThreads = 32, int kBytes = 1024>
struct Small {
  static constexpr int kThreads = kNumThreads, kSharedBytes = kBytes, kBlocksPerSm = 1;
  struct Args {
    void (*body)(uint32_t* words);
    uint32_t* words;
  };
  static void Run(const Args& args) { args.body(args.words); }
};

template <int kNumThreads = 32, int kBytes = 1024>
std::string FaultOf(std::vector<uint32_t>& words, void (*body)(uint32_t*),
                    const RunOptions& options = {}) {
  return emulator::Run<Small<kNumThreads, kBytes>>(options, {body, words.data()}).fault;
}

uint32_t ThreadNumber() { return static_cast<uint32_t>(dev::Thread()); }
uint32_t* Shared() { return reinterpret_cast<uint32_t*>(dev::SharedMemory()); }

TEST(Device, LanesExchangeValues) {
  std::vector<uint32_t> words(32 * 5);
  ASSERT_EQ(FaultOf(words,
                    [](uint32_t* out) {
                      uint32_t* mine = out + ThreadNumber() * 5;
                      mine[0] = dev::ShuffleXorWarp(ThreadNumber(), 5);
                      mine[1] = dev::ShuffleWarp(ThreadNumber(), 7);
                      mine[2] = dev::ShuffleUpWarp(ThreadNumber(), 4);
                      mine[3] = dev::BallotWarp(dev::Lane() % 3 == 0);
                      mine[4] = static_cast<uint32_t>(
                          dev::ShuffleXorWarp(uint64_t{ThreadNumber()} << 32, 1) >> 32);
                    }),
            "");
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t* mine = words.data() + lane * 5;
    EXPECT_EQ(mine[0], lane ^ 5);
    EXPECT_EQ(mine[1], 7);
    EXPECT_EQ(mine[2], lane >= 4 ? lane - 4 : lane);
    EXPECT_EQ(mine[3], 0x49249249);
    EXPECT_EQ(mine[4], lane ^ 1);
  }
}

TEST(Device, MatricesAreLoadedStraightAndTransposed) {
  std::vector<uint32_t> words(32 * 8);
  ASSERT_EQ(FaultOf(words,
                    [](uint32_t* out) {
                      // Element (r, c) of matrix m has the value 1000 * m + 10 * r + c.
                      auto* elements = reinterpret_cast<uint16_t*>(dev::SharedMemory());
                      for (int i = dev::Lane() * 8; i < dev::Lane() * 8 + 8; ++i) {
                        const int matrix = i / 64, row = i / 8 % 8, column = i % 8;
                        dev::StoreShared(elements + i,
                                         static_cast<uint16_t>(matrix * 1000 + row * 10 + column));
                      }
                      dev::SyncWarp();
                      uint32_t straight[4], transposed[4];
                      dev::LoadMatricesWarp(straight, elements + dev::Lane() * 8);
                      dev::LoadMatricesTransposedWarp(transposed, elements + dev::Lane() * 8);
                      for (int i = 0; i < 4; ++i) {
                        out[dev::Lane() * 8 + i] = straight[i];
                        out[dev::Lane() * 8 + 4 + i] = transposed[i];
                      }
                    }),
            "");
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for (uint32_t m = 0; m < 4; ++m) {
      const uint32_t g = lane / 4, q = lane % 4 * 2;
      const uint32_t low = m * 1000 + g * 10 + q;
      EXPECT_EQ(words[lane * 8 + m], low | (low + 1) << 16);
      const uint32_t turned = m * 1000 + q * 10 + g;
      EXPECT_EQ(words[lane * 8 + 4 + m], turned | (turned + 10) << 16);
    }
  }
}

TEST(Device, SharedMemoryStartsAsNotANumber) {
  std::vector<uint32_t> words(2);
  ASSERT_EQ(FaultOf(words,
                    [](uint32_t* out) {
                      if (dev::Thread() != 0) return;
                      out[0] =
                          std::isnan(dev::LoadShared(reinterpret_cast<float*>(dev::SharedMemory())))
                              ? 1
                              : 0;
                      out[1] = std::isnan(dev::ToFloat(dev::LoadShared(
                                   reinterpret_cast<dev::bf16*>(dev::SharedMemory()) + 5)))
                                   ? 1
                                   : 0;
                    }),
            "");
  EXPECT_EQ(words, (std::vector<uint32_t>{1, 1}));
}

TEST(Device, NumbersAreRoundedToTheNearestBF16) {
  EXPECT_EQ(dev::ToBF16(1.0F).bits, 0x3F80);
  EXPECT_EQ(dev::ToBF16(1.00390625F).bits, 0x3F80);  // a tie is rounded to even
  EXPECT_EQ(dev::ToBF16(1.01171875F).bits, 0x3F82);
  EXPECT_EQ(dev::ToBF16(3.4e38F).bits, 0x7F80);
  EXPECT_TRUE(std::isnan(dev::ToFloat(dev::ToBF16(NAN))));
  EXPECT_EQ(dev::PackBF16(1, 2), 0x40003F80U);
  EXPECT_EQ(dev::LowFloat(0x40003F80), 1);
  EXPECT_EQ(dev::HighFloat(0x40003F80), 2);
  EXPECT_EQ(dev::Exp2(-INFINITY), 0);
  EXPECT_EQ(dev::Reciprocal(0), INFINITY);
  EXPECT_EQ(dev::Max(NAN, 3.0F), 3);
  EXPECT_EQ(dev::MultiplyHigh(uint64_t{1} << 63, 6), 3U);
}

TEST(Device, NamedBarriersOrderWarpsThatNameThem) {
  std::vector<uint32_t> words(64);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    ASSERT_EQ((FaultOf<128>(words,
                            [](uint32_t* out) {
                              // Warp 0 passes a row to warp 1, and warp 2 passes a row to warp 3.
                              // Each pair uses its own barrier.
                              const int pair = dev::Warp() / 2;
                              uint32_t* word = Shared() + pair * 32 + dev::Lane();
                              if (dev::Warp() % 2 == 0) dev::StoreShared(word, ThreadNumber());
                              dev::SyncThreads(1 + pair, 64);
                              if (dev::Warp() % 2 == 1)
                                out[pair * 32 + dev::Lane()] = dev::LoadShared(word);
                            },
                            {.seed = seed})),
              "");
    for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(words[i], i / 32 * 64 + i % 32);
  }
}

TEST(Device, BlocksAreCountedByAtomicsInAnyOrder) {
  std::vector<uint32_t> words(17);
  std::vector<std::vector<uint32_t>> orders;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    words.assign(17, 0);
    ASSERT_EQ(FaultOf(words,
                      [](uint32_t* out) {
                        if (dev::Thread() == 0)
                          out[1 + dev::Block()] = dev::AtomicAddGlobal(out, 1U);
                      },
                      {.num_blocks = 16, .seed = seed}),
              "");
    EXPECT_EQ(words[0], 16);
    orders.emplace_back(words.begin() + 1, words.end());
    auto sorted = orders.back();
    std::sort(sorted.begin(), sorted.end());
    for (uint32_t i = 0; i < 16; ++i) EXPECT_EQ(sorted[i], i);
  }
  EXPECT_NE(orders[0], orders[1]);
}

TEST(Device, OneSeedIsOneRun) {
  const auto order = [](uint64_t seed) {
    std::vector<uint32_t> words(17);
    EXPECT_EQ(FaultOf(words,
                      [](uint32_t* out) {
                        if (dev::Thread() == 0)
                          out[1 + dev::Block()] = dev::AtomicAddGlobal(out, 1U);
                      },
                      {.num_blocks = 16, .seed = seed}),
              "");
    return words;
  };
  EXPECT_EQ(order(7), order(7));
}

// ---- faults and their messages

TEST(Device, ADeadlockNamesTheThreadsAndWhereTheyWait) {
  std::vector<uint32_t> words(1);
  const auto fault = FaultOf<64>(words, [](uint32_t*) {
    if (dev::Warp() == 0) dev::SyncBlock();
  });
  EXPECT_THAT(fault, HasSubstr("deadlock"));
  EXPECT_THAT(fault, HasSubstr("SyncBlock"));
  EXPECT_THAT(fault, HasSubstr("device_test.cpp"));
  EXPECT_THAT(fault, HasSubstr("threads 0,1,2"));
}

TEST(Device, LanesThatCallDifferentThingsTogetherAreFound) {
  std::vector<uint32_t> words(1);
  EXPECT_THAT(FaultOf(words,
                      [](uint32_t*) {
                        if (dev::Lane() < 16) {
                          dev::SyncWarp();
                        } else {
                          dev::BallotWarp(true);
                        }
                      }),
              HasSubstr("while other lanes of its warp wait in"));
}

TEST(Device, AccessesOutsideOfSharedMemoryAreFound) {
  std::vector<uint32_t> words(1);
  EXPECT_THAT((FaultOf<32, 128>(
                  words, [](uint32_t*) { dev::StoreShared(Shared() + dev::Lane() + 1, 1U); })),
              HasSubstr("outside of the 128 bytes"));
}

TEST(Device, MisalignedAccessesAreFound) {
  std::vector<uint32_t> words(8);
  EXPECT_THAT(FaultOf(words,
                      [](uint32_t*) {
                        dev::LoadMatricesWarp(*reinterpret_cast<uint32_t(*)[4]>(Shared()),
                                              dev::SharedMemory() + 8);
                      }),
              HasSubstr("not aligned"));
  EXPECT_THAT(FaultOf(words, [](uint32_t* in) { dev::CopyAsync16(dev::SharedMemory(), in + 1); }),
              HasSubstr("not aligned"));
}

TEST(Device, TwoWritersOfAWordAreARace) {
  std::vector<uint32_t> words(1);
  EXPECT_THAT(FaultOf(words, [](uint32_t*) { dev::StoreShared(Shared(), ThreadNumber()); }),
              HasSubstr("race"));
}

TEST(Device, WritersOfDifferentBytesOfAWordAreNone) {
  std::vector<uint32_t> words(1);
  EXPECT_EQ(FaultOf(words,
                    [](uint32_t*) {
                      auto* halves = reinterpret_cast<uint16_t*>(dev::SharedMemory());
                      dev::StoreShared(halves + dev::Thread(),
                                       static_cast<uint16_t>(dev::Thread()));
                      const uint16_t mine = dev::LoadShared(halves + dev::Thread());
                      dev::StoreShared(halves + dev::Thread(), static_cast<uint16_t>(mine + 1));
                    }),
            "");
}

TEST(Device, AShuffleOrdersNoMemory) {
  std::vector<uint32_t> words(1);
  EXPECT_THAT(FaultOf(words,
                      [](uint32_t*) {
                        dev::StoreShared(Shared() + dev::Lane(), ThreadNumber());
                        dev::ShuffleXorWarp(0U, 1);
                        dev::LoadShared(Shared() + (dev::Lane() ^ 1));
                      }),
              HasSubstr("race"));
}

TEST(Device, BlocksThatWriteOneWordAreARace) {
  std::vector<uint32_t> words(32);
  EXPECT_THAT(
      FaultOf(words, [](uint32_t* out) { dev::StoreGlobal(out + dev::Lane(), ThreadNumber()); },
              {.num_blocks = 2}),
      HasSubstr("race"));
}

// ---- counts

template <int kStride>
SiteCounts CountsOfStride() {
  std::vector<uint32_t> words(32);
  const auto report = emulator::Run<Small<32, 32 * kStride * 4>>(
      {.count_accesses = true},
      {[](uint32_t*) { dev::StoreShared(Shared() + dev::Lane() * kStride, ThreadNumber()); },
       words.data()});
  EXPECT_EQ(report.fault, "");
  EXPECT_EQ(report.sites.size(), 1U);
  return report.sites.at(0);
}

TEST(Device, BankConflictsAreCounted) {
  EXPECT_EQ(CountsOfStride<1>().bank_conflicts, 0);
  EXPECT_EQ(CountsOfStride<2>().bank_conflicts, 1);
  EXPECT_EQ(CountsOfStride<32>().bank_conflicts, 31);
  EXPECT_EQ(CountsOfStride<33>().bank_conflicts, 0);
  EXPECT_EQ(CountsOfStride<33>().warp_accesses, 1);
  EXPECT_EQ(CountsOfStride<33>().lane_accesses, 32);
}

TEST(Device, SectorsAndWidthsAreCounted) {
  alignas(64) static uint32_t words[32 * 8];
  const auto report = emulator::Run<Small<32>>(
      {.count_accesses = true},
      {[](uint32_t* in) {
         dev::LoadGlobal(in + dev::Lane());
         dev::LoadConstant(in + dev::Lane() * 8);
         dev::LoadGlobal(reinterpret_cast<const dev::Vec4*>(in) + dev::Lane());
       },
       words});
  ASSERT_EQ(report.fault, "");
  ASSERT_EQ(report.sites.size(), 3U);
  EXPECT_EQ(report.sites[0].sectors, 4);
  EXPECT_EQ(report.sites[0].fewest_sectors, 4);
  EXPECT_EQ(report.sites[1].kind, AccessKind::kConstantLoad);
  EXPECT_EQ(report.sites[1].sectors, 32);
  EXPECT_EQ(report.sites[1].fewest_sectors, 4);
  EXPECT_EQ(report.sites[2].lane_bytes, 16);
  EXPECT_EQ(report.sites[2].sectors, 16);
  EXPECT_EQ(report.load_bytes, 32 * 4 + 32 * 16);
  EXPECT_EQ(report.constant_bytes, 32 * 4);
}

}  // namespace
}  // namespace incipit::emulator
