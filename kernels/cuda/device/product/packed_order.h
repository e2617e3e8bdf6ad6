// Defines where element (row, column) of a packed weight [rows, columns] is stored. A packed weight
// is a copy of a weight matrix in the order in which the product kernels read the matrix. Elements
// outside the matrix are zero.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"

namespace incipit::cuda {

// A unit is 16 packed rows. A tile is 64 columns of a unit: 16 x 64 bf16 elements, or 2,048 bytes.
constexpr int kUnitRows = 16, kTileColumns = 64, kTileElements = 1024, kTileBytes = 2048;
// The tiles of a unit are divided into four runs (ranges of consecutive tiles), whose lengths
// differ by at most one tile. Every product kernel computes the sum of each run separately and then
// adds the four sums in order. A result therefore has the same bits for any number of rows of x.
constexpr int kNumRuns = 4;

INCIPIT_ANYWHERE constexpr int NumTiles(int columns) {
  return (columns + kTileColumns - 1) / kTileColumns;
}
INCIPIT_ANYWHERE constexpr int RunLength(int num_tiles, int run) {
  return num_tiles / kNumRuns + (run < num_tiles % kNumRuns ? 1 : 0);
}
INCIPIT_ANYWHERE constexpr int RunBegin(int num_tiles, int run) {
  const int longer = num_tiles % kNumRuns;
  return num_tiles / kNumRuns * run + (run < longer ? run : longer);
}
// Returns the index at which tile `index` of run `run` is stored in its unit (16 packed rows). The
// unit has four runs (ranges of tiles). The tiles of the runs alternate in memory, because four
// warps read the runs in parallel.
INCIPIT_ANYWHERE constexpr int TilePosition(int run, int index) { return index * kNumRuns + run; }
INCIPIT_ANYWHERE constexpr int RunOfTile(int num_tiles, int tile) {
  int run = 0;
  while (run + 1 < kNumRuns && tile >= RunBegin(num_tiles, run + 1)) ++run;
  return run;
}

// Returns the offset, in elements from the start of a 16 x 64 tile, of the element at (`row`,
// `column`) of the tile. A row has eight chunks of 16 bytes. Chunk c of row r is stored at chunk
// index c ^ (r % 8), which avoids bank conflicts in shared memory.
INCIPIT_ANYWHERE constexpr int ElementInTile(int row, int column) {
  return row * kTileColumns + ((column / 8 ^ (row & 7)) * 8) + column % 8;
}
// Returns the offset, in elements from the start of the packed weight, of the element in packed row
// `row` and column `column`.
INCIPIT_ANYWHERE constexpr int64_t PackedElement(int num_tiles, int64_t row, int column) {
  const int tile = column / kTileColumns;
  const int run = RunOfTile(num_tiles, tile);
  const int position = TilePosition(run, tile - RunBegin(num_tiles, run));
  return (row / kUnitRows * num_tiles + position) * kTileElements +
         ElementInTile(static_cast<int>(row % kUnitRows), column % kTileColumns);
}

// Defines which matrix rows are the 16 packed rows of unit u.
// - kPlain: rows [16 * u, 16 * u + 16).
// - kGateUp: rows [8 * u, 8 * u + 8) of matrix gate, then the same rows of matrix up.
// - kRotary: rows [8 * u, 8 * u + 8) of the first half of a head, then the same rows of the second
//   half. u counts from the first unit of the head; head_dim is a multiple of 16.
enum class RowOrder : uint8_t { kPlain, kGateUp, kRotary };
INCIPIT_ANYWHERE constexpr int64_t NumUnits(RowOrder order, int64_t rows) {
  return order == RowOrder::kGateUp ? (rows / 2 + 7) / 8 : (rows + kUnitRows - 1) / kUnitRows;
}
// Returns the index of the matrix row that is stored as packed row `packed_row`, or -1 for a
// padding row. `head_dim` is used only with RowOrder::kRotary. REQUIRES: the packed weight has row
// `packed_row`.
INCIPIT_ANYWHERE constexpr int64_t SourceRow(RowOrder order, int64_t rows, int64_t packed_row,
                                             int64_t head_dim = 0) {
  if (order == RowOrder::kPlain) return packed_row < rows ? packed_row : -1;
  // Number of matrix rows whose first and second half alternate in packed order: all rows (kGateUp)
  // or the rows of one head (kRotary)
  const int64_t whole = order == RowOrder::kGateUp ? rows : head_dim;
  const int64_t units = NumUnits(RowOrder::kGateUp, whole), unit = packed_row / kUnitRows;
  const int64_t row = unit % units * 8 + packed_row % 8;
  if (row >= whole / 2) return -1;
  return unit / units * whole + (packed_row % kUnitRows < 8 ? 0 : whole / 2) + row;
}

}  // namespace incipit::cuda
