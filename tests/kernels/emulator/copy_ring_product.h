// A product kernel for tests of the emulator. All threads fill a ring of stages in shared memory by
// copies of 16 bytes. The template parameter plants one mistake.
#pragma once

#include "kernels/cuda/device/device.h"

namespace incipit::emulator {

enum class RingBug : uint8_t {
  kNone,
  kWaitsForOneGroupLess,
  kNoBarrierAfterWait,
  kRefillsStageInUse,
  kComputesStageBeforeItsTurn,
  kUnswizzled,
};

// Computes out[M x N] f32 = a[M x K] * b[N x K]^T, with bf16 inputs. A thread block computes 64 x
// 64 elements of `out`: 4 warps with 16 rows each. In shared memory, a row has 64 elements of k,
// and chunk c of row r is at position c ^ (r & 7). Reads 2 * K * (M * N / 64) * 2 bytes and writes
// 4 * M * N bytes.
template <RingBug kBug>
struct CopyRingProduct {
  static constexpr int kThreads = 128, kStages = 3, kTile = 64;
  static constexpr int kTileBytes = kTile * kTile * 2;
  static constexpr int kSharedBytes = kStages * 2 * kTileBytes, kBlocksPerSm = 2;
  struct Args {
    const dev::bf16* a;
    const dev::bf16* b;
    float* out;
    int n, k;
  };

  static INCIPIT_DEVICE char* Chunk(int stage, int which, int row, int chunk) {
    const int part = kBug == RingBug::kUnswizzled ? chunk : chunk ^ (row & 7);
    return dev::SharedMemory() + (stage * 2 + which) * kTileBytes + row * 128 + part * 16;
  }

  static INCIPIT_DEVICE void Load(const Args& args, int row_a, int row_b, int stage, int k) {
    for (int i = dev::Thread(); i < kTile * 8; i += kThreads) {
      const int row = i / 8, chunk = i % 8;
      dev::CopyAsync16(Chunk(stage, 0, row, chunk),
                       args.a + (row_a + row) * args.k + k + chunk * 8);
      dev::CopyAsync16(Chunk(stage, 1, row, chunk),
                       args.b + (row_b + row) * args.k + k + chunk * 8);
    }
  }

  static INCIPIT_DEVICE void Multiply(float (&sums)[8][4], int stage) {
    const int lane = dev::Lane(), warp = dev::Warp();
    for (int k = 0; k < 4; ++k) {
      uint32_t a[4];
      dev::LoadMatricesWarp(a, Chunk(stage, 0, warp * 16 + lane % 16, k * 2 + lane / 16));
      for (int n = 0; n < 4; ++n) {
        uint32_t b[4];
        const int row = n * 16 + lane / 16 * 8 + lane % 8;
        dev::LoadMatricesWarp(b, Chunk(stage, 1, row, k * 2 + lane / 8 % 2));
        dev::MultiplyAddWarp(sums[2 * n], a, b[0], b[1]);
        dev::MultiplyAddWarp(sums[2 * n + 1], a, b[2], b[3]);
      }
    }
  }

  static INCIPIT_DEVICE void Run(const Args& args) {
    const int tiles_n = args.n / kTile, num_k = args.k / kTile;
    const int row_a = dev::Block() / tiles_n * kTile, row_b = dev::Block() % tiles_n * kTile;
    float sums[8][4] = {};
    for (int stage = 0; stage < kStages - 1; ++stage) {
      if (stage < num_k) Load(args, row_a, row_b, stage, stage * kTile);
      dev::CommitCopies();
    }
    for (int k = 0; k < num_k; ++k) {
      constexpr int kLeft = kBug == RingBug::kWaitsForOneGroupLess ? kStages - 1 : kStages - 2;
      dev::WaitCopies<kLeft>();
      if (kBug != RingBug::kNoBarrierAfterWait) dev::SyncBlock();
      const int next = k + kStages - 1;
      const int refilled = kBug == RingBug::kRefillsStageInUse ? k % kStages : next % kStages;
      if (next < num_k) Load(args, row_a, row_b, refilled, next * kTile);
      dev::CommitCopies();
      Multiply(sums, (kBug == RingBug::kComputesStageBeforeItsTurn ? k + 1 : k) % kStages);
    }
    for (int n = 0; n < 8; ++n) {
      const int row = row_a + dev::Warp() * 16 + dev::Lane() / 4;
      float* out = args.out + row * args.n + row_b + n * 8 + dev::Lane() % 4 * 2;
      dev::StoreGlobal(reinterpret_cast<dev::Vec2*>(out),
                       {{dev::BitCast<uint32_t>(sums[n][0]), dev::BitCast<uint32_t>(sums[n][1])}});
      dev::StoreGlobal(reinterpret_cast<dev::Vec2*>(out + 8 * args.n),
                       {{dev::BitCast<uint32_t>(sums[n][2]), dev::BitCast<uint32_t>(sums[n][3])}});
    }
  }
};

}  // namespace incipit::emulator
