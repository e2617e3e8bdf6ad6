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
  bool resume;  // go on from the sums in y
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
  for (int64_t k = 0; k < args.depth; ++k) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      const auto* weights =
          reinterpret_cast<const T*>(panel + (v / kPanelVectors) * args.panel_bytes);
      const Vec w = Widen(weights + (v % kPanelVectors) * Vec::kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < ROWS; ++r) sums[r][v] = MultiplyAdd(Broadcast(x[r]), w, sums[r][v]);
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

template <class T>
void Multiply(const MultiplyArgs& args) {
  const Tiles tiles = Tiles::Of(args.num_rows, kTileRows);
  const int64_t panel_bytes = args.cols * kPanelWidth * static_cast<int64_t>(sizeof(T));
  const int64_t cols_per_pass =
      kPanelBytesPerPass / (kPanelWidth * static_cast<int64_t>(sizeof(T)));
  // One tile alone streams whole panels; several share what a pass has brought near.
  const int64_t depth_max = tiles.count == 1 ? args.cols : cols_per_pass;
  const int64_t panels_max = tiles.count == 1 ? args.panel_end - args.panel_begin : 1;
  const int64_t tiles_max = kRowsPerPass / kTileRows;

  for (int64_t k = 0; k < args.cols; k += depth_max) {
    const int64_t depth = args.cols - k < depth_max ? args.cols - k : depth_max;
    for (int64_t first = 0; first < tiles.count; first += tiles_max) {
      const int64_t last = first + tiles_max < tiles.count ? first + tiles_max : tiles.count;
      for (int64_t panel = args.panel_begin; panel < args.panel_end; panel += panels_max) {
        for (int64_t tile = first; tile < last; ++tile) {
          const int64_t row = tiles.Begin(tile), rows = tiles.Begin(tile + 1) - row;
          const TileArgs tile_args = {.x = args.packed + row * args.cols + k * rows,
                                      .panel = static_cast<const char*>(args.panels) +
                                               panel * panel_bytes +
                                               k * kPanelWidth * static_cast<int64_t>(sizeof(T)),
                                      .panel_bytes = panel_bytes,
                                      .depth = depth,
                                      .y = args.y + row * args.y_stride + panel * kPanelWidth,
                                      .y_stride = args.y_stride,
                                      .resume = k > 0};
          PanelsFunctionOf<T>(rows, std::make_integer_sequence<int, kTileRows>())(
              tile_args, panels_max, args.num_outputs - panel * kPanelWidth);
        }
      }
    }
  }
}
