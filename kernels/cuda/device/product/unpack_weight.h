// Kernel UnpackWeight: copies a packed weight (packed_order.h) to a row-major matrix for cuBLASLt.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/product/packed_order.h"
#include "kernels/cuda/device/vectors.h"

namespace incipit::cuda {

struct UnpackWeight {
  static constexpr int kThreads = 256, kSharedBytes = 0, kBlocksPerSm = 4;
  static constexpr int kChunkElements = 8, kTileChunks = kTileElements / kChunkElements;
  static constexpr int kTilesSideBySide = kThreads / kTileChunks, kTilesAtOnce = 4;
  static constexpr int kBlockTiles = kTilesSideBySide * kTilesAtOnce;

  struct Args {
    // packed weight (packed_order.h): num_units units of 16 rows
    const dev::bf16* weight = nullptr;
    // `columns` is a multiple of 8
    int32_t num_units = 0, columns = 0;
    // Output: bf16 [16 * num_units, columns]. The rows stay in packed order.
    dev::bf16* out = nullptr;
  };

  // Memory traffic: reads the packed weight once and writes `out` once.
  static INCIPIT_DEVICE void Run(const Args& args) {
    dev::LetNextKernelStart();
    dev::WaitForEarlierKernels();
    const int tiles_of_unit = NumTiles(args.columns), num_tiles = args.num_units * tiles_of_unit;
    const int mine = dev::Thread() / kTileChunks, chunk = dev::Thread() % kTileChunks;
    const int row = chunk / 8, column = (chunk % 8 ^ (row & 7)) * kChunkElements;
    for (int64_t first = int64_t{dev::Block()} * kBlockTiles; first < num_tiles;
         first += int64_t{dev::NumBlocks()} * kBlockTiles) {
      Vec4 chunks[kTilesAtOnce];
      INCIPIT_UNROLL
      for (int i = 0; i < kTilesAtOnce; ++i) {
        const int64_t tile = first + i * kTilesSideBySide + mine;
        if (tile >= num_tiles) continue;
        const dev::bf16* const from = args.weight + tile * kTileElements + chunk * kChunkElements;
        chunks[i] = dev::LoadConstant(reinterpret_cast<const Vec4*>(from));
      }
      INCIPIT_UNROLL
      for (int i = 0; i < kTilesAtOnce; ++i) {
        const auto tile = static_cast<int>(first + i * kTilesSideBySide + mine);
        const int unit = tile / tiles_of_unit, slot = tile % tiles_of_unit;
        const int from = ColumnOfSlot(tiles_of_unit, slot) + column;
        if (tile >= num_tiles || from >= args.columns) continue;
        const int64_t to = (int64_t{unit} * kUnitRows + row) * args.columns + from;
        dev::StoreGlobal(reinterpret_cast<Vec4*>(args.out + to), chunks[i]);
      }
    }
  }

 private:
  // Returns the first column of the tile (64 columns) that is stored at index `slot` in its unit
  // (16 packed rows). `tiles_of_unit`: number of tiles in a unit.
  static INCIPIT_DEVICE int ColumnOfSlot(int tiles_of_unit, int slot) {
    return (RunBegin(tiles_of_unit, slot % kNumRuns) + slot / kNumRuns) * kTileColumns;
  }
};

}  // namespace incipit::cuda
