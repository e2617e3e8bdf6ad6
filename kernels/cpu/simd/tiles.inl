// How rows are cut into tiles. Included by every instruction set's file, inside its namespace.
#pragma once

// Tiles of at most `height` rows whose heights differ by at most one: a last tile of one row would
// keep the arithmetic units waiting for each other.
struct Tiles {
  int64_t num_rows, count;

  static Tiles Of(int64_t num_rows, int64_t height) {
    return {num_rows, (num_rows + height - 1) / height};
  }
  int64_t Begin(int64_t tile) const {
    const int64_t small = num_rows / count, larger = num_rows % count;
    return tile * small + (tile < larger ? tile : larger);
  }
};
