// A product kernel for tests of the emulator, with the structure of Incipit's fast kernels. A
// producer warp loads weights by bulk copies; mbarriers count the arrived bytes. The other warps
// consume the weights. The template parameter plants one mistake.
#pragma once

#include "kernels/cuda/device/device.h"

namespace incipit::emulator {

enum class BulkBug : uint8_t {
  kNone,
  kWrongFullParity,
  kWrongEmptyParity,
  kNoExpectedBytes,
  kExpectsTooMany,
  kFreesStageBeforeReading,
  kOneWarpNeverFrees,
  kNoFenceAfterInit,
  kReadsWithoutWaiting,
};

// Computes sums[row] = sum over k of weights[row][k] * x[k] in f32. Thread block b computes the
// rows [96 * b, 96 * (b + 1)). In each thread block, 3 consumer warps compute one row per lane, and
// one producer warp loads weights. The weights are packed in tiles of [96 rows][4 k], one bulk copy
// per tile. Moves 4 * rows * k bytes.
template <BulkBug kBug>
struct BulkRingProduct {
  static constexpr int kConsumers = 3, kThreads = 32 * (kConsumers + 1), kRows = 32 * kConsumers;
  static constexpr int kStages = 4, kDepth = 4, kTileBytes = kRows * kDepth * 4;
  static constexpr int kBarriersAt = kStages * kTileBytes;
  static constexpr int kSharedBytes = kBarriersAt + 2 * kStages * 8, kBlocksPerSm = 2;
  struct Args {
    const float* tiles;
    const float* x;
    float* sums;
    int k;
  };

  static INCIPIT_DEVICE dev::Barrier* Full(int stage) {
    return reinterpret_cast<dev::Barrier*>(dev::SharedMemory() + kBarriersAt) + stage;
  }
  static INCIPIT_DEVICE dev::Barrier* Empty(int stage) { return Full(stage) + kStages; }

  static INCIPIT_DEVICE void Produce(const Args& args, int num_tiles) {
    for (int tile = 0; tile < num_tiles; ++tile) {
      const int stage = tile % kStages;
      const auto turn = static_cast<uint32_t>(tile / kStages);
      const uint32_t wrong = kBug == BulkBug::kWrongEmptyParity ? 1 : 0;
      if (turn > 0) dev::WaitBarrier(Empty(stage), (turn - 1 + wrong) & 1);
      const uint32_t expected = kTileBytes + (kBug == BulkBug::kExpectsTooMany ? 16 : 0);
      if (kBug == BulkBug::kNoExpectedBytes) {
        dev::Arrive(Full(stage));
      } else {
        dev::ArriveExpecting(Full(stage), expected);
      }
      const float* from = args.tiles + (dev::Block() * num_tiles + tile) * kRows * kDepth;
      dev::CopyBulk(dev::SharedMemory() + stage * kTileBytes, from, kTileBytes, Full(stage));
    }
  }

  static INCIPIT_DEVICE void Consume(const Args& args, int num_tiles) {
    const int row = dev::Thread();
    float sum = 0;
    for (int tile = 0; tile < num_tiles; ++tile) {
      const int stage = tile % kStages;
      const auto turn = static_cast<uint32_t>(tile / kStages);
      const uint32_t wrong = kBug == BulkBug::kWrongFullParity ? 1 : 0;
      if (kBug != BulkBug::kReadsWithoutWaiting || turn == 0) {
        dev::WaitBarrier(Full(stage), (turn + wrong) & 1);
      }
      if (kBug == BulkBug::kFreesStageBeforeReading && dev::Lane() == 0) dev::Arrive(Empty(stage));
      const auto* weights =
          reinterpret_cast<const dev::Vec4*>(dev::SharedMemory() + stage * kTileBytes) + row;
      const dev::Vec4 four = dev::LoadShared(weights);
      for (int i = 0; i < kDepth; ++i) {
        sum = dev::Fma(dev::BitCast<float>(four.word[i]),
                       dev::LoadConstant(args.x + tile * kDepth + i), sum);
      }
      if (kBug == BulkBug::kFreesStageBeforeReading) continue;
      dev::SyncWarp();
      const bool frees = kBug != BulkBug::kOneWarpNeverFrees || dev::Warp() != 1;
      if (dev::Lane() == 0 && frees) dev::Arrive(Empty(stage));
    }
    dev::StoreGlobal(args.sums + dev::Block() * kRows + row, sum);
  }

  static INCIPIT_DEVICE void Run(const Args& args) {
    if (dev::Thread() == 0) {
      for (int stage = 0; stage < kStages; ++stage) {
        dev::InitBarrier(Full(stage), 1);
        dev::InitBarrier(Empty(stage), kConsumers);
      }
      if (kBug != BulkBug::kNoFenceAfterInit) dev::FenceBarriers();
    }
    dev::SyncBlock();
    const int num_tiles = args.k / kDepth;
    if (dev::Warp() < kConsumers) {
      Consume(args, num_tiles);
    } else if (dev::Lane() == 0) {
      Produce(args, num_tiles);
    }
  }
};

}  // namespace incipit::emulator
