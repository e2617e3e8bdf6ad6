// The matrix product. Included by every instruction set's file, inside its namespace, after Vec.
//
// A panel holds kPanelVectors vectors of outputs for each k. The innermost loop keeps a tile of
// ROWS x (PANELS * kPanelVectors) sums in registers and adds x[r][k] * w[k][n] for one k after the
// other. A sum that does not fit one pass over the cache goes to memory and comes back unchanged:
// so the order of additions is k = 0, 1, 2 ... for every shape of tile.
#pragma once

#include "kernels/cpu/simd/tiles.inl"

constexpr int64_t kPanelWidth = kPanelVectors * Vec::kLanes;
// A panel's part that is multiplied with one tile after the other stays in the first-level cache.
constexpr int64_t kPanelBytesPerPass = 16384;
// Rows whose part of one pass stays in the second-level cache.
constexpr int64_t kRowsPerPass = 96;
// How far ahead of its use a lone tile fetches weights.
constexpr int64_t kPrefetchBytes = 1024;

void PackRows(const PackRowsArgs& args) {
  const Tiles tiles = Tiles::Of(args.num_rows, kTileRows);
  for (int64_t tile = args.tile_begin; tile < args.tile_end; ++tile) {
    const int64_t begin = tiles.Begin(tile), rows = tiles.Begin(tile + 1) - begin;
    float* out = args.packed + begin * args.cols;
    for (int64_t r = 0; r < rows; ++r) {
      const float* x = args.x + (begin + r) * args.cols;
      for (int64_t k = 0; k < args.cols; ++k) out[k * rows + r] = x[k];
    }
  }
}

struct TileArgs {
  const float* x;       // [depth][ROWS]
  const void* panel;    // the first panel, at this pass's first k
  int64_t panel_bytes;  // to the next panel
  int64_t depth;
  float* y;
  int64_t y_stride;
  bool resume;            // go on from the sums in y
  const char* prefetch;   // what is wanted soon: fetched from memory while the units compute,
  int64_t prefetch_step;  // so many bytes further with each k
};

template <class T, int ROWS, int PANELS>
void MultiplyTile(const TileArgs& args) {
  constexpr int kVectors = PANELS * kPanelVectors;
  Vec sums[ROWS][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      sums[r][v] = args.resume ? Load(args.y + r * args.y_stride + v * Vec::kLanes) : Zero();
    }
  }
  const char* panel = static_cast<const char*>(args.panel);
  const float* x = args.x;
  const char* prefetch = args.prefetch;
  for (int64_t k = 0; k < args.depth; ++k) {
#pragma GCC unroll 4
    for (int p = 0; p < PANELS; ++p) __builtin_prefetch(prefetch + p * args.panel_bytes, 0, 2);
    prefetch += args.prefetch_step;
    const auto weights = [&](int v) {
      const auto* const of_panel =
          reinterpret_cast<const T*>(panel + (v / kPanelVectors) * args.panel_bytes);
      return Widen(of_panel + (v % kPanelVectors) * Vec::kLanes);
    };
    // What the loop holds beside the sums must fit the registers: the weights of one panel and one
    // factor, or the factors of a few rows and one vector of weights.
    if constexpr (PANELS == 1) {
      Vec w[kVectors];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) w[v] = weights(v);
#pragma GCC unroll 16
      for (int r = 0; r < ROWS; ++r) {
        const Vec factor = Broadcast(x[r]);
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) sums[r][v] = MultiplyAdd(factor, w[v], sums[r][v]);
      }
    } else {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        const Vec w = weights(v);
#pragma GCC unroll 16
        for (int r = 0; r < ROWS; ++r) sums[r][v] = MultiplyAdd(Broadcast(x[r]), w, sums[r][v]);
      }
    }
    panel += kPanelWidth * sizeof(T);
    x += ROWS;
  }
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      Store(args.y + r * args.y_stride + v * Vec::kLanes, sums[r][v]);
    }
  }
}

// The last panel's outputs may end inside it: computed beside y, then the real ones are copied.
template <class T, int ROWS>
void MultiplyLastPanel(TileArgs args, int64_t outputs) {
  float sums[ROWS * kPanelWidth];
  float* const y = args.y;
  const int64_t y_stride = args.y_stride;
  for (int64_t r = 0; r < ROWS && args.resume; ++r) {
    for (int64_t n = 0; n < outputs; ++n) sums[r * kPanelWidth + n] = y[r * y_stride + n];
    for (int64_t n = outputs; n < kPanelWidth; ++n) sums[r * kPanelWidth + n] = 0;
  }
  args.y = sums;
  args.y_stride = kPanelWidth;
  MultiplyTile<T, ROWS, 1>(args);
  for (int64_t r = 0; r < ROWS; ++r) {
    for (int64_t n = 0; n < outputs; ++n) y[r * y_stride + n] = sums[r * kPanelWidth + n];
  }
}

// Panels side by side, so that a low tile has enough sums under way to hide the latency of one.
constexpr int PanelsAtOnce(int rows) { return rows == 1 ? 4 : rows <= 3 ? 2 : 1; }

template <class T, int ROWS>
void MultiplyPanels(TileArgs args, int64_t num_panels, int64_t outputs) {
  constexpr int kPanels = PanelsAtOnce(ROWS);
  const auto advance = [&](int64_t panels) {
    args.panel = static_cast<const char*>(args.panel) + panels * args.panel_bytes;
    args.prefetch += panels * args.panel_bytes;
    args.y += panels * kPanelWidth;
    num_panels -= panels;
    outputs -= panels * kPanelWidth;
  };
  while (num_panels >= kPanels && outputs >= kPanels * kPanelWidth) {
    MultiplyTile<T, ROWS, kPanels>(args);
    advance(kPanels);
  }
  while (num_panels > 0) {
    if (outputs >= kPanelWidth) {
      MultiplyTile<T, ROWS, 1>(args);
    } else {
      MultiplyLastPanel<T, ROWS>(args, outputs);
    }
    advance(1);
  }
}

template <class T>
using PanelsFunction = void (*)(TileArgs args, int64_t num_panels, int64_t outputs);

template <class T, int... INDICES>
PanelsFunction<T> PanelsFunctionOf(int64_t rows, std::integer_sequence<int, INDICES...>) {
  static constexpr PanelsFunction<T> kFunctions[] = {MultiplyPanels<T, INDICES + 1>...};
  return kFunctions[rows - 1];
}

// One tile of rows with panels of one pass: columns k .. k + depth.
template <class T>
struct Pass {
  static constexpr int64_t kRowBytes = kPanelWidth * static_cast<int64_t>(sizeof(T));

  const MultiplyArgs& args;
  const Tiles tiles;
  int64_t first_tile, last_tile;  // that share each panel
  int64_t k, depth;

  int64_t panel_bytes() const { return args.cols * kRowBytes; }

  void Run(int64_t tile, int64_t panel, int64_t num_panels) const {
    const int64_t row = tiles.Begin(tile), rows = tiles.Begin(tile + 1) - row;
    const char* const weights =
        static_cast<const char*>(args.panels) + panel * panel_bytes() + k * kRowBytes;
    // Alone, a tile fetches what it will read itself; of several, each fetches its share of the
    // next panel.
    const int64_t num_tiles = last_tile - first_tile;
    const int64_t step = kRowBytes / num_tiles;
    const char* const next = num_tiles == 1
                                 ? weights + kPrefetchBytes
                                 : weights + panel_bytes() + (tile - first_tile) * depth * step;
    PanelsFunctionOf<T>(rows, std::make_integer_sequence<int, kTileRows>())(
        {.x = args.packed + row * args.cols + k * rows,
         .panel = weights,
         .panel_bytes = panel_bytes(),
         .depth = depth,
         .y = args.y + row * args.y_stride + panel * kPanelWidth,
         .y_stride = args.y_stride,
         .resume = k > 0,
         .prefetch = next,
         .prefetch_step = step},
        num_panels, args.num_outputs - panel * kPanelWidth);
  }
};

template <class T>
void Multiply(const MultiplyArgs& args) {
  const Tiles tiles = Tiles::Of(args.num_rows, kTileRows);
  // A lone tile streams whole panels; several share what a pass has brought near.
  const bool alone = tiles.count == 1;
  const int64_t depth_max = alone ? args.cols : kPanelBytesPerPass / Pass<T>::kRowBytes;
  const int64_t panels_max = alone ? args.panel_end - args.panel_begin : 1;
  const int64_t tiles_max = kRowsPerPass / kTileRows;

  for (int64_t k = 0; k < args.cols; k += depth_max) {
    const int64_t depth = args.cols - k < depth_max ? args.cols - k : depth_max;
    for (int64_t first = 0; first < tiles.count; first += tiles_max) {
      const int64_t last = first + tiles_max < tiles.count ? first + tiles_max : tiles.count;
      const Pass<T> pass = {args, tiles, first, last, k, depth};
      for (int64_t panel = args.panel_begin; panel < args.panel_end; panel += panels_max) {
        for (int64_t tile = first; tile < last; ++tile) pass.Run(tile, panel, panels_max);
      }
    }
  }
}
