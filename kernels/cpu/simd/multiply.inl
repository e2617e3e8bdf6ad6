// Computes the matrix product of packed input rows and packed weights. The source file of every
// instruction set includes this file inside its namespace, after formats.inl.
//
// A panel is a group of weight rows. A tile is a group of a few input rows. The innermost loop
// multiplies a tile by one or more panels, and keeps all sums in registers. A part of a panel stays
// in the first-level cache while several tiles are multiplied. (Goto, van de Geijn: "Anatomy of
// High-Performance Matrix Multiplication", 2008.)
#pragma once

#include "kernels/cpu/simd/finish.inl"
#include "kernels/cpu/simd/formats.inl"
#include "kernels/cpu/simd/tiles.inl"

// Maximum size in bytes of a part of a panel (a group of weight rows). This part stays in the
// first-level cache while many input rows are multiplied.
constexpr int64_t kPassBytes = 16384;
// Maximum size in bytes of a part of the input rows, which stays in the second-level cache while
// several groups of weight rows are multiplied.
constexpr int64_t kChunkBytes = 256 * 1024;
// Maximum number of input rows that are multiplied with a part of the weights while this part stays
// in a CPU cache.
constexpr int64_t kGroupRowsMax = 192;
// Maximum number of panels (groups of weight rows) that are multiplied with a part of the input
// rows while this part stays in the second-level cache.
constexpr int64_t kBlockPanels = 8;
// Minimum number of tiles (of a few input rows each) for which weights are widened to f32 in
// advance. With fewer tiles, each tile widens the weights again.
constexpr int64_t kWidenTilesMin = 5;
constexpr int64_t kLineBytes = 64;

struct TileArgs {
  const char* x;  // packed input rows, of shape [steps (groups of columns)][ROWS]
  // Address, in the first panel (a group of weight rows), of the first column that this call
  // multiplies
  const char* panel;
  int64_t panel_bytes;  // distance in bytes between two consecutive panels (groups of weight rows)
  int64_t steps;
  float* sums;            // sums of products, shape [ROWS][PANELS * width]
  bool resume;            // true: adds to the values in `sums`; false: overwrites these values
  const int32_t* starts;  // initial sums if `resume` is false; null: zeros
  const char* prefetch;   // address of the memory to prefetch
  // Number of bytes by which `prefetch` advances in each iteration of the loop over columns.
  int64_t prefetch_step;
  // Address of the input rows that the next call multiplies. The current call prefetches these
  // rows.
  const char* next_x;
};

// Returns the distance in bytes from the weights that are multiplied to the weights that are
// prefetched. `panels` is the number of panels (groups of weight rows) that are multiplied
// simultaneously.
constexpr int64_t PrefetchBytes(int64_t panels) { return kPrefetchBytes / panels; }

template <class Format, int ROWS, int PANELS>
using TileSums = typename Format::Sum[ROWS][PANELS * Format::kVectors];

template <class Format, int ROWS, int PANELS>
__attribute__((always_inline)) inline void MultiplyStep(const char* x, const char* panel,
                                                        int64_t panel_bytes,
                                                        TileSums<Format, ROWS, PANELS>& sums) {
#pragma GCC unroll 4
  for (int p = 0; p < PANELS; ++p) {
    typename Format::Weights weights[Format::kVectors];
    Format::LoadWeights(panel + p * panel_bytes, weights);
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
}

// Multiplies a tile of ROWS input rows with PANELS panels (groups of weight rows), and prefetches
// weights for later multiplications. TILES is 1 if the product has a single tile.
template <class Format, int ROWS, int PANELS, int TILES>
void MultiplyTile(const TileArgs& args) {
  constexpr bool kIsLone = TILES == 1;
  constexpr int kVectors = PANELS * Format::kVectors, kUnroll = Format::kUnroll;
  constexpr int64_t kFetched = kUnroll * Format::kStepBytes / TILES;
  constexpr int64_t kAhead = PrefetchBytes(PANELS) / Format::kStepBytes;
  constexpr int64_t kFetchedX = kIsLone ? 0 : kUnroll * ROWS * kFactorBytes;
  TileSums<Format, ROWS, PANELS> sums;
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
  const char *prefetch = args.prefetch, *next_x = args.next_x;
  const int64_t panel_bytes = args.panel_bytes;
  int64_t left = args.steps;
  for (; left >= kUnroll; left -= kUnroll) {
#pragma GCC unroll 4
    for (int p = 0; p < PANELS; ++p) {
#pragma GCC unroll 8
      for (int64_t byte = 0; byte < kFetched; byte += kLineBytes) {
        __builtin_prefetch(prefetch + p * panel_bytes + byte, 0, 2);
      }
    }
#pragma GCC unroll 4
    for (int64_t byte = 0; byte < kFetchedX; byte += kLineBytes) {
      __builtin_prefetch(next_x + byte, 0, 3);
    }
#pragma GCC unroll 4
    for (int u = 0; u < kUnroll; ++u) {
      MultiplyStep<Format, ROWS, PANELS>(x + u * ROWS * kFactorBytes,
                                         panel + u * Format::kStepBytes, panel_bytes, sums);
    }
    prefetch += args.prefetch_step;
    if (kIsLone && left <= kAhead && left > kAhead - kUnroll) {
      // Moves the prefetch address past panels (groups of weight rows) that this call already
      // reads.
      prefetch += (PANELS - 1) * panel_bytes;
    }
    panel += kUnroll * Format::kStepBytes;
    x += kUnroll * ROWS * kFactorBytes;
    if (!kIsLone) next_x += kUnroll * ROWS * kFactorBytes;
  }
  for (; left > 0; --left) {
    MultiplyStep<Format, ROWS, PANELS>(x, panel, panel_bytes, sums);
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

// Returns how many panels (groups of weight rows) one loop multiplies if the input has only `rows`
// rows. Many independent sums hide the latency of a multiply-add.
template <class Format>
constexpr int LonePanels(int64_t rows) {
  return rows * 4 <= Format::kRows ? 4 : rows * 2 <= Format::kRows ? 2 : 1;
}

template <class Format>
struct ProductTiles {
  // Element i of each array is a function that multiplies a tile of i + 1 input rows. `lone`: for
  // products with one tile. `of_few`: for two or three tiles. `of_many`: for four or more tiles.
  TileFunction lone[Format::kRows], of_few[Format::kRows], of_many[Format::kRows];

  template <int... INDICES>
  static constexpr ProductTiles Of(std::integer_sequence<int, INDICES...>) {
    return {{MultiplyTile<Format, INDICES + 1, LonePanels<Format>(INDICES + 1), 1>...},
            {MultiplyTile<Format, INDICES + 1, 1, 2>...},
            {MultiplyTile<Format, INDICES + 1, 1, 4>...}};
  }
};

template <class Format>
constexpr ProductTiles<Format> kProductTiles =
    ProductTiles<Format>::Of(std::make_integer_sequence<int, Format::kRows>());

template <class Format>
struct TiledProduct {
  using Wide = typename Format::Wide;

  const MultiplyArgs& args;
  const Tiles tiles = Tiles::Of(args.num_rows, Format::kRows);
  const int64_t steps = (args.cols + Format::kColsPerStep - 1) / Format::kColsPerStep;
  const int64_t panel_bytes = steps * Format::kStepBytes;

  const char* Panel(int64_t panel) const {
    return static_cast<const char*>(args.panels) + panel * panel_bytes;
  }
  const char* FactorsOf(int64_t tile, int64_t step) const {
    const int64_t begin = tiles.Begin(tile), rows = tiles.Begin(tile + 1) - begin;
    return static_cast<const char*>(args.packed) + (begin * steps + step * rows) * kFactorBytes;
  }
  const int32_t* Starts(int64_t panel) const {
    return args.starts == nullptr ? nullptr : args.starts + panel * Format::kWidth;
  }

  // Returns the number of panels (groups of weight rows) whose sums are finished together: 2 (gate
  // and up) for kSilu, otherwise 1.
  int64_t Unit() const { return args.finish == Finish::kSilu ? 2 : 1; }

  // Multiplies all input rows with all panels (groups of weight rows). Reads each panel from memory
  // once. REQUIRES: there are at most Format::kRows input rows.
  void RunLoneTile() const {
    alignas(64) float sums[2 * Format::kRows * Format::kWidth];
    const int64_t rows = tiles.num_rows, at_once = LonePanels<Format>(rows);
    const int64_t unit = Unit() > at_once ? Unit() : at_once;
    int64_t panel = args.panel_begin;
    for (; panel + unit <= args.panel_end; panel += unit) {
      for (int64_t p = 0; p < unit; p += at_once) {
        MultiplyLone(kProductTiles<Format>.lone[rows - 1], panel + p,
                     sums + p * rows * Format::kWidth);
      }
      // True if separate calls multiply the gate rows and the up rows of the weight.
      const bool is_apart = unit > at_once;
      for (int64_t p = 0; p < unit; p += Unit()) {
        FinishPanel<Format>(args, {.sums = sums + p * Format::kWidth,
                                   .sums_stride = at_once * Format::kWidth,
                                   .up_offset = (is_apart ? rows : 1) * Format::kWidth,
                                   .row = 0,
                                   .num_rows = rows,
                                   .panel = panel + p});
      }
    }
    if (panel < args.panel_end) RunGroup(0, 1, panel);
  }

  void MultiplyLone(TileFunction multiply, int64_t panel, float* sums) const {
    multiply({.x = FactorsOf(0, 0),
              .panel = Panel(panel),
              .panel_bytes = panel_bytes,
              .steps = steps,
              .sums = sums,
              .resume = false,
              .starts = Starts(panel),
              .prefetch = Panel(panel) + PrefetchBytes(LonePanels<Format>(tiles.num_rows)),
              .prefetch_step = Format::kUnroll * Format::kStepBytes,
              .next_x = nullptr});
  }

  // Multiplies the tiles (of a few input rows each) [first_tile, last_tile) with the panels (groups
  // of weight rows) [panel, args.panel_end).
  void RunGroup(int64_t first_tile, int64_t last_tile, int64_t panel) const {
    alignas(64) float sums[kBlockPanels * kGroupRowsMax * Format::kWidth];
    const int64_t first_row = tiles.Begin(first_tile);
    const int64_t num_rows = tiles.Begin(last_tile) - first_row;
    const int64_t sums_size = num_rows * Format::kWidth;
    const bool widens = kWidens && last_tile - first_tile >= kWidenTilesMin;
    const int64_t pass = StepsOfPass(widens ? Wide::kStepBytes : Format::kStepBytes);
    const int64_t passes = kChunkBytes / (num_rows * kFactorBytes * pass);
    const int64_t chunk_max = passes > 1 ? passes * pass : pass;
    while (panel < args.panel_end) {
      const int64_t left = args.panel_end - panel;
      const int64_t count = left < kBlockPanels ? left : kBlockPanels;
      for (int64_t begin = 0; begin < steps; begin += chunk_max) {
        const int64_t end = steps - begin < chunk_max ? steps : begin + chunk_max;
        for (int64_t i = 0; i < count; ++i) {
          const Chunk chunk = {first_tile, last_tile, panel + i, begin, end, pass};
          if (widens) {
            MultiplyChunk<Wide>(chunk, sums + i * sums_size);
          } else {
            MultiplyChunk<Format>(chunk, sums + i * sums_size);
          }
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

  // Returns the number of steps whose weights stay in the first-level cache while several tiles of
  // input rows are multiplied. A step is a group of kColsPerStep columns. The result is a multiple
  // of Format::kUnroll.
  int64_t StepsOfPass(int64_t step_bytes) const {
    const int64_t max = kPassBytes / step_bytes, count = (steps + max - 1) / max;
    const int64_t least = (steps + count - 1) / count;
    return (least + Format::kUnroll - 1) / Format::kUnroll * Format::kUnroll;
  }

  struct Chunk {
    // The tiles [first_tile, last_tile) of input rows are multiplied with the column groups [begin,
    // end) of panel `panel` (a group of weight rows). A column group has kColsPerStep columns.
    int64_t first_tile, last_tile, panel, begin, end;
    // Number of groups of kColsPerStep columns whose weights stay in the first-level cache.
    int64_t pass;
  };
  // Multiplies a range of columns of several tiles (of a few input rows each) with a panel (a group
  // of weight rows). `sums` has the shape [rows of the tiles][width].
  template <class Read>
  void MultiplyChunk(const Chunk& chunk, float* sums) const {
    alignas(64) char wide[kPassBytes];
    const int64_t first_row = tiles.Begin(chunk.first_tile);
    const int64_t num_tiles = chunk.last_tile - chunk.first_tile;
    for (int64_t step = chunk.begin; step < chunk.end; step += chunk.pass) {
      const bool is_last = chunk.end - step <= chunk.pass;
      const int64_t count = is_last ? chunk.end - step : chunk.pass;
      const char* const stored = Panel(chunk.panel) + step * Format::kStepBytes;
      const char* weights = stored;
      if constexpr (!__is_same(Read, Format)) {
        Format::WidenSteps(stored, count, wide);
        weights = wide;
      }
      constexpr const ProductTiles<Read>& kTiles = kProductTiles<Read>;
      const TileFunction* const multiply = num_tiles < 4 ? kTiles.of_few : kTiles.of_many;
      // The next weights are prefetched in num_tiles equal parts, one part for each tile (a group
      // of a few input rows).
      const int64_t prefetch_step = Format::kUnroll * Format::kStepBytes / num_tiles;
      const int64_t next_step = is_last ? chunk.begin : step + count;
      const char* const next =
          Panel(is_last ? chunk.panel + 1 : chunk.panel) + next_step * Format::kStepBytes;
      for (int64_t tile = chunk.first_tile; tile < chunk.last_tile; ++tile) {
        const int64_t row = tiles.Begin(tile), rows = tiles.Begin(tile + 1) - row;
        const char* const next_x = tile + 1 < chunk.last_tile
                                       ? FactorsOf(tile + 1, step)
                                       : FactorsOf(chunk.first_tile, next_step);
        multiply[rows - 1](
            {.x = FactorsOf(tile, step),
             .panel = weights,
             .panel_bytes = panel_bytes,
             .steps = count,
             .sums = sums + (row - first_row) * Format::kWidth,
             .resume = step > 0,
             .starts = Starts(chunk.panel),
             .prefetch = next + (tile - chunk.first_tile) * count * Format::kStepBytes / num_tiles,
             .prefetch_step = prefetch_step,
             .next_x = next_x});
      }
    }
  }

  // Divides all tiles (of a few input rows each) into groups. A range of weights stays in the CPU
  // caches while all tiles of a group use the range.
  static Tiles GroupsOf(int64_t num_rows) {
    return Tiles::Of(Tiles::Of(num_rows, Format::kRows).count, kGroupRowsMax / Format::kRows);
  }

  void Run() const {
    if (tiles.count == 1) return RunLoneTile();
    const Tiles groups = GroupsOf(args.num_rows);
    for (int64_t group = args.group_begin; group < args.group_end; ++group) {
      RunGroup(groups.Begin(group), groups.Begin(group + 1), args.panel_begin);
    }
  }

  static constexpr bool kWidens = !__is_same(Wide, Format);
};

template <class Format>
void Multiply(const MultiplyArgs& args) {
  TiledProduct<Format>{args}.Run();
}

template <class Format>
int64_t NumGroups(int64_t num_rows) {
  return TiledProduct<Format>::GroupsOf(num_rows).count;
}
