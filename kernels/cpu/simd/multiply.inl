// The matrix product. Included by every instruction set's file, inside its namespace, after
// formats.inl.
//
// The innermost loop keeps a tile of ROWS x (PANELS * width) sums in registers and adds
// x[r][k] * w[k][n] for one step after the other. Around it, as in Goto, van de Geijn: "Anatomy of
// High-Performance Matrix Multiplication" (2008): a part of a panel stays in the first-level cache
// while the tiles of a group use it, the group's rows stay in the second-level cache from panel to
// panel, and panels are read in the order in which they lie in memory. Sums wait in a small buffer
// between the parts of a panel and come back unchanged: so the order of additions is k = 0, 1, 2 ...
// for every shape of tile.
#pragma once

#include "kernels/cpu/simd/finish.inl"
#include "kernels/cpu/simd/formats.inl"
#include "kernels/cpu/simd/tiles.inl"

// The part of a panel that tiles share.
constexpr int64_t kPassBytes = 16384;
// The rows of a group, but never fewer or more tiles than that.
constexpr int64_t kGroupBytes = 128 * 1024;
constexpr int64_t kGroupRowsMax = 96;
constexpr int64_t kGroupTilesMin = 4;
// How far ahead of its use a lone tile fetches weights.
constexpr int64_t kPrefetchBytes = 1024;

struct TileArgs {
  const char* x;        // [steps][ROWS] factors
  const char* panel;    // the first panel, at this pass's first step
  int64_t panel_bytes;  // to the next panel
  int64_t steps;
  float* sums;            // [ROWS][PANELS * width]
  bool resume;            // go on from them
  const int32_t* starts;  // or else start from here, where given
  const char* prefetch;   // what is wanted soon: fetched from memory while the units compute,
  int64_t prefetch_step;  // so many bytes further with each step
};

template <class Format, int ROWS, int PANELS>
void MultiplyTile(const TileArgs& args) {
  constexpr int kVectors = PANELS * Format::kVectors;
  typename Format::Sum sums[ROWS][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      const int64_t lane = v * Vec::kLanes;
      sums[r][v] = args.resume ? Format::LoadSum(args.sums + r * kVectors * Vec::kLanes + lane)
                               : Format::Start(args.starts == nullptr ? nullptr : args.starts + lane);
    }
  }
  const char* panel = args.panel;
  const char* x = args.x;
  const char* prefetch = args.prefetch;
  for (int64_t step = 0; step < args.steps; ++step) {
#pragma GCC unroll 4
    for (int p = 0; p < PANELS; ++p) {
      __builtin_prefetch(prefetch + p * args.panel_bytes, 0, 2);
      typename Format::Weights weights[Format::kVectors];
      Format::LoadWeights(panel + p * args.panel_bytes, weights);
#pragma GCC unroll 16
      for (int r = 0; r < ROWS; ++r) {
        const auto factor = Format::BroadcastFactor(x + r * kFactorBytes);
#pragma GCC unroll 4
        for (int v = 0; v < Format::kVectors; ++v) {
          auto& sum = sums[r][p * Format::kVectors + v];
          sum = Format::MultiplyAdd(factor, weights[v], sum);
        }
      }
    }
    prefetch += args.prefetch_step;
    panel += Format::kStepBytes;
    x += ROWS * kFactorBytes;
  }
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      Format::StoreSum(args.sums + (r * kVectors + v) * Vec::kLanes, sums[r][v]);
    }
  }
}

using TileFunction = void (*)(const TileArgs& args);

template <class Format, int... INDICES>
TileFunction TileFunctionOf(int64_t rows, std::integer_sequence<int, INDICES...>) {
  static constexpr TileFunction kFunctions[] = {MultiplyTile<Format, INDICES + 1, 1>...};
  return kFunctions[rows - 1];
}

template <class Format>
TileFunction TileFunctionOf(int64_t rows) {
  return TileFunctionOf<Format>(rows, std::make_integer_sequence<int, Format::kRows>());
}

template <class Format>
struct TiledProduct {
  const MultiplyArgs& args;
  const Tiles tiles = Tiles::Of(args.num_rows, Format::kRows);
  const int64_t steps = (args.cols + Format::kColsPerStep - 1) / Format::kColsPerStep;
  const int64_t panel_bytes = steps * Format::kStepBytes;

  const char* Panel(int64_t panel) const {
    return static_cast<const char*>(args.panels) + panel * panel_bytes;
  }
  const char* Rows(int64_t row) const {
    return static_cast<const char*>(args.packed) + row * steps * kFactorBytes;
  }
  const int32_t* Starts(int64_t panel) const {
    return args.starts == nullptr ? nullptr : args.starts + panel * Format::kWidth;
  }

  // How many panels are finished together.
  int64_t Unit() const { return args.finish == Finish::kSilu ? 2 : 1; }

  // A lone tile streams panels; a low one several side by side, so that enough sums are under way
  // to hide the latency of one.
  template <int ROWS, int PANELS>
  void Stream(int64_t tile, int64_t& panel) const {
    alignas(64) float sums[ROWS * PANELS * Format::kWidth];
    const int64_t row = tiles.Begin(tile);
    for (; panel + PANELS <= args.panel_end; panel += PANELS) {
      MultiplyTile<Format, ROWS, PANELS>({.x = Rows(row),
                                          .panel = Panel(panel),
                                          .panel_bytes = panel_bytes,
                                          .steps = steps,
                                          .sums = sums,
                                          .resume = false,
                                          .starts = Starts(panel),
                                          .prefetch = Panel(panel) + kPrefetchBytes,
                                          .prefetch_step = Format::kStepBytes});
      for (int64_t p = 0; p < PANELS; p += Unit()) {
        FinishPanel<Format>(args, {.sums = sums + p * Format::kWidth,
                                   .sums_stride = PANELS * Format::kWidth,
                                   .up_offset = Format::kWidth,
                                   .row = row,
                                   .num_rows = ROWS,
                                   .panel = panel + p});
      }
    }
  }

  void RunLoneTile(int64_t tile) const {
    int64_t panel = args.panel_begin;
    const int64_t rows = tiles.Begin(tile + 1) - tiles.Begin(tile);
    if (rows == 1) Stream<1, 4>(tile, panel);
    RunGroup(tile, tile + 1, panel);
  }

  // Panels from `panel` on.
  void RunGroup(int64_t first_tile, int64_t last_tile, int64_t panel) const {
    alignas(64) float sums[2 * kGroupRowsMax * Format::kWidth];
    const int64_t first_row = tiles.Begin(first_tile);
    const int64_t num_rows = tiles.Begin(last_tile) - first_row;
    for (; panel < args.panel_end; panel += Unit()) {
      for (int64_t i = 0; i < Unit(); ++i) {
        MultiplyPanel(first_tile, last_tile, panel + i, sums + i * num_rows * Format::kWidth);
      }
      FinishPanel<Format>(args, {.sums = sums,
                                 .sums_stride = Format::kWidth,
                                 .up_offset = num_rows * Format::kWidth,
                                 .row = first_row,
                                 .num_rows = num_rows,
                                 .panel = panel});
    }
  }

  // Into sums [rows of the tiles][width].
  void MultiplyPanel(int64_t first_tile, int64_t last_tile, int64_t panel, float* sums) const {
    constexpr int64_t kStepsPerPass = kPassBytes / Format::kStepBytes;
    const int64_t first_row = tiles.Begin(first_tile), num_tiles = last_tile - first_tile;
    for (int64_t step = 0; step < steps; step += kStepsPerPass) {
      const int64_t count = steps - step < kStepsPerPass ? steps - step : kStepsPerPass;
      const char* const weights = Panel(panel) + step * Format::kStepBytes;
      // Each tile fetches its share of what follows this part.
      const int64_t prefetch_step = Format::kStepBytes / num_tiles;
      const char* const next =
          weights + (num_tiles == 1 ? kPrefetchBytes : count * Format::kStepBytes);
      for (int64_t tile = first_tile; tile < last_tile; ++tile) {
        const int64_t row = tiles.Begin(tile), rows = tiles.Begin(tile + 1) - row;
        TileFunctionOf<Format>(rows)(
            {.x = Rows(row) + step * rows * kFactorBytes,
             .panel = weights,
             .panel_bytes = panel_bytes,
             .steps = count,
             .sums = sums + (row - first_row) * Format::kWidth,
             .resume = step > 0,
             .starts = Starts(panel),
             .prefetch = next + (tile - first_tile) * count * prefetch_step,
             .prefetch_step = prefetch_step});
      }
    }
  }

  void Run() const {
    const int64_t num_tiles = args.tile_end - args.tile_begin;
    if (num_tiles == 1) return RunLoneTile(args.tile_begin);
    constexpr int64_t kTilesMax = kGroupRowsMax / Format::kRows;
    const int64_t fitting = kGroupBytes / (steps * kFactorBytes * Format::kRows);
    const int64_t per_group = fitting < kGroupTilesMin   ? kGroupTilesMin
                              : fitting > kTilesMax ? kTilesMax
                                                         : fitting;
    const Tiles groups = Tiles::Of(num_tiles, per_group);
    for (int64_t group = 0; group < groups.count; ++group) {
      RunGroup(args.tile_begin + groups.Begin(group), args.tile_begin + groups.Begin(group + 1),
               args.panel_begin);
    }
  }
};

template <class Format>
void Multiply(const MultiplyArgs& args) {
  TiledProduct<Format>{args}.Run();
}
