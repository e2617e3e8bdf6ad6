// Divides rows into tiles (groups of a few rows that are computed together). The source file of
// every instruction set includes this file inside its namespace.
#pragma once

// Divides num_rows rows into tiles of at most `height` rows. The numbers of rows of two tiles
// differ by at most one.
struct Tiles {
  int64_t num_rows, count;
  // Each of the first `num_higher` tiles has low_rows + 1 rows. Each of the other tiles has
  // low_rows rows.
  int64_t low_rows, num_higher;

  static Tiles Of(int64_t num_rows, int64_t height) {
    const int64_t count = (num_rows + height - 1) / height;
    return {num_rows, count, num_rows / count, num_rows % count};
  }
  int64_t Begin(int64_t tile) const {
    return tile * low_rows + (tile < num_higher ? tile : num_higher);
  }
};
