// Where element (row, column) of a packed weight [rows, columns] lies.
//
// Packed rows are cut into units of 16, columns into tiles of 64; a tile is 16 x 64 bf16 = 2 KB,
// row r at 128 * r bytes, its 16-byte chunk c at chunk c ^ (r % 8), so that eight rows of one chunk
// lie in different banks. What lies beyond the matrix is zero.
//
// The tiles 0 .. n - 1 of a unit make four runs, summed apart and added in order: the first n % 4
// runs have n / 4 + 1 tiles, the others n / 4. Four warps walk the runs side by side, and that is
// the order in memory: tile i of each run, then tile i + 1. Every product sums in these runs,
// whatever its number of rows, so that a result does not depend on it.
//
// Where the numbers of one half are taken together with those of the other, a packed unit holds 8
// rows of the first half, then the same 8 of the second: of gate and up (kGateUp: unit u has rows
// 8 u .. 8 u + 7 of each), or of each head (kRotary: head_dim is a multiple of 16, and units follow
// head by head).
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
// Place of tile `index` of a run among the tiles of its unit.
INCIPIT_ANYWHERE constexpr int TilePosition(int run, int index) { return index * kNumRuns + run; }
INCIPIT_ANYWHERE constexpr int RunOfTile(int num_tiles, int tile) {
  int run = 0;
  while (run + 1 < kNumRuns && tile >= RunBegin(num_tiles, run + 1)) ++run;
  return run;
}

// In elements from the start of a tile.
INCIPIT_ANYWHERE constexpr int ElementInTile(int row, int column) {
  return row * kTileColumns + ((column / 8 ^ (row & 7)) * 8) + column % 8;
}
// In elements from the start of the packed weight; `row` is a packed row.
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
// The row of the matrix that packed row `row` holds; may be beyond the matrix (-1: of the padding).
// `head_dim`: with kRotary.
INCIPIT_ANYWHERE constexpr int64_t SourceRow(RowOrder order, int64_t rows, int64_t packed_row,
                                             int64_t head_dim = 0) {
  if (order == RowOrder::kPlain) return packed_row < rows ? packed_row : -1;
  const int64_t whole = order == RowOrder::kGateUp ? rows : head_dim;  // has two halves
  const int64_t units = NumUnits(RowOrder::kGateUp, whole), unit = packed_row / kUnitRows;
  const int64_t row = unit % units * 8 + packed_row % 8;
  if (row >= whole / 2) return -1;
  return unit / units * whole + (packed_row % kUnitRows < 8 ? 0 : whole / 2) + row;
}

}  // namespace incipit::cuda
