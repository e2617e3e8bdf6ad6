// Kernel PadRows: copies the rows of matrix `x` to `out` and pads each row with zeros to a multiple
// of 8 columns. The matrix-product kernels need this padding, because they load 8 elements at a
// time.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"

namespace incipit::cuda {

struct PadRows {
  static constexpr int kThreads = 256, kSharedBytes = 0, kBlocksPerSm = 2;

  struct Args {
    const int32_t* num_rows = nullptr;
    // bf16 [num_rows, columns]; `columns` is even
    const dev::bf16* x = nullptr;
    int32_t columns = 0;
    // output: bf16 [num_rows, Padded(columns)]
    dev::bf16* out = nullptr;
  };

  static INCIPIT_DEVICE int Padded(int columns) { return (columns + 7) / 8 * 8; }

  // Memory traffic: reads each element of `x` once and writes each element of `out` once (bf16).
  static INCIPIT_DEVICE void Run(const Args& args) {
    dev::LetNextKernelStart();
    const int pairs = Padded(args.columns) / 2, pairs_of_x = args.columns / 2;
    const int64_t count = int64_t{dev::LoadConstant(args.num_rows)} * pairs;
    dev::WaitForEarlierKernels();
    const auto* const from = reinterpret_cast<const uint32_t*>(args.x);
    auto* const to = reinterpret_cast<uint32_t*>(args.out);
    const int64_t step = int64_t{dev::NumBlocks()} * kThreads;
    for (int64_t i = int64_t{dev::Block()} * kThreads + dev::Thread(); i < count; i += step) {
      const int64_t row = i / pairs;
      const int pair = static_cast<int>(i % pairs);
      const uint32_t value =
          pair < pairs_of_x ? dev::LoadGlobal(from + row * pairs_of_x + pair) : 0;
      dev::StoreGlobal(to + i, value);
    }
  }
};

}  // namespace incipit::cuda
