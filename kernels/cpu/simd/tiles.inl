// How rows are cut into tiles. Included by every instruction set's file, inside its namespace.
#pragma once

// Tiles of at most `height` rows whose heights differ by at most one: a last tile of one row would
// keep the arithmetic units waiting for each other.
struct Tiles {
  int64_t num_rows, count;
  int64_t low_rows, num_higher;  // the first `num_higher` have a row more than `low_rows`

  static Tiles Of(int64_t num_rows, int64_t height) {
    const int64_t count = (num_rows + height - 1) / height;
    return {num_rows, count, num_rows / count, num_rows % count};
  }
  int64_t Begin(int64_t tile) const {
    return tile * low_rows + (tile < num_higher ? tile : num_higher);
  }
};
