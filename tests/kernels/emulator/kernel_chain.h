// Kernels for tests of the emulator. In a chain of two kernels, the second kernel starts before the
// first kernel ends, and loads its weights early. Another kernel adds numbers in the shared memory
// of all thread blocks of a cluster. The template parameter plants one mistake.
#pragma once

#include "kernels/cuda/device/device.h"

namespace incipit::emulator {

enum class ChainBug : uint8_t {
  kNone,
  kDoesNotWait,
  kReadsBeforeWaiting,
  kWritesBeforeWaiting,
  kOneThreadWaitsWithoutBarrier,
  kReadsResultAsConstant,
};

// Computes to[i] = 2 * from[i] for i in [0, 64 * NumBlocks()).
struct Doubled {
  static constexpr int kThreads = 64, kSharedBytes = 0, kBlocksPerSm = 1;
  struct Args {
    const float* from;
    float* to;
  };
  static INCIPIT_DEVICE void Run(const Args& args) {
    dev::LetNextKernelStart();
    dev::WaitForEarlierKernels();
    const int i = dev::Block() * kThreads + dev::Thread();
    dev::StoreGlobal(args.to + i, 2 * dev::LoadGlobal(args.from + i));
  }
};

// Computes to[i] = weights[i] * from[i] for i in [0, 64 * NumBlocks()). The previous kernel writes
// `from` and may read `to`.
template <ChainBug kBug>
struct Weighted {
  static constexpr int kThreads = 64, kSharedBytes = kThreads * 4 + 8, kBlocksPerSm = 1;
  struct Args {
    const float* weights;
    const float* from;
    float* to;
  };
  static INCIPIT_DEVICE void Run(const Args& args) {
    auto* weights = reinterpret_cast<float*>(dev::SharedMemory());
    auto* loaded = reinterpret_cast<dev::Barrier*>(weights + kThreads);
    const int i = dev::Block() * kThreads + dev::Thread();
    if (dev::Thread() == 0) {
      dev::InitBarrier(loaded, 1);
      dev::FenceBarriers();
      dev::ArriveExpecting(loaded, kThreads * 4);
      dev::CopyBulk(weights, args.weights + dev::Block() * kThreads, kThreads * 4, loaded);
    }
    dev::SyncBlock();
    dev::WaitBarrier(loaded, 0);
    const float weight = dev::LoadShared(weights + dev::Thread());
    float early = 0;
    if (kBug == ChainBug::kReadsBeforeWaiting) early = dev::LoadGlobal(args.from + i);
    if (kBug == ChainBug::kWritesBeforeWaiting) dev::StoreGlobal(args.to + i, weight);
    const bool waits = kBug == ChainBug::kOneThreadWaitsWithoutBarrier ? dev::Thread() == 0 : true;
    if (waits && kBug != ChainBug::kDoesNotWait) dev::WaitForEarlierKernels();
    const float x = kBug == ChainBug::kReadsBeforeWaiting      ? early
                    : kBug == ChainBug::kReadsResultAsConstant ? dev::LoadConstant(args.from + i)
                                                               : dev::LoadGlobal(args.from + i);
    dev::StoreGlobal(args.to + i, weight * x);
  }
};

enum class FenceBug : uint8_t {
  kNone,
  kNoFenceAfterTheKernelBefore,
  kNoFenceBeforeOverwriting,
  kFencesTheOtherMemory,
};

// Computes to[i] = from[i] + i for i in [0, 64 * NumBlocks()). The previous kernel writes `from`.
// The threads first store i in shared memory, and a bulk copy of `from` then overwrites it.
template <FenceBug kBug>
struct CopiedOver {
  static constexpr int kThreads = 64, kSharedBytes = kThreads * 4 + 8, kBlocksPerSm = 1;
  struct Args {
    const float* from;
    float* to;
  };
  static INCIPIT_DEVICE void Run(const Args& args) {
    auto* values = reinterpret_cast<float*>(dev::SharedMemory());
    auto* loaded = reinterpret_cast<dev::Barrier*>(values + kThreads);
    const int first = dev::Block() * kThreads;
    dev::StoreShared(values + dev::Thread(), static_cast<float>(first + dev::Thread()));
    const float i = dev::LoadShared(values + dev::Thread());
    if (dev::Thread() == 0) {
      dev::InitBarrier(loaded, 1);
      dev::FenceBarriers();
    }
    if (kBug == FenceBug::kNoFenceAfterTheKernelBefore) dev::FenceBulkGlobal();
    if (kBug != FenceBug::kNoFenceBeforeOverwriting) dev::FenceBulkShared();
    dev::SyncBlock();
    if (dev::Thread() == 0) {
      dev::WaitForEarlierKernels();
      if (kBug == FenceBug::kFencesTheOtherMemory) dev::FenceBulkShared();
      if (kBug == FenceBug::kNone || kBug == FenceBug::kNoFenceBeforeOverwriting) {
        dev::FenceBulkGlobal();
      }
      dev::ArriveExpecting(loaded, kThreads * 4);
      dev::CopyBulk(values, args.from + first, kThreads * 4, loaded);
    }
    dev::WaitBarrier(loaded, 0);
    dev::StoreGlobal(args.to + first + dev::Thread(), dev::LoadShared(values + dev::Thread()) + i);
  }
};

enum class ClusterBug : uint8_t {
  kNone,
  kNoSyncBeforeReading,
  kEndsWhileOthersRead,
  kTakesTheFirstSyncForTheLast,
  kEndsWithoutWaiting,
  kOverwritesBeforeWaiting,
  kOverwritesAfterSyncCluster,
  kReadsBetweenArrivingAndWaiting,
  kReadsOwnMemoryTooEarly,
};

// Writes to out[block] the sum of value[b] over all thread blocks b of the same cluster, added in
// the order of their ranks. Then adds the squares of the values in the same way.
template <ClusterBug kBug>
struct ClusterSum {
  static constexpr int kThreads = 64, kSharedBytes = 16, kBlocksPerSm = 1, kBlocks = 4;
  struct Args {
    const uint32_t* value;
    uint32_t* out;
  };
  static INCIPIT_DEVICE void Run(const Args& args) {
    auto* mine = reinterpret_cast<uint32_t*>(dev::SharedMemory());
    const uint32_t value = dev::LoadConstant(args.value + dev::Block());
    if (dev::Thread() == 0) dev::StoreShared(mine, value);
    if (kBug == ClusterBug::kReadsOwnMemoryTooEarly && dev::Thread() == 40) {
      dev::LoadCluster(mine, dev::ClusterRank());
    }
    if (kBug != ClusterBug::kNoSyncBeforeReading) dev::SyncCluster();
    uint32_t sum = Sum(mine);
    if (kBug == ClusterBug::kOverwritesAfterSyncCluster) {
      dev::SyncCluster();
    } else {
      dev::ArriveCluster();
      if (kBug == ClusterBug::kReadsBetweenArrivingAndWaiting) sum = Sum(mine);
      if (kBug != ClusterBug::kOverwritesBeforeWaiting) dev::WaitCluster();
    }
    if (dev::Thread() == 0) dev::StoreShared(mine, value * value);
    if (kBug == ClusterBug::kOverwritesBeforeWaiting) dev::WaitCluster();
    dev::SyncCluster();
    sum += Sum(mine);
    if (kBug == ClusterBug::kTakesTheFirstSyncForTheLast) {
      dev::SyncCluster();
    } else if (kBug != ClusterBug::kEndsWhileOthersRead) {
      dev::ArriveCluster();
      if (kBug != ClusterBug::kEndsWithoutWaiting) dev::WaitCluster();
    }
    if (dev::Thread() == 0) dev::StoreGlobal(args.out + dev::Block(), sum);
  }

 private:
  static INCIPIT_DEVICE uint32_t Sum(const uint32_t* mine) {
    uint32_t sum = 0;
    for (int rank = 0; rank < kBlocks; ++rank) sum += dev::LoadCluster(mine, rank);
    return sum;
  }
};

}  // namespace incipit::emulator
