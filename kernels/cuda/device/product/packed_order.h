// Defines where element (row, column) of a packed weight [rows, columns] is stored.
//
// Packed rows are divided into units of 16 rows, and columns into groups of 64 columns. A tile is
// the 16 x 64 bf16 elements (2,048 bytes) of one unit and one group. Row r of a tile starts at byte
// 128 * r of the tile. A row has eight chunks of 16 bytes, and chunk c of row r is stored at chunk
// position c ^ (r % 8) of the row. Chunks with the same c in eight consecutive rows therefore lie
// in eight different groups of shared-memory banks. Elements outside the matrix are zero.
//
// The n tiles of a unit are divided into four runs. A run is a range of consecutive tiles. The
// first n % 4 runs have n / 4 + 1 tiles each, and the other runs have n / 4 tiles each. Every
// product kernel computes the sum of each run separately and then adds the four sums in order. A
// result therefore does not depend on the number of rows of x.
//
// Four warps read the four runs in parallel, so the tiles of the runs alternate in memory: tile 0
// of each run, then tile 1 of each run, and so on. If some runs have one tile more, their last
// tiles are the last tiles of the unit.
//
// With RowOrder::kGateUp or RowOrder::kRotary, a unit contains 8 rows of a first half and then 8
// rows of a second half:
// - kGateUp: the halves are the matrices gate and up. Unit u contains rows [8u, 8u + 8) of gate,
//   then rows [8u, 8u + 8) of up.
// - kRotary: the halves are the first and the second head_dim / 2 rows of a head. Unit u of a head
//   contains rows [8u, 8u + 8) of the first half, then the same rows of the second half. head_dim
//   is a multiple of 16. The units of a head are stored one after the other.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"

namespace incipit::cuda {

constexpr int kUnitRows = 16, kTileColumns = 64, kTileElements = 1024, kTileBytes = 2048;
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
// Returns the storage index of a tile among the tiles of its unit (16 packed rows). `index` is the
// index of the tile in run `run`; a run is one of the four ranges of tiles that are summed
// separately.
INCIPIT_ANYWHERE constexpr int TilePosition(int run, int index) { return index * kNumRuns + run; }
INCIPIT_ANYWHERE constexpr int RunOfTile(int num_tiles, int tile) {
  int run = 0;
  while (run + 1 < kNumRuns && tile >= RunBegin(num_tiles, run + 1)) ++run;
  return run;
}

// Returns the offset, in elements from the start of a 16 x 64 tile, of the element at (`row`,
// `column`) of the tile.
INCIPIT_ANYWHERE constexpr int ElementInTile(int row, int column) {
  return row * kTileColumns + ((column / 8 ^ (row & 7)) * 8) + column % 8;
}
// Returns the offset, in elements from the start of the packed weight, of the element at (`row`,
// `column`). `row` is a row in packed order.
INCIPIT_ANYWHERE constexpr int64_t PackedElement(int num_tiles, int64_t row, int column) {
  const int tile = column / kTileColumns;
  const int run = RunOfTile(num_tiles, tile);
  const int position = TilePosition(run, tile - RunBegin(num_tiles, run));
  return (row / kUnitRows * num_tiles + position) * kTileElements +
         ElementInTile(static_cast<int>(row % kUnitRows), column % kTileColumns);
}

enum class RowOrder : uint8_t { kPlain, kGateUp, kRotary };
INCIPIT_ANYWHERE constexpr int64_t NumUnits(RowOrder order, int64_t rows) {
  return order == RowOrder::kGateUp ? (rows / 2 + 7) / 8 : (rows + kUnitRows - 1) / kUnitRows;
}
// Returns the row of the matrix that is stored as packed row `packed_row`, or -1 for a padding row.
// If `packed_row` is beyond the packed weight, the result may be beyond the matrix. `head_dim` is
// used only with RowOrder::kRotary.
INCIPIT_ANYWHERE constexpr int64_t SourceRow(RowOrder order, int64_t rows, int64_t packed_row,
                                             int64_t head_dim = 0) {
  if (order == RowOrder::kPlain) return packed_row < rows ? packed_row : -1;
  // Number of consecutive matrix rows whose first half and second half are interleaved: all rows
  // (kGateUp) or the rows of one head (kRotary)
  const int64_t whole = order == RowOrder::kGateUp ? rows : head_dim;
  const int64_t units = NumUnits(RowOrder::kGateUp, whole), unit = packed_row / kUnitRows;
  const int64_t row = unit % units * 8 + packed_row % 8;
  if (row >= whole / 2) return -1;
  return unit / units * whole + (packed_row % kUnitRows < 8 ? 0 : whole / 2) + row;
}

}  // namespace incipit::cuda
