// The matrix product. Included by every instruction set's file, inside its namespace, after
// formats.inl.
//
// The innermost loop keeps a tile of ROWS x (PANELS * width) sums in registers and adds
// x[r][k] * w[k][n] for one step after the other. Around it, as in Goto, van de Geijn: "Anatomy of
// High-Performance Matrix Multiplication" (2008): a part of a panel stays in the first-level cache
// while the tiles of a group use it, and a chunk of the group's rows in the second-level cache
// while a block of panels uses it. Sums wait in a small buffer in between and come back unchanged:
// so the order of additions is k = 0, 1, 2 ... for every shape of tile.
#pragma once

#include "kernels/cpu/simd/finish.inl"
#include "kernels/cpu/simd/formats.inl"
#include "kernels/cpu/simd/tiles.inl"

// The part of a panel that tiles share.
constexpr int64_t kPassBytes = 16384;
// A chunk of a group's rows, and the rows of a group.
constexpr int64_t kChunkBytes = 192 * 1024;
constexpr int64_t kGroupRowsMax = 64;
constexpr int64_t kBlockPanels = 8;
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
      sums[r][v] = args.resume
                       ? Format::LoadSum(args.sums + r * kVectors * Vec::kLanes + lane)
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
  void Stream(int64_t& panel) const {
    alignas(64) float sums[ROWS * PANELS * Format::kWidth];
    for (; panel + PANELS <= args.panel_end; panel += PANELS) {
      MultiplyTile<Format, ROWS, PANELS>({.x = Rows(0),
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
                                   .row = 0,
                                   .num_rows = ROWS,
                                   .panel = panel + p});
      }
    }
  }

  void RunLoneTile() const {
    int64_t panel = args.panel_begin;
    if (tiles.num_rows == 1) Stream<1, 4>(panel);
    RunGroup(0, 1, panel);
  }

  // Panels from `panel` on.
  void RunGroup(int64_t first_tile, int64_t last_tile, int64_t panel) const {
    alignas(64) float sums[kBlockPanels * kGroupRowsMax * Format::kWidth];
    const int64_t first_row = tiles.Begin(first_tile);
    const int64_t num_rows = tiles.Begin(last_tile) - first_row;
    const int64_t sums_size = num_rows * Format::kWidth;
    const int64_t chunk_max = kChunkBytes / (num_rows * kFactorBytes);
    while (panel < args.panel_end) {
      const int64_t left = args.panel_end - panel;
      const int64_t count = left < kBlockPanels ? left : kBlockPanels;
      for (int64_t begin = 0; begin < steps; begin += chunk_max) {
        const int64_t end = steps - begin < chunk_max ? steps : begin + chunk_max;
        for (int64_t i = 0; i < count; ++i) {
          MultiplyChunk({first_tile, last_tile, panel + i, begin, end}, sums + i * sums_size);
        }
      }
      for (int64_t i = 0; i < count; i += Unit()) {
        FinishPanel<Format>(args, {.sums = sums + i * sums_size,
                                   .sums_stride = Format::kWidth,
                                   .up_offset = sums_size,
                                   .row = first_row,
                                   .num_rows = num_rows,
                                   .panel = panel + i});
      }
      panel += count;
    }
  }

  struct Chunk {
    int64_t first_tile, last_tile, panel, begin, end;  // steps begin .. end
  };
  // Into sums [rows of the tiles][width].
  void MultiplyChunk(const Chunk& chunk, float* sums) const {
    constexpr int64_t kStepsPerPass = kPassBytes / Format::kStepBytes;
    const int64_t first_row = tiles.Begin(chunk.first_tile);
    const int64_t num_tiles = chunk.last_tile - chunk.first_tile;
    for (int64_t step = chunk.begin; step < chunk.end; step += kStepsPerPass) {
      const bool is_last = chunk.end - step <= kStepsPerPass;
      const int64_t count = is_last ? chunk.end - step : kStepsPerPass;
      const char* const weights = Panel(chunk.panel) + step * Format::kStepBytes;
      // Each tile fetches its share of what follows this part.
      const int64_t prefetch_step = Format::kStepBytes / num_tiles;
      const char* const next = num_tiles == 1 ? weights + kPrefetchBytes
                               : is_last ? Panel(chunk.panel + 1) + chunk.begin * Format::kStepBytes
                                         : weights + count * Format::kStepBytes;
      for (int64_t tile = chunk.first_tile; tile < chunk.last_tile; ++tile) {
        const int64_t row = tiles.Begin(tile), rows = tiles.Begin(tile + 1) - row;
        TileFunctionOf<Format>(rows)(
            {.x = Rows(row) + step * rows * kFactorBytes,
             .panel = weights,
             .panel_bytes = panel_bytes,
             .steps = count,
             .sums = sums + (row - first_row) * Format::kWidth,
             .resume = step > 0,
             .starts = Starts(chunk.panel),
             .prefetch = next + (tile - chunk.first_tile) * count * prefetch_step,
             .prefetch_step = prefetch_step});
      }
    }
  }

  void Run() const {
    if (tiles.count == 1) return RunLoneTile();
    const Tiles groups = Tiles::Of(tiles.count, kGroupRowsMax / Format::kRows);
    for (int64_t group = 0; group < groups.count; ++group) {
      RunGroup(groups.Begin(group), groups.Begin(group + 1), args.panel_begin);
    }
  }
};

template <class Format>
void Multiply(const MultiplyArgs& args) {
  TiledProduct<Format>{args}.Run();
}
