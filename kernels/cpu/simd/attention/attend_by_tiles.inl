// Computes the two matrix products of attention with a matrix unit (tile_product.inl), for keys and
// values of type bf16. Queries and softmax weights are rounded to bf16. A source file includes this
// file after table.inl and tile_product.inl.
#pragma once

#include "kernels/cpu/simd/attention/attend.inl"
#include "kernels/cpu/simd/tile_product.inl"

constexpr int64_t kTileElements = 32;  // number of bf16 elements of a row of a tile register
constexpr int64_t kTileHeadDimMax = 256;
constexpr bool FitsTiles(int64_t head_dim) {
  return head_dim % kTileElements == 0 && head_dim <= kTileHeadDimMax;
}

// The type of stored bf16 keys and values for attention with the matrix unit MatrixUnit.
template <class MatrixUnit>
struct TiledBF16 {
  using Unit = MatrixUnit;
  uint16_t bits;
};

// Does nothing: the sums are already in the order of the dimensions.
template <class Unit>
void PutInOrder(const TiledBF16<Unit>*, Vec&, Vec&) {}

// Stores 16 pairs in `out`: element i of `first` and element i of `second`.
inline void StorePairs(const void* first, const void* second, char* out) {
  using Row = uint16_t __attribute__((vector_size(32)));
  using Pairs = uint16_t __attribute__((vector_size(64)));
  Row a, b;
  __builtin_memcpy(&a, first, sizeof(a));
  __builtin_memcpy(&b, second, sizeof(b));
  const Pairs pairs =
      __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24,
                              9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  __builtin_memcpy(out, &pairs, sizeof(pairs));
}

// Scales the queries, rounds the scaled queries to bf16, and stores the result with the shape [tile
// of 16 queries][block of 32 dimensions][16 queries][32]. The last tile is filled up with zeros.
template <HasTiles T>
void LoadQueryTiles(const AttendArgs& args, const AttendScratch& s) {
  const int64_t head_dim = args.kv.head_dim, blocks = head_dim / kTileElements;
  const int64_t num_rows = NumRows(args), padded = RoundUpTo(num_rows, kUnitRows);
  const Vec scale = Broadcast(args.scale * kLog2OfE);
  alignas(64) float scaled[kTileHeadDimMax];
  alignas(64) uint16_t narrow[kTileHeadDimMax];
  for (int64_t row = 0; row < padded; ++row) {
    __builtin_memset(narrow, 0, sizeof(narrow));
    if (row < num_rows) {
      const float* const query =
          args.query + row / args.num_heads * args.token_stride + row % args.num_heads * head_dim;
      for (int64_t d = 0; d < head_dim; d += Vec::kLanes) {
        Store(scaled + d, Mul(Load(query + d), scale));
      }
      NarrowRowFor<typename T::Unit>(scaled, head_dim, narrow);
    }
    char* const tile = reinterpret_cast<char*>(s.query) + row / kUnitRows * blocks * kTileBytes;
    StoreTileRow(reinterpret_cast<const char*>(narrow), blocks, row % kUnitRows, tile);
  }
}

// Arguments of MultiplyTileStep(), which multiplies 16 rows (a tile) with several panels (16
// outputs each). A block is the part of a tile or panel that fits in one tile register.
struct TileStep {
  const char* rows;
  int64_t rows_stride;  // distance in bytes between two rows of a block of the tile
  int64_t rows_step;    // distance in bytes between two blocks of the tile
  const char* panels;
  int64_t panel_stride;  // distance in bytes between two panels
  int64_t count;         // number of blocks of the tile; each panel has the same number
  float* sums;           // shape [16][sums_stride]; the sums of panel p begin at column 16 * p
  int64_t sums_stride;   // in floats
  bool resume;           // true: adds to the values in `sums`
};
template <class Unit, int COUNT>
void MultiplyTileStep(const TileStep& args) {
  const auto for_each_panel = [&]<int... P>(const auto& act, std::integer_sequence<int, P...>) {
    (act(std::integral_constant<int, P>()), ...);
  };
  constexpr auto kPanels = std::make_integer_sequence<int, COUNT>();
  const int64_t sums_bytes = args.sums_stride * static_cast<int64_t>(sizeof(float));
  for_each_panel(
      [&](auto p) {
        if (args.resume) {
          Unit::template Load<kSumTiles + p>(args.sums + p * kUnitOutputs, sums_bytes);
        } else {
          Unit::template Zero<kSumTiles + p>();
        }
      },
      kPanels);
  for (int64_t i = 0; i < args.count; ++i) {
    Unit::template Load<kRowTiles>(args.rows + i * args.rows_step, args.rows_stride);
    for_each_panel(
        [&](auto p) {
          constexpr int kWeights = kWeightTiles + p % 2;
          Unit::template Load<kWeights>(args.panels + p * args.panel_stride + i * kTileBytes);
          Unit::template DotBF16<kSumTiles + p, kRowTiles, kWeights>();
        },
        kPanels);
  }
  for_each_panel(
      [&](auto p) {
        Unit::template Store<kSumTiles + p>(args.sums + p * kUnitOutputs, sums_bytes);
      },
      kPanels);
}

// Multiplies a tile with `num_panels` panels, up to four at a time.
template <class Unit>
void MultiplyTilePanels(TileStep args, int64_t num_panels) {
  while (num_panels > 0) {
    const int64_t count = num_panels >= 4 ? 4 : num_panels >= 2 ? 2 : 1;
    (count == 4   ? MultiplyTileStep<Unit, 4>
     : count == 2 ? MultiplyTileStep<Unit, 2>
                  : MultiplyTileStep<Unit, 1>)(args);
    args.panels += count * args.panel_stride;
    args.sums += count * kUnitOutputs;
    num_panels -= count;
  }
}

// Stores the keys of kStep positions in the layout that the matrix unit multiplies: [block of 16
// positions][pair of dimensions][16 positions][2]. Prefetches the values of the kStep positions.
template <HasTiles T>
void PackKeys(const StepBlocks<T>& blocks, int64_t head_dim, char* out) {
  for (int64_t b = blocks.begin; b < blocks.end; ++b) {
    const T *keys = blocks.keys[b], *values = blocks.values[b];
    for (int64_t pair = 0; pair < head_dim / 2; ++pair) {
      Fetch(reinterpret_cast<const char*>(values + 2 * pair * kBlock));
      StorePairs(keys + 2 * pair * kBlock, keys + (2 * pair + 1) * kBlock,
                 out + (b * head_dim / 2 + pair) * kTileRowBytes);
    }
  }
}

// Stores the values of kStep positions in the layout that the matrix unit multiplies: [block of 16
// dimensions][pair of positions][16 dimensions][2]. Stores zeros for positions outside `seen`.
// Prefetches the keys of the next kStep positions.
template <HasTiles T>
void PackValues(const StepBlocks<T>& blocks, SeenRange seen, int64_t head_dim, char* out) {
  alignas(64) static constexpr uint16_t kZeros[kTileHeadDimMax] = {};
  const auto values_at = [&](int64_t slot) -> const void* {
    if (slot < seen.begin || slot >= seen.end) return kZeros;
    return blocks.values[slot / kBlock] + slot % kBlock * head_dim;
  };
  const int64_t slot_bytes = kBlock * head_dim * static_cast<int64_t>(sizeof(T)) / (kBlock / 2);
  for (int64_t slot = 0; slot < kStep; slot += 2) {
    const int64_t block = slot / kBlock;
    if (block >= blocks.begin && block < blocks.end) {
      const char* const next = reinterpret_cast<const char*>(blocks.next_keys[block]);
      for (int64_t byte = 0; byte < slot_bytes; byte += kLine) {
        Fetch(next + slot % kBlock / 2 * slot_bytes + byte);
      }
    }
    const auto* const first = static_cast<const uint16_t*>(values_at(slot));
    const auto* const second = static_cast<const uint16_t*>(values_at(slot + 1));
    for (int64_t d = 0; d < head_dim; d += kUnitOutputs) {
      StorePairs(first + d, second + d,
                 out + (d / kUnitOutputs * (kStep / 2) + slot / 2) * kTileRowBytes);
    }
  }
}

// Rounds the softmax weights of all rows to bf16, sets the weights of unseen positions to zero, and
// multiplies the sums of each row by its factor in `s.rescale`.
template <class Unit>
void NarrowWeights(const AttendArgs& args, int64_t first, const AttendScratch& s,
                   const AttendState& state) {
  ForEachRow(args, first, kStep, [&](int64_t row, SeenRange seen) {
    float* const scores = s.scores + row * kStep;
    for (int64_t i = 0; i < kStep; i += Vec::kLanes) {
      if (i + Vec::kLanes <= seen.begin || i >= seen.end) Store(scores + i, Zero());
    }
    NarrowRowFor<Unit>(scores, kStep, reinterpret_cast<uint16_t*>(scores));
    if (seen.empty()) return;
    float* const sums = state.sums + row * state.sums_stride;
    const Vec rescale = Broadcast(s.rescale[row]);
    for (int64_t d = 0; d < state.sums_stride; d += Vec::kLanes) {
      Store(sums + d, Mul(rescale, Load(sums + d)));
    }
  });
}

template <HasTiles T>
void AttendStepByTiles(const AttendArgs& args, int64_t first, const StepBlocks<T>& blocks,
                       const AttendScratch& s, const AttendState& state) {
  using Unit = typename T::Unit;
  const int64_t head_dim = args.kv.head_dim;
  const int64_t num_tiles = (NumRows(args) + kUnitRows - 1) / kUnitRows;
  // If cache blocks have fewer than 16 positions, GatherStep() has stored keys and values in the
  // first halves of s.keys and s.values.
  const int64_t half = kStep * head_dim * static_cast<int64_t>(sizeof(T)) + kLine;
  char *const keys = static_cast<char*>(s.keys) + half, *const values =
                                                            static_cast<char*>(s.values) + half;
  PackKeys<T>(blocks, head_dim, keys);
  const int64_t key_bytes = head_dim / 2 * kTileRowBytes;  // of a block of 16 positions
  for (int64_t tile = 0; tile < num_tiles; ++tile) {
    MultiplyTilePanels<Unit>({.rows = reinterpret_cast<const char*>(s.query) + tile * key_bytes,
                              .rows_stride = kTileRowBytes,
                              .rows_step = kTileBytes,
                              .panels = keys + blocks.begin * key_bytes,
                              .panel_stride = key_bytes,
                              .count = head_dim / kTileElements,
                              .sums = s.scores + tile * kUnitRows * kStep + blocks.begin * kBlock,
                              .sums_stride = kStep,
                              .resume = false},
                             blocks.end - blocks.begin);
  }
  WeighStep<float>(args, first, s, state);
  NarrowWeights<Unit>(args, first, s, state);
  const SeenRange seen = {SeenSlots(args, 0, first, kStep).begin,
                          SeenSlots(args, args.num_tokens - 1, first, kStep).end};
  PackValues<T>(blocks, seen, head_dim, values);
  for (int64_t tile = 0; tile < num_tiles; ++tile) {
    MultiplyTilePanels<Unit>(
        {.rows = reinterpret_cast<const char*>(s.scores + tile * kUnitRows * kStep),
         .rows_stride = kStep * static_cast<int64_t>(sizeof(float)),
         .rows_step = kTileRowBytes,
         .panels = values,
         .panel_stride = kStep / 2 * kTileRowBytes,
         .count = kStep / kTileElements,
         .sums = state.sums + tile * kUnitRows * state.sums_stride,
         .sums_stride = state.sums_stride,
         .resume = true},
        head_dim / kUnitOutputs);
  }
}

// Computes attention with the matrix unit if FitsTiles(head_dim), otherwise without it. The choice
// depends only on head_dim, so that the bits of a row do not depend on other rows of the batch.
template <class Unit>
void AttendBF16ByTiles(const AttendArgs& args) {
  if (!FitsTiles(args.kv.head_dim)) return Attend<BF16>(args);
  Unit::Configure(kUnitRows);
  Attend<TiledBF16<Unit>>(args);
  Unit::Release();
}
template <class Unit>
void CombineByTiles(const AttendArgs& args) {
  FitsTiles(args.kv.head_dim) ? CombineSplits<TiledBF16<Unit>>(args) : CombineSplits<BF16>(args);
}

// Returns the table `kernels` with all functions that use the matrix unit: products with bf16 and
// eight-bit weights, and attention with bf16 keys and values.
template <class Unit>
constexpr Kernels WithTiles(Kernels kernels) {
  kernels.products[kBF16Weights] = TileProductOf<Unit, TileBF16<Unit>>();
  kernels.products[kInt8] = TileProductOf<Unit, TileInt8<Unit>>();
  kernels.attend[kBF16Weights] = AttendBF16ByTiles<Unit>;
  kernels.attend_combine[kBF16Weights] = CombineByTiles<Unit>;
  return kernels;
}
