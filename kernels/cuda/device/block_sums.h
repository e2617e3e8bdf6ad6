// Integer sums over the threads of a thread block, and a histogram in shared memory with 64-bit
// bins. All threads of the thread block must call each function together, except Add.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"

namespace incipit::cuda {

inline constexpr int kBinBits = 11;
inline constexpr int kBins = 1 << kBinBits;

struct BlockSumsMemory {
  alignas(16) uint32_t low[kBins];
  alignas(16) uint32_t high[kBins];
  uint64_t of_warps[32];
  uint64_t found_wanted, found_sum;
  uint32_t found_bin;
};

template <int kThreads>
class BlockSums {
 public:
  struct Scan {
    // `own`: value of this thread. `before`: sum of the values of all threads with lower indices.
    // `total`: sum of the values of all threads.
    uint64_t before = 0, own = 0, total = 0;
  };
  struct Found {
    uint32_t bin = 0;
    uint64_t wanted = 0;  // argument `wanted` of Find, minus the sum of all bins below `bin`
    uint64_t sum = 0;     // sum of all values added to `bin`
  };

  explicit INCIPIT_DEVICE BlockSums(BlockSumsMemory* memory) : memory_(memory) {}

  INCIPIT_DEVICE Scan ScanThreads(uint64_t value) const {
    uint64_t sum = value;
    INCIPIT_UNROLL
    for (int distance = 1; distance < 32; distance *= 2) {
      const uint64_t below = dev::ShuffleUpWarp(sum, distance);
      if (dev::Lane() >= distance) sum += below;
    }
    const int mine = dev::Warp();
    if (dev::Lane() == 31) dev::StoreShared(&memory_->of_warps[mine], sum);
    dev::SyncBlock();
    Scan scan = {.before = sum - value, .own = value};
    for (int warp = 0; warp < kWarps; ++warp) {
      const uint64_t of_warp = dev::LoadShared(&memory_->of_warps[warp]);
      if (warp < mine) scan.before += of_warp;
      scan.total += of_warp;
    }
    dev::SyncBlock();
    return scan;
  }

  INCIPIT_DEVICE uint64_t Min(uint64_t value) const {
    INCIPIT_UNROLL
    for (int mask = 16; mask > 0; mask /= 2) {
      const uint64_t other = dev::ShuffleXorWarp(value, mask);
      value = other < value ? other : value;
    }
    const int mine = dev::Warp();
    if (dev::Lane() == 0) dev::StoreShared(&memory_->of_warps[mine], value);
    dev::SyncBlock();
    for (int warp = 0; warp < kWarps; ++warp) {
      const uint64_t of_warp = dev::LoadShared(&memory_->of_warps[warp]);
      value = of_warp < value ? of_warp : value;
    }
    dev::SyncBlock();
    return value;
  }

  // Sets all bins of the histogram to zero.
  INCIPIT_DEVICE void Clear() const {
    auto* const words = reinterpret_cast<dev::Vec4*>(memory_->low);
    for (int i = dev::Thread(); i < 2 * kBins / 4; i += kThreads) {
      dev::StoreShared(words + i, dev::Vec4{});
    }
    dev::SyncBlock();
  }

  INCIPIT_DEVICE void Add(uint32_t bin, uint64_t value) const {
    if (value == 0) return;
    const auto low = static_cast<uint32_t>(value);
    const uint32_t before = dev::AtomicAddShared(&memory_->low[bin], low);
    const uint32_t high = static_cast<uint32_t>(value >> 32) + (before + low < before ? 1u : 0u);
    if (high != 0) dev::AtomicAddShared(&memory_->high[bin], high);
  }

  // Adds up the bins of the histogram: thread t adds bins [t * kBinsPerThread, (t + 1) *
  // kBinsPerThread). All threads call ScanBins together.
  INCIPIT_DEVICE Scan ScanBins() const {
    dev::SyncBlock();
    uint64_t sum = 0;
    for (int i = 0; i < kBinsPerThread; i += 4) sum += SumOfFour(FirstBin() + i);
    return ScanThreads(sum);
  }

  // Returns the lowest bin at which the sum of all bins up to this bin is at least `wanted`.
  // REQUIRES: `wanted` is in [1, scan.total].
  INCIPIT_DEVICE Found Find(uint64_t wanted, const Scan& scan) const {
    if (scan.before < wanted && wanted <= scan.before + scan.own) {
      Found found = {.bin = static_cast<uint32_t>(FirstBin()), .wanted = wanted - scan.before};
      for (found.sum = SumOf(found.bin); found.sum < found.wanted; found.sum = SumOf(found.bin)) {
        found.wanted -= found.sum;
        ++found.bin;
      }
      dev::StoreShared(&memory_->found_bin, found.bin);
      dev::StoreShared(&memory_->found_wanted, found.wanted);
      dev::StoreShared(&memory_->found_sum, found.sum);
    }
    dev::SyncBlock();
    const Found found = {.bin = dev::LoadShared(&memory_->found_bin),
                         .wanted = dev::LoadShared(&memory_->found_wanted),
                         .sum = dev::LoadShared(&memory_->found_sum)};
    dev::SyncBlock();
    return found;
  }

 private:
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kBinsPerThread = kBins / kThreads;
  static_assert(kBinsPerThread % 4 == 0);

  static INCIPIT_DEVICE int FirstBin() { return dev::Thread() * kBinsPerThread; }

  INCIPIT_DEVICE uint64_t SumOf(uint32_t bin) const {
    return static_cast<uint64_t>(dev::LoadShared(&memory_->high[bin])) << 32 |
           dev::LoadShared(&memory_->low[bin]);
  }
  INCIPIT_DEVICE uint64_t SumOfFour(int bin) const {
    const dev::Vec4 low = dev::LoadShared(reinterpret_cast<const dev::Vec4*>(&memory_->low[bin]));
    const dev::Vec4 high = dev::LoadShared(reinterpret_cast<const dev::Vec4*>(&memory_->high[bin]));
    uint64_t sum = 0;
    INCIPIT_UNROLL
    for (int i = 0; i < 4; ++i) sum += static_cast<uint64_t>(high.word[i]) << 32 | low.word[i];
    return sum;
  }

  BlockSumsMemory* memory_;
};

}  // namespace incipit::cuda
