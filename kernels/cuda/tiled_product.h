// The product (kernels/cuda/product.h) of many rows: bound by the arithmetic.
//
// A block makes tiles of 128 packed rows (8 units) by kTokenTile rows of x, one after the other,
// with 4 warps of half of either. A step takes 64 columns: the weight's tiles come as bulk copies,
// x as copies of 16 bytes, kStages - 1 steps ahead, across the tiles of the block. Where a run of
// packed_order.h ends, its sums are added to those of the runs before, which wait in `totals`.
// Tiles are walked so that up to 16 tiles of rows share a tile of the weight in L2.
//
// totals  f32 [blocks, kTotalsPerBlock]: scratch
//
// Moves for each tile NumTiles(columns) * (16,384 + 128 * kTokenTile) bytes in (out of L2 mostly)
// and 24 * 128 * kTokenTile bytes of totals in and out, beside what the epilogue says.
#pragma once

#include <cstdint>

#include "kernels/cuda/device.h"
#include "kernels/cuda/product.h"

namespace incipit::cuda {

template <int kTileOfTokens, class EpilogueType>
struct TiledShape {
  using Epilogue = EpilogueType;
  static constexpr int kTokenTile = kTileOfTokens;  // 64 or 128
  static constexpr int kStages = kTokenTile == 128 ? 3 : 4;
};

template <class Shape>
struct TiledProduct {
  using Epilogue = typename Shape::Epilogue;
  static constexpr int kThreads = 128, kBlocksPerSm = 2;
  static constexpr int kTokenTile = Shape::kTokenTile, kStages = Shape::kStages;
  static constexpr int kUnits = 8, kWarpUnits = 4;          // of a tile, of a warp
  static constexpr int kWarpBlocks = kTokenTile / 16;       // of 8 tokens
  static constexpr int kTotalsPerBlock = 128 * kTokenTile;  // floats
  static constexpr int kWeightBytes = kUnits * kTileBytes, kXBytes = kTokenTile * 128;

  // Shared memory: the stages; for each warp the results of four times 8 tokens, and scales.
  static constexpr int kStageBytes = kWeightBytes + kXBytes;
  static constexpr int kResultStride = kUnitRows + 4;
  static constexpr int kResultsAt = kStages * kStageBytes;
  static constexpr int kResultFloats = 32 * kResultStride;
  static constexpr int kScalesAt = kResultsAt + 4 * kResultFloats * 4;
  static constexpr int kBarriersAt = kScalesAt + 4 * kWarpBlocks * 8 * 4;
  static constexpr int kSharedBytes = kBarriersAt + kStages * 8;
  static_assert(kSharedBytes <= 112 * 1024);

  struct Args {
    ProductInput input;
    typename Epilogue::Args epilogue;
    float* totals = nullptr;
  };

  static INCIPIT_DEVICE void Run(const Args& args) {
    char* const shared = dev::SharedMemory();
    auto* const full = reinterpret_cast<dev::Barrier*>(shared + kBarriersAt);
    if (dev::Thread() == 0) {
      for (int i = 0; i < kStages; ++i) dev::InitBarrier(full + i, 1);
      dev::FenceBarriers();
    }
    dev::SyncBlock();
    const int num_rows = dev::LoadConstant(args.input.num_rows);
    const int num_columns = NumTiles(args.input.columns);
    const Walk walk = {.tiles_of_rows = (num_rows + kTokenTile - 1) / kTokenTile,
                       .tiles_of_units = (args.input.num_units + kUnits - 1) / kUnits};
    const int num_tiles = walk.tiles_of_rows * walk.tiles_of_units;

    // The weight is on its way before the kernels before this one have ended.
    Loader weight = {walk, num_tiles, num_columns, dev::Block()};
    Loader loader = weight;
    INCIPIT_UNROLL
    for (int i = 0; i < kStages - 1; ++i) {
      weight.CopyWeight(args.input, shared + i * kStageBytes, full + i);
      weight.Advance();
    }
    dev::WaitForEarlierKernels();
    INCIPIT_UNROLL
    for (int i = 0; i < kStages - 1; ++i) {
      loader.CopyX(args.input, num_rows, shared + i * kStageBytes);
      loader.Advance();
    }

    int stage = 0;
    uint32_t parity = 0;
    for (int tile = dev::Block(); tile < num_tiles; tile += dev::NumBlocks()) {
      float sums[kWarpUnits][kWarpBlocks][4] = {};
      int run = 0, run_end = RunLength(num_columns, 0);
      for (int column = 0; column < num_columns; ++column) {
        dev::WaitCopies<kStages - 2>();
        dev::WaitBarrier(full + stage, parity);
        dev::SyncBlock();
        const int next = stage == 0 ? kStages - 1 : stage - 1;
        loader.CopyWeight(args.input, shared + next * kStageBytes, full + next);
        loader.CopyX(args.input, num_rows, shared + next * kStageBytes);
        loader.Advance();
        MultiplyStage(shared + stage * kStageBytes, sums);
        if (++stage == kStages) {
          stage = 0;
          parity ^= 1;
        }
        if (column + 1 == run_end) {
          FoldRun(args.totals, run == 0, run_end == num_columns, sums);
          run_end += RunLength(num_columns, ++run);
        }
      }
      Finish(args, walk.Find(tile), num_rows, shared, sums);
    }
  }

 private:
  struct Place {
    int row, unit;  // the first of a tile
  };
  // The tiles of the product, in the order in which they are made.
  struct Walk {
    int tiles_of_rows, tiles_of_units;
    INCIPIT_DEVICE Place Find(int tile) const {
      constexpr int kGroup = 16;
      const int group = tile / (kGroup * tiles_of_units) * kGroup;
      const int left = tiles_of_rows - group, width = left < kGroup ? left : kGroup;
      const int within = tile - group * tiles_of_units;
      return {(group + within % width) * kTokenTile, within / width * kUnits};
    }
  };

  // Copies what the steps need, one after the other; beyond the last there is nothing to copy.
  struct Loader {
    Walk walk;
    int num_tiles, num_columns, tile;
    int column = 0, run = 0;  // of tiles of the weight
    Place place = {-1, -1};

    INCIPIT_DEVICE void CopyWeight(const ProductInput& input, char* stage, dev::Barrier* full) {
      if (tile >= num_tiles || dev::Thread() != 0) return;
      const int first = walk.Find(tile).unit, left = input.num_units - first;
      const int units = left < kUnits ? left : kUnits;
      dev::ArriveExpecting(full, static_cast<uint32_t>(units * kTileBytes));
      const int64_t index = TilePlace(run, column - RunBegin(num_columns, run));
      const dev::bf16* source =
          input.weight + (static_cast<int64_t>(first) * num_columns + index) * kTileElements;
      for (int unit = 0; unit < units; ++unit) {
        dev::CopyBulk(stage + unit * kTileBytes, source, kTileBytes, full);
        source += static_cast<int64_t>(num_columns) * kTileElements;
      }
    }

    INCIPIT_DEVICE void CopyX(const ProductInput& input, int num_rows, char* stage) {
      if (tile < num_tiles) {
        const int part = dev::Thread() % 8, row = dev::Thread() / 8;
        const int first = walk.Find(tile).row + row, from = column * kTileColumns + part * 8;
        char* const to = stage + kWeightBytes + row * 128 + (part ^ (row & 7)) * 16;
        INCIPIT_UNROLL
        for (int i = 0; i < kTokenTile / 16; ++i) {
          const bool valid = first + i * 16 < num_rows && from < input.columns;
          const int64_t offset =
              valid ? static_cast<int64_t>(first + i * 16) * input.columns + from : 0;
          dev::CopyAsync16(to + i * 2048, input.x + offset, valid ? 16 : 0);
        }
      }
      dev::CommitCopies();
    }

    INCIPIT_DEVICE void Advance() {
      if (++column == num_columns) {
        column = run = 0;
        tile += dev::NumBlocks();
        if (tile >= num_tiles) dev::LetNextKernelStart();
      } else if (run + 1 < kNumRuns && column == RunBegin(num_columns, run + 1)) {
        ++run;
      }
    }
  };

  // The warps are two by two: this one's first unit of a tile, and its first token.
  static INCIPIT_DEVICE int FirstUnit() { return dev::Warp() % 2 * kWarpUnits; }
  static INCIPIT_DEVICE int FirstToken() { return dev::Warp() / 2 * kWarpBlocks * 8; }

  static INCIPIT_DEVICE void MultiplyStage(const char* stage,
                                           float (&sums)[kWarpUnits][kWarpBlocks][4]) {
    const int lane = dev::Lane(), row = lane % 16, token = lane / 16 * 8 + lane % 8;
    const char* const weight = stage + FirstUnit() * kTileBytes + row * 128;
    const char* const x = stage + kWeightBytes + (FirstToken() + token) * 128;
    INCIPIT_UNROLL
    for (int step = 0; step < kTileColumns / 16; ++step) {
      uint32_t b[kWarpBlocks / 2][4];
      INCIPIT_UNROLL
      for (int pair = 0; pair < kWarpBlocks / 2; ++pair) {
        const int part = step * 2 + lane / 8 % 2;
        dev::LoadMatricesWarp(b[pair], x + pair * 2048 + (part ^ (token & 7)) * 16);
      }
      INCIPIT_UNROLL
      for (int unit = 0; unit < kWarpUnits; ++unit) {
        uint32_t a[4];
        const int part = step * 2 + lane / 16;
        dev::LoadMatricesWarp(a, weight + unit * kTileBytes + (part ^ (row & 7)) * 16);
        INCIPIT_UNROLL
        for (int block = 0; block < kWarpBlocks; ++block) {
          dev::MultiplyAddWarp(sums[unit][block], a, b[block / 2][block % 2 * 2],
                               b[block / 2][block % 2 * 2 + 1]);
        }
      }
    }
  }

  // The sums of a run have come to their end: after the last, those of all runs are in `sums`.
  static INCIPIT_DEVICE void FoldRun(float* totals, bool first, bool last,
                                     float (&sums)[kWarpUnits][kWarpBlocks][4]) {
    float* const mine =
        totals + static_cast<int64_t>(dev::Block()) * kTotalsPerBlock + dev::Thread() * 4;
    INCIPIT_UNROLL
    for (int unit = 0; unit < kWarpUnits; ++unit) {
      INCIPIT_UNROLL
      for (int block = 0; block < kWarpBlocks; ++block) {
        float(&sum)[4] = sums[unit][block];
        float* const place = mine + (unit * kWarpBlocks + block) * kThreads * 4;
        if (!first) {
          float before[4];
          LoadFloats(place, before);
          INCIPIT_UNROLL
          for (int i = 0; i < 4; ++i) sum[i] = dev::Add(before[i], sum[i]);
        }
        if (!last) {
          StoreFloats(place, sum);
          INCIPIT_UNROLL
          for (int i = 0; i < 4; ++i) sum[i] = 0;
        }
      }
    }
  }

  // Hands the results of a warp over, of one unit and 32 tokens at a time.
  static INCIPIT_DEVICE void Finish(const Args& args, Place tile, int num_rows, char* shared,
                                    const float (&sums)[kWarpUnits][kWarpBlocks][4]) {
    const int lane = dev::Lane(), warp = dev::Warp(), first_row = tile.row + FirstToken();
    auto* const scales = reinterpret_cast<float*>(shared + kScalesAt) + warp * kWarpBlocks * 8;
    float* const stage = reinterpret_cast<float*>(shared + kResultsAt) + warp * kResultFloats;
    FindScalesWarp(args.input, first_row, kWarpBlocks * 8, num_rows, scales);
    const LanePlace place = PlaceOfLane();
    INCIPIT_UNROLL
    for (int unit = 0; unit < kWarpUnits; ++unit) {
      if (tile.unit + FirstUnit() + unit >= args.input.num_units) break;
      INCIPIT_UNROLL
      for (int first = 0; first < kWarpBlocks; first += 4) {
        INCIPIT_UNROLL
        for (int i = 0; i < 4 * 4; ++i) {
          const int token = i / 4 * 8 + lane % 4 * 2 + i % 2, row = lane / 4 + i % 4 / 2 * 8;
          dev::StoreShared(stage + token * kResultStride + row, sums[unit][first + i / 4][i % 4]);
        }
        dev::SyncWarp();
        for (int block = 0; block < 4; ++block) {
          const int token = block * 8 + place.token;
          Results results;
          results.unit = tile.unit + FirstUnit() + unit;
          results.quad = place.quad;
          results.row = first_row + first * 8 + token;
          results.valid = results.row < num_rows;
          UnpackFloats(dev::LoadShared(reinterpret_cast<const Vec4*>(stage + token * kResultStride +
                                                                     place.quad * 4)),
                       results.y);
          const float scale = dev::LoadShared(scales + first * 8 + token);
          INCIPIT_UNROLL
          for (int i = 0; i < 4; ++i) results.y[i] = dev::Multiply(results.y[i], scale);
          Epilogue::Run(args.epilogue, results);
        }
        dev::SyncWarp();
      }
    }
  }
};

}  // namespace incipit::cuda
