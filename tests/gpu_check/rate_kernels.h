// Kernels of the measurements. FillRandom writes random numbers. ReadAll only reads memory, and
// MultiplyAgain only multiplies. The speeds of ReadAll and MultiplyAgain are the limits for other
// kernels.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"

namespace incipit::cuda {

// Writes bf16 numbers of either sign with magnitudes in [2^-7, 2^-5). Equal seeds give equal
// numbers. The numbers matter, because a chip uses less power for zeros and therefore runs at a
// higher clock rate.
//
// out  bf16 [8 * count]; each thread writes 16 bytes at a time
struct FillRandom {
  static constexpr int kThreads = 256, kSharedBytes = 0, kBlocksPerSm = 2;

  struct Args {
    dev::Vec4* out = nullptr;
    int64_t count = 0;
    uint64_t seed = 0;
  };

  static INCIPIT_DEVICE void Run(const Args& args) {
    const int64_t step = static_cast<int64_t>(dev::NumBlocks()) * kThreads;
    for (int64_t i = static_cast<int64_t>(dev::Block()) * kThreads + dev::Thread(); i < args.count;
         i += step) {
      dev::Vec4 numbers;
      INCIPIT_UNROLL
      for (int half = 0; half < 2; ++half) {
        const uint64_t bits = Mixed(args.seed + 2 * static_cast<uint64_t>(i) + half);
        numbers.word[2 * half] = Numbers(static_cast<uint32_t>(bits));
        numbers.word[2 * half + 1] = Numbers(static_cast<uint32_t>(bits >> 32));
      }
      dev::StoreGlobal(args.out + i, numbers);
    }
  }

  // Computes the finalizer of SplitMix64 (Steele, Lea, Flood, 2014).
  static INCIPIT_DEVICE uint64_t Mixed(uint64_t x) {
    x = (x + 1) * 0x9E3779B97F4A7C15;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return x ^ (x >> 31);
  }
  // Returns two bf16 numbers. In each, the sign, the lowest bit of the exponent and the mantissa
  // are random.
  static INCIPIT_DEVICE uint32_t Numbers(uint32_t bits) { return (bits & 0x80FF80FF) | 0x3C003C00; }
};

// Reads the elements [0, count) once. Each thread has kAtOnce loads in flight. Moves 16 * count
// bytes.
struct ReadAll {
  static constexpr int kThreads = 256, kSharedBytes = 0, kBlocksPerSm = 8, kAtOnce = 4;

  struct Args {
    const dev::Vec4* in = nullptr;
    // Number of elements. REQUIRES: a multiple of kAtOnce * kThreads.
    int64_t count = 0;
    // Receives the exclusive or of all words that a thread read, but only if the result equals
    // `wanted`.
    uint32_t* sum = nullptr;
    // A value that almost never occurs, so that nothing is written and no load is optimised away.
    uint32_t wanted = 0;
  };

  static INCIPIT_DEVICE void Run(const Args& args) {
    const int64_t step = static_cast<int64_t>(dev::NumBlocks()) * kThreads * kAtOnce;
    uint32_t sum = 0;
    for (int64_t i = static_cast<int64_t>(dev::Block()) * kThreads * kAtOnce + dev::Thread();
         i < args.count; i += step) {
      dev::Vec4 read[kAtOnce];
      INCIPIT_UNROLL
      for (int j = 0; j < kAtOnce; ++j) read[j] = dev::LoadGlobal(args.in + i + j * kThreads);
      INCIPIT_UNROLL
      for (int j = 0; j < kAtOnce; ++j) {
        sum ^= read[j].word[0] ^ read[j].word[1] ^ read[j].word[2] ^ read[j].word[3];
      }
    }
    if (sum == args.wanted) dev::StoreGlobal(args.sum, sum);
  }
};

// Multiplies matrices in shared memory with the tensor instructions of two warpgroups. Each
// warpgroup multiplies its own 64 x 64 matrix by a shared 192 x 64 matrix, `count` times. A thread
// block computes kFlops * count operations.
struct MultiplyAgain {
  static constexpr int kGroups = 2, kRows = 64, kColumns = 192, kDepth = 64, kRowBytes = 2 * kDepth;
  static constexpr int kThreads = kGroups * 128, kBlocksPerSm = 1;
  static constexpr int kSharedBytes = (kGroups * kRows + kColumns) * kRowBytes;
  static constexpr double kFlops = 2.0 * kGroups * kRows * kColumns * kDepth;

  struct Args {
    int32_t count = 0;
    // Receives the sum of all results of a thread, but only if the sum equals `wanted`.
    float* sum = nullptr;
    // A value that almost never occurs, so that nothing is written and no product is optimised
    // away.
    float wanted = 0;
  };

  static INCIPIT_DEVICE void Run(const Args& args) {
    char* const shared = dev::SharedMemory();
    auto* const words = reinterpret_cast<uint32_t*>(shared);
    for (int i = dev::Thread(); i < kSharedBytes / 4; i += kThreads) {
      const uint64_t bits = FillRandom::Mixed(static_cast<uint64_t>(i));
      dev::StoreShared(words + i, FillRandom::Numbers(static_cast<uint32_t>(bits)));
    }
    dev::FenceBulkShared();
    dev::SyncBlock();

    const char* const mine = shared + dev::Warp() / 4 * kRows * kRowBytes;
    const char* const both = shared + kGroups * kRows * kRowBytes;
    float sums[kColumns / 8][4] = {};
    INCIPIT_KEEP_LOOP
    for (int32_t i = 0; i < args.count; ++i) {
      dev::FenceMultiplies(sums);
      INCIPIT_UNROLL
      for (int step = 0; step < kDepth / 16; ++step) {
        dev::MultiplyAddWarpgroup(sums, mine + step * 32, both + step * 32);
      }
      dev::CommitMultiplies();
      dev::WaitMultiplies<1>();
    }
    dev::EndMultiplies(sums);
    float sum = 0;
    INCIPIT_UNROLL
    for (int i = 0; i < kColumns / 2; ++i) sum += sums[i / 4][i % 4];
    if (sum == args.wanted) dev::StoreGlobal(args.sum, sum);
  }
};

}  // namespace incipit::cuda
