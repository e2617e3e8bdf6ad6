// Defines where each element of a packed weight is stored. A packed weight is a copy of a weight
// matrix in the order in which the product kernels read the elements, padded with zeros.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"

namespace incipit::cuda {

// Unit: 16 packed rows of a weight matrix. Tile: 64 columns of a unit (16 x 64 bf16 elements, 2,048
// bytes).
constexpr int kUnitRows = 16, kTileColumns = 64, kTileElements = 1024, kTileBytes = 2048;
// Number of ranges (runs) into which the columns of the input and the weight are divided. All
// product kernels sum each range separately, and then add these sums in the same order, so that
// results have the same bits.
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
// Returns the index at which tile `index` (64 columns) of column range `run` is stored. The tiles
// of the four column ranges alternate in memory.
INCIPIT_ANYWHERE constexpr int TilePosition(int run, int index) { return index * kNumRuns + run; }
INCIPIT_ANYWHERE constexpr int RunOfTile(int num_tiles, int tile) {
  int run = 0;
  while (run + 1 < kNumRuns && tile >= RunBegin(num_tiles, run + 1)) ++run;
  return run;
}

// Returns the offset, in elements, of element (row, column) in a stored tile of 16 rows and 64
// columns. The order of 16-byte chunks avoids bank conflicts in shared memory.
INCIPIT_ANYWHERE constexpr int ElementInTile(int row, int column) {
  return row * kTileColumns + ((column / 8 ^ (row & 7)) * 8) + column % 8;
}
// Returns the offset, in elements, of element (row, column) in the packed weight.
INCIPIT_ANYWHERE constexpr int64_t PackedElement(int num_tiles, int64_t row, int column) {
  const int tile = column / kTileColumns;
  const int run = RunOfTile(num_tiles, tile);
  const int position = TilePosition(run, tile - RunBegin(num_tiles, run));
  return (row / kUnitRows * num_tiles + position) * kTileElements +
         ElementInTile(static_cast<int>(row % kUnitRows), column % kTileColumns);
}

// Order of the rows of a packed weight. kPlain: the order of the matrix. kGateUp: 8 rows of matrix
// gate and 8 rows of matrix up alternate. kRotary: 8 rows of the first half of an attention head
// and 8 rows of its second half alternate.
enum class RowOrder : uint8_t { kPlain, kGateUp, kRotary };
INCIPIT_ANYWHERE constexpr int64_t NumUnits(RowOrder order, int64_t rows) {
  return order == RowOrder::kGateUp ? (rows / 2 + 7) / 8 : (rows + kUnitRows - 1) / kUnitRows;
}
// Returns the index of the matrix row that is stored as packed row `packed_row`, or -1 for a
// padding row. `head_dim` is used only with RowOrder::kRotary.
INCIPIT_ANYWHERE constexpr int64_t SourceRow(RowOrder order, int64_t rows, int64_t packed_row,
                                             int64_t head_dim = 0) {
  if (order == RowOrder::kPlain) return packed_row < rows ? packed_row : -1;
  // The packed weight takes 8 matrix rows from the first half of a group, then 8 rows from the
  // second half, and so on. `whole` is the number of rows of a group: the whole matrix for kGateUp,
  // one attention head for kRotary.
  const int64_t whole = order == RowOrder::kGateUp ? rows : head_dim;
  const int64_t units = NumUnits(RowOrder::kGateUp, whole), unit = packed_row / kUnitRows;
  const int64_t row = unit % units * 8 + packed_row % 8;
  if (row >= whole / 2) return -1;
  return unit / units * whole + (packed_row % kUnitRows < 8 ? 0 : whole / 2) + row;
}

}  // namespace incipit::cuda
