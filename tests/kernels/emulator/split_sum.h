// A kernel for tests of the emulator that divides a sum among thread blocks. The last thread block
// to arrive adds all parts in a fixed order. The attention kernels combine splits of the KV cache
// in the same way. The template parameter plants one mistake.
#pragma once

#include "kernels/cuda/device/device.h"

namespace incipit::emulator {

enum class SplitBug : uint8_t {
  kNone,
  kStartsCombiningAtItsOwn,
  kDropsSplit,
  kArrivesBeforeAllHaveStored,
  kReadsFlagWithoutBarrier,
  kEveryBlockCombines,
  kCounterIsNotReset,
};

// Computes out[c] = sum over rows of in[row][c] for 64 columns in f32. Each of NumBlocks() thread
// blocks sums rows_per_split rows. `parts` is [splits][64] f32. `arrivals` is one counter that is 0
// before and after.
template <SplitBug kBug>
struct SplitSum {
  static constexpr int kThreads = 64, kColumns = 64, kSharedBytes = 16, kBlocksPerSm = 1;
  struct Args {
    const float* in;
    float* parts;
    uint32_t* arrivals;
    float* out;
    int rows_per_split;
  };

  static INCIPIT_DEVICE void Combine(const Args& args, int column, uint32_t arrival) {
    float sum = 0;
    const int num_splits = dev::NumBlocks() - (kBug == SplitBug::kDropsSplit ? 1 : 0);
    for (int i = 0; i < num_splits; ++i) {
      const bool from_own = kBug == SplitBug::kStartsCombiningAtItsOwn;
      const int split = from_own ? (dev::Block() + i) % num_splits : i;
      sum = dev::Add(sum, dev::LoadGlobal(args.parts + split * kColumns + column));
    }
    dev::StoreGlobal(args.out + column, sum);
    const bool resets = kBug != SplitBug::kCounterIsNotReset && arrival + 1 == Blocks();
    if (column == 0 && resets) dev::StoreGlobal(args.arrivals, 0U);
  }
  static INCIPIT_DEVICE uint32_t Blocks() { return static_cast<uint32_t>(dev::NumBlocks()); }

  static INCIPIT_DEVICE void Run(const Args& args) {
    const int column = dev::Thread();
    const int first = dev::Block() * args.rows_per_split;
    float sum = 0;
    for (int row = first; row < first + args.rows_per_split; ++row) {
      sum = dev::Add(sum, dev::LoadConstant(args.in + row * kColumns + column));
    }
    dev::StoreGlobal(args.parts + dev::Block() * kColumns + column, sum);
    if (kBug != SplitBug::kArrivesBeforeAllHaveStored) dev::SyncBlock();
    auto* shared = reinterpret_cast<uint32_t*>(dev::SharedMemory());
    if (column == 0) dev::StoreShared(shared, dev::AtomicAddGlobal(args.arrivals, 1U));
    if (kBug != SplitBug::kReadsFlagWithoutBarrier) dev::SyncBlock();
    const uint32_t mine = dev::LoadShared(shared);
    if (mine + 1 != Blocks() && kBug != SplitBug::kEveryBlockCombines) return;
    Combine(args, column, mine);
  }
};

}  // namespace incipit::emulator
