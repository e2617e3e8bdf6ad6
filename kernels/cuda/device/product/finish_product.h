// Kernel FinishProduct runs after a cuBLASLt product. It multiplies each row of the product by the
// RMSNorm factor of the row, then calls an epilogue (a class that stores the results).
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/product/product.h"
#include "kernels/cuda/device/vectors.h"

namespace incipit::cuda {

// A warp processes 8 rows and 512 columns of the product at a time (32 units of 16 columns).
template <class Epilogue>
struct FinishProduct {
  static constexpr int kThreads = 256, kBlocksPerSm = 4;
  static constexpr int kWarps = kThreads / 32, kRows = 8, kUnits = 32, kUnitsAtOnce = 4;
  // Size in bytes of the RMSNorm factors (f32) of 8 rows for each warp
  static constexpr int kSharedBytes = kWarps * kRows * 4;

  struct Args {
    // `product.input.x` and `product.input.weight` are not read, because `sums` already holds their
    // product.
    ProductArgs<Epilogue> product;
    // Result of cuBLASLt: the product of the input x and the weight, f32 [max_rows, 16 * num_units]
    const float* sums = nullptr;
    // The kernel processes the rows [first_row, first_row + max_rows) of the product, or fewer if
    // the product has fewer rows.
    int32_t first_row = 0, max_rows = 0;
  };

  // Memory traffic: reads each element of `sums` once. The epilogue (the class that stores results)
  // accesses further memory.
  static INCIPIT_DEVICE void Run(const Args& args) {
    dev::LetNextKernelStart();
    const ProductInput& input = args.product.input;
    const int num_rows = dev::LoadConstant(input.num_rows);
    const int last_row = args.first_row + args.max_rows;
    const int end_row = num_rows < last_row ? num_rows : last_row;
    dev::WaitForEarlierKernels();
    if (end_row <= args.first_row) return;
    auto* const scales = reinterpret_cast<float*>(dev::SharedMemory()) + dev::Warp() * kRows;
    const int pieces = (input.num_units + kUnits - 1) / kUnits;
    const int items = ((end_row - args.first_row + kRows - 1) / kRows) * pieces;
    for (int item = dev::Block() * kWarps + dev::Warp(); item < items;
         item += dev::NumBlocks() * kWarps) {
      const int row = args.first_row + item / pieces * kRows, unit = item % pieces * kUnits;
      FindScalesWarp<kRows>(input, row, end_row, scales);
      const LanePosition position = PositionOfLane();
      const float scale = dev::LoadShared(scales + position.token);
      const int end = unit + kUnits < input.num_units ? unit + kUnits : input.num_units;
      for (int first = unit; first < end; first += kUnitsAtOnce) {
        Finish(args, position, row + position.token, end_row, first, end, scale);
      }
      dev::SyncWarp();
    }
  }

 private:
  // Multiplies results of row `row` by `scale` and passes the products to the epilogue (the class
  // that stores results). Processes the first units (16 columns each) of the range [first, end), at
  // most kUnitsAtOnce units. All lanes of a warp call Finish together.
  static INCIPIT_DEVICE void Finish(const Args& args, LanePosition position, int row, int end_row,
                                    int first, int end, float scale) {
    const int64_t width = int64_t{args.product.input.num_units} * kUnitRows;
    const float* const sums = args.sums + (row - args.first_row) * width + position.quad * 4;
    Vec4 loaded[kUnitsAtOnce];
    INCIPIT_UNROLL
    for (int i = 0; i < kUnitsAtOnce; ++i) {
      loaded[i] = {{0, 0, 0, 0}};
      if (row >= end_row || first + i >= end) continue;
      loaded[i] = dev::LoadGlobal(reinterpret_cast<const Vec4*>(sums + (first + i) * kUnitRows));
    }
    const auto& epilogue = args.product.epilogue;
    Results results;
    results.quad = position.quad;
    results.row = row;
    results.valid = row < end_row;
    const auto epilogue_row = Epilogue::LoadRow(epilogue, results);
    INCIPIT_UNROLL
    for (int i = 0; i < kUnitsAtOnce; ++i) {
      if (first + i >= end) break;
      results.unit = first + i;
      UnpackFloats(loaded[i], results.y);
      INCIPIT_UNROLL
      for (int j = 0; j < 4; ++j) results.y[j] = dev::Multiply(results.y[j], scale);
      Epilogue::Run(epilogue, results, Epilogue::Begin(epilogue, results, epilogue_row));
    }
  }
};

}  // namespace incipit::cuda
