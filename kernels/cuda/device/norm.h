// Kernel Norm: computes the RMSNorm of each row of `hidden` and stores the result in `x` as bf16.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/product/packed_order.h"
#include "kernels/cuda/device/vectors.h"

namespace incipit::cuda {

struct NormShape {
  static constexpr int kThreads = 256;
};

template <class Shape>
struct Norm {
  static constexpr int kThreads = Shape::kThreads, kBlocksPerSm = 2;
  static constexpr int kMaxHiddenSize = 32768;
  // Shared memory holds the sums of squares of two rows: one f32 sum for every 16 columns.
  // Consecutive rows use different halves of shared memory.
  static constexpr int kParts = kMaxHiddenSize / kUnitRows, kSharedBytes = 2 * kParts * 4;

  struct Args {
    const int32_t* num_rows = nullptr;
    // Element i is the index in `hidden` of the input row for output row i. If the index is
    // negative, output row i is skipped. Null: output row i is computed from input row i.
    const int32_t* rows = nullptr;
    // f32 [.., hidden_size]
    const float* hidden = nullptr;
    const float* weight = nullptr;
    float epsilon = 0;
    // a multiple of 8
    int32_t hidden_size = 0;
    // Output [num_rows, hidden_size]: hidden * weight / sqrt(mean of squares + epsilon). If
    // `squares` is not null, the output is only hidden * weight.
    dev::bf16* x = nullptr;
    // Output f32 [num_rows]: sum of squares of each row; null: not stored. The next matrix product
    // computes the RMSNorm factors from these sums.
    float* squares = nullptr;
  };

  // Memory traffic: reads each row of `hidden` (f32) from memory once and writes the normalised row
  // to `x` (bf16). Later reads of the row use the caches.
  static INCIPIT_DEVICE void Run(const Args& args) {
    dev::LetNextKernelStart();
    const int num_rows = dev::LoadConstant(args.num_rows);
    dev::WaitForEarlierKernels();
    // number of rows that this thread block has processed
    int turn = 0;
    for (int row = dev::Block(); row < num_rows; row += dev::NumBlocks()) {
      const int source = args.rows == nullptr ? row : dev::LoadConstant(args.rows + row);
      if (source < 0) continue;
      const float* const values = args.hidden + static_cast<int64_t>(source) * args.hidden_size;
      const float squares = SumOfSquares(values, args.hidden_size, turn++ & 1);
      float scale = 1;
      if (args.squares == nullptr) {
        const float mean = dev::Divide(squares, static_cast<float>(args.hidden_size));
        scale = dev::Divide(1, dev::SquareRoot(dev::Add(mean, args.epsilon)));
      } else if (dev::Thread() == 0) {
        dev::StoreGlobal(args.squares + row, squares);
      }
      WriteRow(args, values, scale, args.x + static_cast<int64_t>(row) * args.hidden_size);
    }
  }

 private:
  // Returns the sum of squares of a row, added in the same order as in the matrix-product kernels.
  // All threads of the thread block call SumOfSquares together.
  static INCIPIT_DEVICE float SumOfSquares(const float* values, int size, int half) {
    float* const parts = reinterpret_cast<float*>(dev::SharedMemory()) + half * kParts;
    const int num_parts = (size + kUnitRows - 1) / kUnitRows;
    for (int first = 0; first < size; first += 4 * kThreads) {
      const int column = first + 4 * dev::Thread();
      float v[4] = {0, 0, 0, 0}, sum = 0;
      if (column < size) LoadFloats(values + column, v);
      INCIPIT_UNROLL
      for (int i = 0; i < 4; ++i) sum = dev::Fma(v[i], v[i], sum);
      sum = dev::Add(sum, dev::ShuffleXorWarp(sum, 1));
      sum = dev::Add(sum, dev::ShuffleXorWarp(sum, 2));
      const int part = column / kUnitRows;
      if (dev::Lane() % 4 == 0 && part < num_parts) dev::StoreShared(parts + part, sum);
    }
    dev::SyncBlock();
    float sum = 0;
    for (int part = dev::Lane(); part < num_parts; part += 32) {
      sum = dev::Add(sum, dev::LoadShared(parts + part));
    }
    return SumWarp(sum);
  }

  static INCIPIT_DEVICE void WriteRow(const Args& args, const float* values, float scale,
                                      dev::bf16* x) {
    for (int column = 8 * dev::Thread(); column < args.hidden_size; column += 8 * kThreads) {
      Vec4 pairs;
      INCIPIT_UNROLL
      for (int half = 0; half < 2; ++half) {
        float v[4], w[4];
        LoadFloats(values + column + 4 * half, v);
        LoadConstantFloats(args.weight + column + 4 * half, w);
        INCIPIT_UNROLL
        for (int i = 0; i < 4; ++i) v[i] = dev::Multiply(dev::Multiply(v[i], scale), w[i]);
        pairs.word[2 * half] = dev::PackBF16(v[0], v[1]);
        pairs.word[2 * half + 1] = dev::PackBF16(v[2], v[3]);
      }
      dev::StoreGlobal(reinterpret_cast<Vec4*>(x + column), pairs);
    }
  }
};

}  // namespace incipit::cuda
