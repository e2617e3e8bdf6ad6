// A product kernel for tests of the emulator. A fifth warp fills a ring of stages, and a warpgroup
// multiplies the stages with tensor instructions. The template parameter plants one mistake.
#pragma once

#include "kernels/cuda/device/device.h"

namespace incipit::emulator {

enum class WarpgroupBug : uint8_t {
  kNone,
  kNoFenceAfterCopies,
  kFencesAfterArriving,
  kFreesStageInFlight,
  kTakesSumsInFlight,
  kWritesSumsInFlight,
  kTakesSumsWithoutEnd,
  kNoFenceOfSums,
  kTouchesFencedSums,
  kOneWarpMultipliesLess,
  kUnalignedMatrix,
  kEndsInFlight,
  kOrdersNothing,
};

// Computes out[64 x 128] f32 = a[64 x K] * b[128 x K]^T with bf16 inputs. REQUIRES: K is a multiple
// of 64.
template <WarpgroupBug kBug>
struct WarpgroupRingProduct {
  static constexpr int kThreads = 160, kBlocksPerSm = 1, kStages = 3, kTokens = 128;
  static constexpr int kBytesOfA = 64 * 128, kStageBytes = kBytesOfA + kTokens * 128;
  static constexpr int kBarriersAt = kStages * kStageBytes + 1024;
  static constexpr int kSharedBytes = kBarriersAt + 2 * kStages * 8;
  struct Args {
    const dev::bf16* a;
    const dev::bf16* b;
    float* out;
    int k;
  };

  static INCIPIT_DEVICE char* Stage(int stage) {
    const int skew = kBug == WarpgroupBug::kUnalignedMatrix ? 512 : 0;
    return dev::SharedMemory() + stage * kStageBytes + skew;
  }
  static INCIPIT_DEVICE dev::Barrier* Full(int stage) {
    return reinterpret_cast<dev::Barrier*>(dev::SharedMemory() + kBarriersAt) + stage;
  }
  static INCIPIT_DEVICE dev::Barrier* Empty(int stage) { return Full(kStages + stage); }

  static INCIPIT_DEVICE void Copy(const Args& args) {
    for (int step = 0; step < args.k / 64; ++step) {
      const int stage = step % kStages;
      if (step >= kStages) {
        dev::WaitBarrier(Empty(stage), static_cast<uint32_t>(step / kStages + 1) & 1);
      }
      for (int i = dev::Lane(); i < (64 + kTokens) * 8; i += 32) {
        const int row = i / 8, chunk = i % 8;
        const dev::bf16* const from =
            row < 64 ? args.a + row * args.k : args.b + (row - 64) * args.k;
        dev::CopyAsync16(Stage(stage) + row * 128 + (chunk ^ row % 8) * 16,
                         from + step * 64 + chunk * 8);
      }
      dev::CommitCopies();
      dev::WaitCopies<0>();
      constexpr bool kIsLate = kBug == WarpgroupBug::kFencesAfterArriving;
      if (kBug != WarpgroupBug::kNoFenceAfterCopies && !kIsLate) dev::FenceBulkShared();
      dev::SyncWarp();
      if (dev::Lane() == 0) dev::Arrive(Full(stage));
      if (kIsLate) dev::FenceBulkShared();
    }
  }

  static INCIPIT_DEVICE void Free(int step) {
    dev::SyncWarp();
    if (dev::Lane() == 0) dev::Arrive(Empty(step % kStages));
  }

  static INCIPIT_DEVICE void Multiply(const Args& args) {
    float sums[kTokens / 8][4] = {};
    const int warp = dev::Warp();
    for (int step = 0; step < args.k / 64; ++step) {
      if (kBug != WarpgroupBug::kOrdersNothing) {
        dev::WaitBarrier(Full(step % kStages), static_cast<uint32_t>(step / kStages) & 1);
      }
      const char* const stage = Stage(step % kStages);
      const bool is_less = kBug == WarpgroupBug::kOneWarpMultipliesLess && warp == 2;
      if (kBug != WarpgroupBug::kNoFenceOfSums) dev::FenceMultiplies(sums);
      if (kBug == WarpgroupBug::kTouchesFencedSums && step == 0) sums[0][0] = 1;
      for (int i = 0; i < (is_less ? 3 : 4); ++i) {
        dev::MultiplyAddWarpgroup(sums, stage + i * 32, stage + kBytesOfA + i * 32);
      }
      dev::CommitMultiplies();
      if (kBug == WarpgroupBug::kFreesStageInFlight) {
        Free(step);
      } else {
        dev::WaitMultiplies<1>();
        if (step > 0) Free(step - 1);
      }
    }
    if (kBug == WarpgroupBug::kWritesSumsInFlight) sums[3][1] = 0;
    if (kBug == WarpgroupBug::kTakesSumsInFlight) Store(args, sums);
    if (kBug == WarpgroupBug::kEndsInFlight) return;
    if (kBug == WarpgroupBug::kTakesSumsWithoutEnd) {
      dev::WaitMultiplies<0>();
    } else {
      dev::EndMultiplies(sums);
    }
    if (kBug != WarpgroupBug::kTakesSumsInFlight) Store(args, sums);
  }

  static INCIPIT_DEVICE void Store(const Args& args, const float (&sums)[kTokens / 8][4]) {
    for (int i = 0; i < kTokens / 8; ++i) {
      const int row = dev::Warp() * 16 + dev::Lane() / 4;
      float* const out = args.out + row * kTokens + i * 8 + dev::Lane() % 4 * 2;
      for (int j = 0; j < 4; ++j) dev::StoreGlobal(out + j / 2 * 8 * kTokens + j % 2, sums[i][j]);
    }
  }

  static INCIPIT_DEVICE void Run(const Args& args) {
    if (dev::Thread() == 0) {
      for (int i = 0; i < kStages; ++i) {
        dev::InitBarrier(Full(i), 1);
        dev::InitBarrier(Empty(i), 4);
      }
      dev::FenceBarriers();
    }
    dev::SyncBlock();
    if (dev::Warp() == 4) {
      Copy(args);
    } else {
      Multiply(args);
    }
  }
};

}  // namespace incipit::emulator
