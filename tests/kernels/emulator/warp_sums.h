// A sum for tests of the emulator. Each warp stores its sum in shared memory, and one thread adds
// the sums. The template parameter plants one mistake: only some lanes execute an operation that
// all lanes of a warp must execute together.
#pragma once

#include "kernels/cuda/device/device.h"

namespace incipit::emulator {

enum class ApartBug : uint8_t {
  kNone,
  kAsksForTheWarpInOneLane,
  kShufflesInTwoPlaces,
  kBarrierInTwoPlaces,
  kLeavesTheLoopLaneByLane,
};

// Computes out[0] = the sum of value[i] for i in [0, 64 * rounds).
template <ApartBug kBug>
struct WarpSums {
  static constexpr int kThreads = 64, kSharedBytes = kThreads / 32 * 4, kBlocksPerSm = 1;
  struct Args {
    const uint32_t* value;
    uint32_t* out;
    int rounds;
  };

  static INCIPIT_DEVICE uint32_t SumOfWarp(uint32_t value) {
    for (int mask = 16; mask > 0; mask /= 2) value += dev::ShuffleXorWarp(value, mask);
    return value;
  }
  // Computes the same sum as SumOfWarp, but half of the lanes take another branch.
  static INCIPIT_DEVICE uint32_t SumInTwoPlaces(uint32_t value) {
    for (int mask = 16; mask > 0; mask /= 2) {
      if (dev::Lane() < 16) {
        value += dev::ShuffleXorWarp(value, mask);
      } else {
        value += dev::ShuffleXorWarp(value, mask);
      }
    }
    return value;
  }

  static INCIPIT_DEVICE void Run(const Args& args) {
    auto* sums = reinterpret_cast<uint32_t*>(dev::SharedMemory());
    uint32_t mine = 0;
    for (int round = 0; round < args.rounds; ++round) {
      if (kBug == ApartBug::kLeavesTheLoopLaneByLane && round + dev::Lane() >= args.rounds) break;
      const uint32_t value = dev::LoadConstant(args.value + round * kThreads + dev::Thread());
      mine += kBug == ApartBug::kShufflesInTwoPlaces ? SumInTwoPlaces(value) : SumOfWarp(value);
    }
    if (kBug == ApartBug::kAsksForTheWarpInOneLane) {
      if (dev::Lane() == 0) dev::StoreShared(sums + dev::Warp(), mine);
    } else {
      const int warp = dev::Warp();
      if (dev::Lane() == 0) dev::StoreShared(sums + warp, mine);
    }
    if (kBug == ApartBug::kBarrierInTwoPlaces && dev::Lane() == 0) {
      dev::SyncBlock();
    } else {
      dev::SyncBlock();
    }
    if (dev::Thread() != 0) return;
    uint32_t sum = 0;
    for (int warp = 0; warp < kThreads / 32; ++warp) sum += dev::LoadShared(sums + warp);
    dev::StoreGlobal(args.out, sum);
  }
};

}  // namespace incipit::emulator
