// Computes the matrix product with a matrix unit that multiplies tiles (Intel AMX). A source file
// includes this file inside its namespace, after pack_rows.inl, and supplies the type Unit, which
// executes the tile instructions.
//
// A tile register holds 16 rows of 64 bytes. The unit adds to a tile of 16 x 16 sums the product of
// a tile of input rows and a tile of weights. The sum of an element is a chain of additions in
// ascending order of the columns, so its bits do not depend on the other rows of the batch.
// (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18.)
#pragma once

#include "kernels/cpu/simd/finish.inl"
#include "kernels/cpu/simd/formats.inl"
#include "kernels/cpu/simd/pack_rows.inl"
#include "kernels/cpu/simd/tiles.inl"

constexpr int64_t kTileBytes = 1024;   // size in bytes of a tile register
constexpr int64_t kTileRowBytes = 64;  // size in bytes of a row of a tile register
constexpr int64_t kUnitRows = 16;      // number of rows of a tile register
constexpr int64_t kUnitOutputs = 16;   // number of outputs (weight rows) of a tile of weights
// Number of steps (groups of columns, four bytes for each weight row) in a tile of weights.
constexpr int32_t kTileSteps = 16;
// Number of tiles of input rows, and number of panels (groups of 16 weight rows), that are
// multiplied together. Their 4 tiles of sums, 2 tiles of rows and 2 of weights fill all 8
// registers.
constexpr int64_t kTilesAtOnce = 2, kPanelsAtOnce = 2;
// Number of panels (groups of 16 weight rows) that are multiplied together if there is one tile of
// input rows. Memory bandwidth then limits the speed, and several streams reach more of it.
constexpr int64_t kLonePanels = 4;
// Maximum number of tiles of input rows that are multiplied with a panel (a group of 16 weight
// rows) while the panel stays in the second-level cache.
constexpr int64_t kGroupTiles = 8;
// Number of blocks (tile registers) of two panels that stay in the first-level cache while all
// tiles of a group are multiplied with them.
constexpr int64_t kChunkBlocks = 8;
// Distance in bytes from the weights that are multiplied to the weights that are prefetched, in a
// product with one tile of input rows.
constexpr int64_t kTilePrefetchBytes = 2048;

// Numbers of the tile registers.
constexpr int kSumTiles = 0;     // 4 registers of sums: [tile of rows][panel]
constexpr int kRowTiles = 4;     // 2 registers of input rows
constexpr int kWeightTiles = 6;  // 2 registers of weights

// The format of bf16 weights. The input rows are rounded to bf16.
template <class Unit>
struct TileBF16 : FloatFormat<BF16> {
  static constexpr int64_t kWidth = kUnitOutputs;
  static constexpr int64_t kColsPerStep = 2;
  static constexpr bool kRoundsActivations = true;

  template <int SUMS, int ROWS, int WEIGHTS>
  static void Dot() {
    Unit::template DotBF16<SUMS, ROWS, WEIGHTS>();
  }
  static void RoundInputRow(const float* x, int64_t cols, void* numbers, float*) {
    NarrowRow(x, cols, static_cast<uint16_t*>(numbers));
  }
};

// The format of eight-bit weights. The input rows are rounded to eight-bit numbers.
template <class Unit>
struct TileInt8 : Int8Format {
  static constexpr int64_t kWidth = kUnitOutputs;
  static constexpr int64_t kColsPerStep = 4;
  static constexpr bool kRoundsActivations = false;

  template <int SUMS, int ROWS, int WEIGHTS>
  static void Dot() {
    Unit::template DotInt8<SUMS, ROWS, WEIGHTS>();
  }
  static void RoundInputRow(const float* x, int64_t cols, void* numbers, float* scale) {
    *scale = QuantizeRow(x, cols, static_cast<int8_t*>(numbers));
  }
};

// Returns the number of rows of a tile register that a product with `num_rows` input rows uses.
constexpr int64_t UsedTileRows(int64_t num_rows) {
  return num_rows < kUnitRows ? num_rows : kUnitRows;
}

// Packs input rows. The layout is [tile][block of columns][row of the tile][64 bytes].
template <class Format>
void PackTileRows(const PackRowsArgs& args) {
  constexpr int64_t kElementBytes = kFactorBytes / Format::kColsPerStep;
  const int64_t blocks = (args.cols * kElementBytes + kTileRowBytes - 1) / kTileRowBytes;
  const int64_t used_rows = UsedTileRows(args.num_rows);
  auto* const normed = args.row;
  auto* const numbers = reinterpret_cast<char*>(args.row + PackedRowFloats(args.cols));
  for (int64_t tile = args.tile_begin; tile < args.tile_end; ++tile) {
    char* const out = static_cast<char*>(args.packed) + tile * blocks * kTileBytes;
    for (int64_t r = 0; r < used_rows; ++r) {
      const int64_t row = tile * kUnitRows + r;
      if (row < args.num_rows) {
        const int64_t index = args.indices == nullptr ? row : args.indices[row];
        const float* x = args.x + index * args.cols;
        if (args.norm_weight != nullptr) {
          RmsNorm(x, args.norm_weight, args.epsilon, args.cols, normed);
          x = normed;
        }
        Format::RoundInputRow(x, args.cols, numbers, args.scales + row);
      }
      const int64_t bytes = row < args.num_rows ? args.cols * kElementBytes : 0;
      __builtin_memset(numbers + bytes, 0, static_cast<uint64_t>(blocks * kTileRowBytes - bytes));
      for (int64_t block = 0; block < blocks; ++block) {
        __builtin_memcpy(out + block * kTileBytes + r * kTileRowBytes,
                         numbers + block * kTileRowBytes, kTileRowBytes);
      }
    }
  }
}

struct TileArgsOfUnit {
  const char* rows;    // first block of the first tile of input rows
  const char* panels;  // first block of the first panel (a group of 16 weight rows)
  // Distance in bytes between two tiles of input rows, and between two panels.
  int64_t stride;
  int64_t blocks;  // number of blocks (tile registers) of each tile and panel that are multiplied
  float* sums;     // sums of products, of shape [PANELS][ROWS][16][16]
  bool resume;     // true: adds to the values in `sums`; false: overwrites these values
};

// Multiplies a block of ROWS tiles of input rows with a block of panel PANEL (a group of 16
// weight rows). The first tile of input rows is in its register already.
template <class Unit, class Format, int ROWS, int PANELS, int PANEL>
void MultiplyPanel(const char* rows, const char* panels, int64_t stride) {
  constexpr int kWeights = kWeightTiles + PANEL % 2;
  Unit::template Load<kWeights>(panels + PANEL * stride);
  Format::template Dot<kSumTiles + PANEL, kRowTiles, kWeights>();
  if constexpr (ROWS == 2) {
    if constexpr (PANEL == 0) Unit::template Load<kRowTiles + 1>(rows + stride);
    Format::template Dot<kSumTiles + PANELS + PANEL, kRowTiles + 1, kWeights>();
  }
}

// Multiplies blocks of ROWS tiles of input rows with blocks of PANELS panels (groups of 16 weight
// rows).
template <class Unit, class Format, int ROWS, int PANELS>
void MultiplyTiles(const TileArgsOfUnit& args) {
  const auto for_each_sum = [&]<int... I>(const auto& act, std::integer_sequence<int, I...>) {
    constexpr int64_t kSums = kUnitRows * kUnitOutputs;
    (act(std::integral_constant<int, kSumTiles + I>(),
         args.sums + (I % PANELS * ROWS + I / PANELS) * kSums),
     ...);
  };
  constexpr auto kAllSums = std::make_integer_sequence<int, ROWS * PANELS>();
  for_each_sum(
      [&](auto tile, float* sums) {
        args.resume ? Unit::template Load<tile>(sums) : Unit::template Zero<tile>();
      },
      kAllSums);
  const char *rows = args.rows, *panels = args.panels;
  const int64_t stride = args.stride;
  for (int64_t block = 0; block < args.blocks; ++block) {
    if constexpr (ROWS == 1) {
      // Near the end of the panels, prefetches the panels that are multiplied next.
      const int64_t ahead = (block + 1) * kTileBytes + kTilePrefetchBytes;
      const char* const next =
          panels + kTilePrefetchBytes + (ahead > stride ? (PANELS - 1) * stride : 0);
      for (int64_t p = 0; p < PANELS; ++p) {
        for (int64_t byte = 0; byte < kTileBytes; byte += kTileRowBytes) {
          __builtin_prefetch(next + p * stride + byte, 0, 3);
        }
      }
    }
    Unit::template Load<kRowTiles>(rows);
    [&]<int... P>(std::integer_sequence<int, P...>) {
      (MultiplyPanel<Unit, Format, ROWS, PANELS, P>(rows, panels, stride), ...);
    }
    (std::make_integer_sequence<int, PANELS>());
    rows += kTileBytes;
    panels += kTileBytes;
  }
  for_each_sum([](auto tile, float* sums) { Unit::template Store<tile>(sums); }, kAllSums);
}

template <class Unit, class Format>
struct TileProduct {
  const MultiplyArgs& args;
  const int64_t blocks =
      (args.cols + kTileSteps * Format::kColsPerStep - 1) / (kTileSteps * Format::kColsPerStep);

  // Divides the tiles of input rows into groups of at most kGroupTiles tiles.
  static Tiles GroupsOf(int64_t num_rows) {
    return Tiles::Of((num_rows + kUnitRows - 1) / kUnitRows, kGroupTiles);
  }

  void Run() const {
    const Tiles groups = GroupsOf(args.num_rows);
    Unit::Configure(UsedTileRows(args.num_rows));
    for (int64_t group = args.group_begin; group < args.group_end; ++group) {
      const int64_t tile_begin = groups.Begin(group), tile_end = groups.Begin(group + 1);
      const int64_t panels_max = tile_end - tile_begin == 1 ? kLonePanels : kPanelsAtOnce;
      for (int64_t panel = args.panel_begin; panel < args.panel_end;) {
        const int64_t left = args.panel_end - panel;
        const int64_t num_panels = left >= panels_max ? panels_max : left >= 2 ? 2 : 1;
        MultiplyGroup(tile_begin, tile_end, panel, num_panels);
        panel += num_panels;
      }
    }
    Unit::Release();
  }

  // Multiplies the tiles [tile_begin, tile_end) of input rows with `num_panels` panels (groups of
  // 16 weight rows): 1 or 2, or kLonePanels if there is one tile.
  void MultiplyGroup(int64_t tile_begin, int64_t tile_end, int64_t panel,
                     int64_t num_panels) const {
    constexpr int64_t kSums = kUnitRows * kUnitOutputs;
    alignas(64) float sums[kGroupTiles * kPanelsAtOnce * kSums];
    const int64_t num_tiles = tile_end - tile_begin;
    const int64_t chunk = num_tiles <= kTilesAtOnce ? blocks : kChunkBlocks;
    for (int64_t block = 0; block < blocks; block += chunk) {
      for (int64_t tile = 0; tile < num_tiles; tile += kTilesAtOnce) {
        const int64_t at_once = num_tiles - tile < kTilesAtOnce ? 1 : kTilesAtOnce;
        FunctionFor(at_once, num_panels)({.rows = Block(args.packed, tile_begin + tile, block),
                                          .panels = Block(args.panels, panel, block),
                                          .stride = blocks * kTileBytes,
                                          .blocks = blocks - block < chunk ? blocks - block : chunk,
                                          .sums = sums + tile * kPanelsAtOnce * kSums,
                                          .resume = block > 0});
      }
    }
    for (int64_t tile = 0; tile < num_tiles; tile += kTilesAtOnce) {
      const int64_t at_once = num_tiles - tile < kTilesAtOnce ? 1 : kTilesAtOnce;
      FinishTiles(tile_begin + tile, at_once, panel, num_panels,
                  sums + tile * kPanelsAtOnce * kSums);
    }
  }

  // Applies args.finish to `sums`, the sums of one or two tiles and their panels.
  void FinishTiles(int64_t tile, int64_t num_tiles, int64_t panel, int64_t num_panels,
                   const float* sums) const {
    const int64_t row = tile * kUnitRows, rows_left = args.num_rows - row;
    const int64_t rows_max = num_tiles * kUnitRows;
    const int64_t unit = args.finish == Finish::kSilu ? 2 : 1;  // panels that are finished together
    for (int64_t p = 0; p < num_panels; p += unit) {
      FinishPanel<Format>(args, {.sums = sums + p * rows_max * kUnitOutputs,
                                 .sums_stride = kUnitOutputs,
                                 .up_offset = rows_max * kUnitOutputs,
                                 .row = row,
                                 .num_rows = rows_left < rows_max ? rows_left : rows_max,
                                 .panel = panel + p});
    }
  }

  // Returns the address of a block of packed rows or weights. `index`: number of the tile or panel.
  const char* Block(const void* packed, int64_t index, int64_t block) const {
    return static_cast<const char*>(packed) + (index * blocks + block) * kTileBytes;
  }

  using Function = void (*)(const TileArgsOfUnit&);
  static Function FunctionFor(int64_t num_tiles, int64_t num_panels) {
    if (num_tiles == 2) {
      return num_panels == 2 ? MultiplyTiles<Unit, Format, 2, 2>
                             : MultiplyTiles<Unit, Format, 2, 1>;
    }
    return num_panels == kLonePanels ? MultiplyTiles<Unit, Format, 1, kLonePanels>
           : num_panels == 2         ? MultiplyTiles<Unit, Format, 1, 2>
                                     : MultiplyTiles<Unit, Format, 1, 1>;
  }
};

template <class Unit, class Format>
void MultiplyByTiles(const MultiplyArgs& args) {
  TileProduct<Unit, Format>{args}.Run();
}

template <class Unit, class Format>
int64_t NumTileGroups(int64_t num_rows) {
  return TileProduct<Unit, Format>::GroupsOf(num_rows).count;
}

template <class Unit, class Format>
constexpr Product TileProductOf() {
  return {.panel_width = kUnitOutputs,
          .tile_rows = kUnitRows,
          .cols_per_step = Format::kColsPerStep,
          .steps_multiple = kTileSteps,
          .interleaves_pairs = false,
          .offsets_factors = false,
          .rounds_activations = Format::kRoundsActivations,
          .num_groups = NumTileGroups<Unit, Format>,
          .pack_rows = PackTileRows<Format>,
          .multiply = MultiplyByTiles<Unit, Format>};
}

// Returns the table `kernels` with products of the matrix unit for bf16 and eight-bit weights.
template <class Unit>
constexpr Kernels WithTileProducts(Kernels kernels) {
  kernels.products[kBF16Weights] = TileProductOf<Unit, TileBF16<Unit>>();
  kernels.products[kInt8] = TileProductOf<Unit, TileInt8<Unit>>();
  return kernels;
}
