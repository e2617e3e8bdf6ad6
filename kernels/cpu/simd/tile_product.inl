// Computes matrix products with a matrix unit such as Intel AMX. A source file includes this file
// inside its namespace, and defines the type Unit, which executes the instructions of the matrix
// unit.
//
// A tile register holds 16 rows of 64 bytes (a block). The matrix unit multiplies a block of input
// rows with a block of weights, and adds the products to 16 x 16 sums in a third register. A tile
// of input rows (16 rows) and a panel (16 weight rows) are stored as sequences of blocks. Products
// are added in ascending order of the columns, so the bits of a sum do not depend on the other rows
// of the batch. (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1,
// chapter 18.)
#pragma once

#include "kernels/cpu/simd/finish.inl"
#include "kernels/cpu/simd/formats.inl"
#include "kernels/cpu/simd/pack_rows.inl"
#include "kernels/cpu/simd/tiles.inl"

constexpr int64_t kTileBytes = 1024;   // size in bytes of a tile register
constexpr int64_t kTileRowBytes = 64;  // size in bytes of a row of a tile register
constexpr int64_t kUnitRows = 16;      // number of rows of a tile register
constexpr int64_t kUnitOutputs = 16;   // number of outputs (weight rows) of a tile of weights
constexpr int64_t kTileSums = kUnitRows * kUnitOutputs;  // number of sums of a tile of sums
// Number of steps (groups of columns, four bytes for each weight row) in a tile of weights.
constexpr int32_t kTileSteps = 16;
// Number of tiles (16 input rows each) and number of panels (16 weight rows each) that are
// multiplied together. Their sums need 4 tile registers, the input rows 2, and the weights 2.
constexpr int64_t kTilesAtOnce = 2, kPanelsAtOnce = 2;
// Number of panels (16 weight rows each) that are multiplied together if the input has at most 16
// rows. Memory bandwidth then limits the speed, and reads of several panels reach more bandwidth.
constexpr int64_t kLonePanels = 4;
// A part of the input stays in the second-level cache while up to kGroupPanels panels (16 weight
// rows each) are multiplied with this part. The part has up to 16 * kGroupTiles rows and
// kSpanBlocks blocks (64 bytes of each row).
constexpr int64_t kGroupTiles = 8, kGroupPanels = 8, kSpanBlocks = 32;
// Number of blocks (1,024 bytes each) of a panel that stay in the first-level cache while all tiles
// of input rows are multiplied with these blocks.
constexpr int64_t kChunkBlocks = 8;
// Distance from the block that is multiplied to the block that is prefetched, in blocks of a panel.
// Used if the input has at most 32 rows.
constexpr int64_t kPrefetchBlocks = 2;

// Tile registers 0 to 3 hold sums. Tile registers 4 and 5 hold input rows. Tile registers 6 and 7
// hold weights.
constexpr int kSumTiles = 0, kRowTiles = 4, kWeightTiles = 6;

// Rounds a row to bf16. `out` may begin at the address of `x`. Unit::NarrowSixteen() may replace
// subnormal numbers by zero; the matrix unit treats subnormal numbers as zero anyway.
template <class Unit>
void NarrowRowFor(const float* x, int64_t size, uint16_t* out) {
  int64_t i = 0;
  for (; i + 16 <= size; i += 16) Unit::NarrowSixteen(x + i, out + i);
  if (i < size) NarrowRow(x + i, size - i, out + i);
}

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
    NarrowRowFor<Unit>(x, cols, static_cast<uint16_t*>(numbers));
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

// Returns the number of blocks that hold `cols` columns of a tile or of a panel.
template <class Format>
constexpr int64_t BlocksOf(int64_t cols) {
  constexpr int64_t kCols = kTileSteps * Format::kColsPerStep;
  return (cols + kCols - 1) / kCols;
}

// Stores a row of `blocks` * 64 bytes as row `r` of the tile `tile`. The layout of a tile is [block
// of columns][row of the tile][64 bytes].
inline void StoreTileRow(const char* numbers, int64_t blocks, int64_t r, char* tile) {
  for (int64_t block = 0; block < blocks; ++block) {
    __builtin_memcpy(tile + block * kTileBytes + r * kTileRowBytes, numbers + block * kTileRowBytes,
                     kTileRowBytes);
  }
}

// Packs input rows into tiles of 16 rows.
template <class Format>
void PackTileRows(const PackRowsArgs& args) {
  constexpr int64_t kElementBytes = kFactorBytes / Format::kColsPerStep;
  const int64_t blocks = BlocksOf<Format>(args.cols);
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
      StoreTileRow(numbers, blocks, r, out);
    }
  }
}

struct TileArgsOfUnit {
  const char* rows;    // first block of the first tile of input rows
  const char* panels;  // first block of the first panel (a group of 16 weight rows)
  // Distance in bytes between two tiles of input rows, and between two panels.
  int64_t stride;
  int64_t blocks;        // number of blocks of each tile, and of each panel, that are multiplied
  float* sums;           // sums of products, of shape [PANELS][ROWS][16][16]
  bool resume;           // true: adds to the values in `sums`; false: overwrites these values
  const char* prefetch;  // address of the weights to prefetch, in the first panel
  // Number of bytes of each panel that are prefetched for each block.
  int64_t prefetch_bytes;
  // Index of the block at which the prefetch address jumps to the next panels.
  int64_t prefetch_jump;
};

// Multiplies 16 * ROWS input rows with panel number PANEL (16 weight rows), for the columns of one
// block (64 bytes of each row). REQUIRES: register kRowTiles holds the first 16 input rows, for
// these columns.
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
    (act(std::integral_constant<int, kSumTiles + I>(),
         args.sums + (I % PANELS * ROWS + I / PANELS) * kTileSums),
     ...);
  };
  constexpr auto kAllSums = std::make_integer_sequence<int, ROWS * PANELS>();
  for_each_sum(
      [&](auto tile, float* sums) {
        args.resume ? Unit::template Load<tile>(sums) : Unit::template Zero<tile>();
      },
      kAllSums);
  const char *rows = args.rows, *panels = args.panels, *prefetch = args.prefetch;
  const int64_t stride = args.stride;
  for (int64_t block = 0; block < args.blocks; ++block) {
    if (block == args.prefetch_jump) prefetch += (PANELS - 1) * stride;
    for (int64_t p = 0; p < PANELS; ++p) {
      for (int64_t byte = 0; byte < args.prefetch_bytes; byte += kTileRowBytes) {
        __builtin_prefetch(prefetch + p * stride + byte, 0, ROWS == 1 ? 3 : 2);
      }
    }
    prefetch += args.prefetch_bytes;
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
  const int64_t blocks = BlocksOf<Format>(args.cols);

  // Divides the tiles of input rows into groups of at most kGroupTiles tiles.
  static Tiles GroupsOf(int64_t num_rows) {
    return Tiles::Of((num_rows + kUnitRows - 1) / kUnitRows, kGroupTiles);
  }

  void Run() const {
    const Tiles groups = GroupsOf(args.num_rows);
    Unit::Configure(UsedTileRows(args.num_rows));
    for (int64_t group = args.group_begin; group < args.group_end; ++group) {
      for (int64_t panel = args.panel_begin; panel < args.panel_end; panel += kGroupPanels) {
        const int64_t left = args.panel_end - panel;
        MultiplyGroup(groups.Begin(group), groups.Begin(group + 1), panel,
                      panel + (left < kGroupPanels ? left : kGroupPanels));
      }
    }
    Unit::Release();
  }

  // Multiplies the tiles [tile_begin, tile_end) of input rows with the panels [panel_begin,
  // panel_end). REQUIRES: there are at most kGroupTiles tiles and kGroupPanels panels.
  void MultiplyGroup(int64_t tile_begin, int64_t tile_end, int64_t panel_begin,
                     int64_t panel_end) const {
    alignas(64) float sums[kGroupPanels * kGroupTiles * kTileSums];
    const int64_t num_tiles = tile_end - tile_begin;
    const int64_t panels_max = num_tiles == 1 ? kLonePanels : kPanelsAtOnce;
    const auto panels_at = [&](int64_t panel) {
      const int64_t left = panel_end - panel;
      return left >= panels_max ? panels_max : left >= 2 ? int64_t{2} : int64_t{1};
    };
    // An input of at most 32 rows fits into the second-level cache, so no part of it is needed.
    const int64_t span = num_tiles <= kTilesAtOnce ? blocks : kSpanBlocks;
    for (int64_t begin = 0; begin < blocks; begin += span) {
      const int64_t end = blocks - begin < span ? blocks : begin + span;
      for (int64_t panel = panel_begin; panel < panel_end; panel += panels_at(panel)) {
        MultiplySpan({tile_begin, num_tiles, panel, panels_at(panel), begin, end},
                     sums + (panel - panel_begin) * kGroupTiles * kTileSums);
      }
    }
    for (int64_t panel = panel_begin; panel < panel_end; panel += panels_at(panel)) {
      FinishTiles(tile_begin, num_tiles, panel, panels_at(panel),
                  sums + (panel - panel_begin) * kGroupTiles * kTileSums);
    }
  }

  struct Span {
    int64_t tile_begin, num_tiles, panel, num_panels;
    int64_t begin, end;  // the blocks [begin, end) of each tile and of each panel are multiplied
  };
  void MultiplySpan(const Span& span, float* sums) const {
    const int64_t num_calls = (span.num_tiles + kTilesAtOnce - 1) / kTilesAtOnce;
    const int64_t chunk = num_calls == 1 ? blocks : kChunkBlocks;
    for (int64_t block = span.begin; block < span.end; block += chunk) {
      const int64_t count = span.end - block < chunk ? span.end - block : chunk;
      for (int64_t tile = 0; tile < span.num_tiles; tile += kTilesAtOnce) {
        const int64_t at_once = TilesAt(tile, span.num_tiles);
        TileArgsOfUnit call = {.rows = Block(args.packed, span.tile_begin + tile, block),
                               .panels = Block(args.panels, span.panel, block),
                               .stride = blocks * kTileBytes,
                               .blocks = count,
                               .sums = sums + tile * span.num_panels * kTileSums,
                               .resume = block > 0,
                               .prefetch = nullptr,
                               .prefetch_bytes = kTileBytes,
                               .prefetch_jump = blocks - kPrefetchBlocks};
        if (num_calls == 1) {
          call.prefetch = call.panels + kPrefetchBlocks * kTileBytes;
        } else {
          // Each call prefetches an equal part of the weights of the next chunk.
          call.prefetch_bytes = (kUnitRows + num_calls - 1) / num_calls * kTileRowBytes;
          call.prefetch = (block + chunk < span.end
                               ? Block(args.panels, span.panel, block + chunk)
                               : Block(args.panels, span.panel + span.num_panels, span.begin)) +
                          tile / kTilesAtOnce * count * call.prefetch_bytes;
          call.prefetch_jump = -1;
        }
        FunctionFor(at_once, span.num_panels)(call);
      }
    }
  }

  static int64_t TilesAt(int64_t tile, int64_t num_tiles) {
    return num_tiles - tile < kTilesAtOnce ? 1 : kTilesAtOnce;
  }

  // Adds the bias to the sums, applies args.finish, and stores the results. `sums` are the products
  // of `num_tiles` tiles of input rows with `num_panels` panels.
  void FinishTiles(int64_t tile_begin, int64_t num_tiles, int64_t panel, int64_t num_panels,
                   const float* sums) const {
    // kSilu needs the sums of two panels: gate rows and up rows of the weight.
    const int64_t unit = args.finish == Finish::kSilu ? 2 : 1;
    for (int64_t tile = 0; tile < num_tiles; tile += kTilesAtOnce) {
      const int64_t row = (tile_begin + tile) * kUnitRows, rows_left = args.num_rows - row;
      const int64_t rows_max = TilesAt(tile, num_tiles) * kUnitRows;
      for (int64_t p = 0; p < num_panels; p += unit) {
        FinishPanel<Format>(
            args, {.sums = sums + tile * num_panels * kTileSums + p * rows_max * kUnitOutputs,
                   .sums_stride = kUnitOutputs,
                   .up_offset = rows_max * kUnitOutputs,
                   .row = row,
                   .num_rows = rows_left < rows_max ? rows_left : rows_max,
                   .panel = panel + p});
      }
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
