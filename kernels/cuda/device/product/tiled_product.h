// Kernel TiledProduct: a matrix product (product.h) for inputs with many rows. The bandwidth of the
// L2 cache and the arithmetic limit the speed of the kernel.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/product/product.h"

namespace incipit::cuda {

// Sizes for large tiles of the result matrix. One thread block fits on a multiprocessor. The kernel
// loads 13 bytes into shared memory for each 1,000 floating-point operations.
template <class EpilogueType>
struct LargeTiles {
  using Epilogue = EpilogueType;
  static constexpr int kGroups = 2, kTokenTile = 192, kBlocksPerSm = 1;
  static constexpr int kCopyRegisters = 40, kMultiplyRegisters = 232;
};
// Sizes for small tiles of the result matrix. If the input has few rows, small tiles occupy more
// multiprocessors than large tiles. Two thread blocks fit on a multiprocessor. The kernel loads 23
// bytes into shared memory for each 1,000 floating-point operations.
template <class EpilogueType>
struct SmallTiles {
  using Epilogue = EpilogueType;
  static constexpr int kGroups = 1, kTokenTile = 128, kBlocksPerSm = 2;
  static constexpr int kCopyRegisters = 40, kMultiplyRegisters = 216;
};

// A thread block computes tiles of the result matrix, one after the other. Its first warpgroup
// (four warps) copies the weight and the input x to a ring of buffers in shared memory. The other
// warps multiply.
template <class Shape>
struct TiledProduct {
  using Epilogue = typename Shape::Epilogue;
  using Args = ProductArgs<Epilogue>;
  static constexpr int kGroups = Shape::kGroups, kBlocksPerSm = Shape::kBlocksPerSm;
  static constexpr int kCopyWarps = 4, kMultiplyWarps = 4 * kGroups;
  static constexpr int kThreads = 32 * (kCopyWarps + kMultiplyWarps);
  static constexpr int kUnits = 4 * kGroups, kTokenTile = Shape::kTokenTile;
  // number of groups of 8 rows of the input x that a tile of the result covers
  static constexpr int kBlocks = kTokenTile / 8;
  static constexpr int kStages = 4;

  // Numbers of bytes in one shared-memory buffer: 64 columns of the weight, and 64 columns of the
  // input x
  static constexpr int kWeightBytes = kUnits * kTileBytes, kXBytes = kTokenTile * 128;
  static constexpr int kStageBytes = kWeightBytes + kXBytes;
  static constexpr int kStaged = 2, kResultStride = kUnitRows + 4;
  static constexpr int kResultFloats = kStaged * 8 * kResultStride;
  static constexpr int kResultsAt = kStages * kStageBytes;
  static constexpr int kScalesAt = kResultsAt + kMultiplyWarps * kResultFloats * 4;
  static constexpr int kBarriersAt = kScalesAt + kMultiplyWarps * kTokenTile * 4;
  static constexpr int kSharedBytes = kBarriersAt + 2 * kStages * 8;
  static_assert(kSharedBytes <= 228 * 1024 / kBlocksPerSm - 1024);
  // Number of registers of each thread at the start of the kernel; a multiple of 8
  static constexpr int kRegisters = 65536 / (kBlocksPerSm * kThreads) / 8 * 8;
  static_assert(Shape::kCopyRegisters + kGroups * Shape::kMultiplyRegisters <=
                (1 + kGroups) * kRegisters);
  static_assert(kWeightBytes % 1024 == 0 && kXBytes % 1024 == 0);

  // Computes tiles of the result. For each tile, reads the weight rows and the input rows once,
  // mostly from the L2 cache. Fastest if `num_squares` (number of sums of squares of an input row,
  // for RMSNorm) is 1, because each warp reads all these sums.
  static INCIPIT_DEVICE void Run(const Args& args) {
    char* const shared = dev::SharedMemory();
    if (dev::Thread() == 0) {
      for (int i = 0; i < kStages; ++i) {
        dev::InitBarrier(Full(shared) + i, 1 + kXWarps);
        dev::InitBarrier(Empty(shared) + i, kMultiplyWarps);
      }
      dev::FenceBarriers();
    }
    dev::SyncBlock();
    const Work work(args.input);
    if (dev::Warp() < kCopyWarps) {
      dev::GiveRegisters<Shape::kCopyRegisters>();
      const int warp = dev::Warp();
      if (warp == 0 && dev::Lane() == 0) CopyWeight(args.input, work, shared);
      if (warp >= kCopyWarps - kXWarps) CopyX(args.input, work, shared);
      // The next kernel may start now, because it calls WaitForEarlierKernels before it reads the
      // results of this kernel.
      if (warp == 1) dev::LetNextKernelStart();
    } else {
      dev::TakeRegisters<Shape::kMultiplyRegisters>();
      Multiply(args, work, shared);
    }
  }

 private:
  static constexpr int kXWarps = 2;
  // Number of groups of asynchronous copies of the input x that a thread leaves unfinished while it
  // waits for older groups
  static constexpr int kXLag = 1;
  // The ring has at least one buffer for each copy in flight and two buffers for the warps that
  // multiply.
  static_assert(kXLag + 2 <= kStages);

  static INCIPIT_DEVICE dev::Barrier* Full(char* shared) {
    return reinterpret_cast<dev::Barrier*>(shared + kBarriersAt);
  }
  static INCIPIT_DEVICE dev::Barrier* Empty(char* shared) { return Full(shared) + kStages; }

  struct TileOrigin {
    // Indices of the first row of the input x and of the first unit (16 packed weight rows) of a
    // result tile
    int row, unit;
  };
  // Size of a matrix product: numbers of input rows, of 64-column groups and of result tiles.
  // Successive result tiles use the same rows of the weight, which stay in the L2 cache.
  struct Work {
    int num_rows, num_columns, tiles_of_rows, tiles_of_units, num_tiles;

    explicit INCIPIT_DEVICE Work(const ProductInput& input)
        : num_rows(dev::LoadConstant(input.num_rows)),
          num_columns(NumTiles(input.columns)),
          tiles_of_rows((num_rows + kTokenTile - 1) / kTokenTile),
          tiles_of_units((input.num_units + kUnits - 1) / kUnits),
          num_tiles(tiles_of_rows * tiles_of_units) {}

    INCIPIT_DEVICE TileOrigin Find(int tile) const {
      constexpr int kGroup = 16;
      const int group = tile / (kGroup * tiles_of_units) * kGroup;
      const int left = tiles_of_rows - group, width = left < kGroup ? left : kGroup;
      const int within = tile - group * tiles_of_units;
      return {(group + within % width) * kTokenTile, within / width * kUnits};
    }
  };

  // Index of a buffer in the ring of buffers in shared memory. `parity` alternates between 0 and 1
  // with each pass through the ring.
  struct Cursor {
    int stage = 0;
    uint32_t parity = 0;
    INCIPIT_DEVICE void Advance() {
      if (++stage == kStages) {
        stage = 0;
        parity ^= 1;
      }
    }
  };

  // Copies the weight to the buffers in shared memory. Only one thread calls CopyWeight. The first
  // copies start before earlier kernels have ended, because no kernel writes the weight.
  static INCIPIT_DEVICE void CopyWeight(const ProductInput& input, const Work& work, char* shared) {
    Cursor cursor;
    for (int tile = dev::Block(); tile < work.num_tiles; tile += dev::NumBlocks()) {
      const int first = work.Find(tile).unit, left = input.num_units - first;
      const int units = left < kUnits ? left : kUnits;
      const int64_t unit_elements = static_cast<int64_t>(work.num_columns) * kTileElements;
      const dev::bf16* const weight = input.weight + first * unit_elements;
      INCIPIT_KEEP_LOOP
      for (int run = 0; run < kNumRuns; ++run) {
        INCIPIT_KEEP_LOOP
        for (int index = 0; index < RunLength(work.num_columns, run); ++index) {
          dev::WaitBarrier(Empty(shared) + cursor.stage, cursor.parity ^ 1);
          dev::Barrier* const full = Full(shared) + cursor.stage;
          dev::ArriveExpecting(full, static_cast<uint32_t>(units * kTileBytes));
          const dev::bf16* source = weight + TilePosition(run, index) * kTileElements;
          char* const stage = shared + cursor.stage * kStageBytes;
          for (int unit = 0; unit < units; ++unit) {
            dev::CopyBulk(stage + unit * kTileBytes, source, kTileBytes, full);
            source += unit_elements;
          }
          cursor.Advance();
        }
      }
    }
  }

  // Copies the input x to the buffers in shared memory. All lanes of kXWarps warps call CopyX.
  static INCIPIT_DEVICE void CopyX(const ProductInput& input, const Work& work, char* shared) {
    constexpr int kRowsAtOnce = kXWarps * 32 / 8;
    const int thread = dev::Thread() - (kCopyWarps - kXWarps) * 32, part = thread % 8,
              row = thread / 8;
    const int offset = kWeightBytes + row * 128 + (part ^ (row & 7)) * 16;
    // A thread copies every 8th row of the input x, so that row % 8 is the same for all its rows.
    // The order of a row's 16-byte chunks in shared memory depends only on row % 8.
    static_assert(kRowsAtOnce == 8);
    Cursor cursor, landed;
    int in_flight = 0;
    dev::WaitForEarlierKernels();
    for (int tile = dev::Block(); tile < work.num_tiles; tile += dev::NumBlocks()) {
      const int first = work.Find(tile).row + row, rows_left = work.num_rows - first;
      const dev::bf16* const source = input.x + static_cast<int64_t>(first) * input.columns;
      for (int column = part * 8; column < work.num_columns * kTileColumns;
           column += kTileColumns) {
        dev::WaitBarrier(Empty(shared) + cursor.stage, cursor.parity ^ 1);
        char* const to = shared + cursor.stage * kStageBytes + offset;
        INCIPIT_UNROLL
        for (int more = 0; more < kTokenTile; more += kRowsAtOnce) {
          const bool valid = more < rows_left && column < input.columns;
          const dev::bf16* const from =
              source + static_cast<int64_t>(more) * input.columns + column;
          dev::CopyAsync16(to + more * 128, valid ? from : input.x, valid ? 16 : 0);
        }
        dev::CommitCopies();
        cursor.Advance();
        if (in_flight == kXLag) {
          dev::WaitCopies<kXLag>();
          HandOver(shared, landed);
        } else {
          ++in_flight;
        }
      }
    }
    dev::WaitCopies<0>();
    for (; in_flight > 0; --in_flight) HandOver(shared, landed);
  }

  static INCIPIT_DEVICE void HandOver(char* shared, Cursor& landed) {
    dev::FenceBulkShared();
    dev::SyncWarp();
    if (dev::Lane() == 0) dev::Arrive(Full(shared) + landed.stage);
    landed.Advance();
  }

  // ---- multiplying x by the weight

  // Multiplies the input x by the weight. Four ranges of columns are summed one after the other.
  // For each result, a thread holds the sum of the current range and the total of the earlier
  // ranges.
  static INCIPIT_DEVICE void Multiply(const Args& args, const Work& work, char* shared) {
    dev::WaitForEarlierKernels();
    const int weight_at = (dev::Warp() - kCopyWarps) / 4 * 4 * kTileBytes;
    Cursor cursor;
    for (int tile = dev::Block(); tile < work.num_tiles; tile += dev::NumBlocks()) {
      float totals[kBlocks][4] = {};
      INCIPIT_KEEP_LOOP
      for (int run = 0; run < kNumRuns; ++run) {
        const int length = RunLength(work.num_columns, run);
        if (length == 0) break;
        float sums[kBlocks][4] = {};
        int previous_stage = 0;
        INCIPIT_KEEP_LOOP
        for (int index = 0; index < length; ++index) {
          dev::WaitBarrier(Full(shared) + cursor.stage, cursor.parity);
          const char* const stage = shared + cursor.stage * kStageBytes;
          dev::FenceMultiplies(sums);
          INCIPIT_UNROLL
          for (int step = 0; step < kTileColumns / 16; ++step) {
            dev::MultiplyAddWarpgroup(sums, stage + weight_at + step * 32,
                                      stage + kWeightBytes + step * 32);
          }
          dev::CommitMultiplies();
          dev::WaitMultiplies<1>();
          if (index > 0) Free(shared, previous_stage);
          previous_stage = cursor.stage;
          cursor.Advance();
        }
        dev::EndMultiplies(sums);
        Free(shared, previous_stage);
        INCIPIT_UNROLL
        for (int i = 0; i < kBlocks * 4; ++i) {
          totals[i / 4][i % 4] = dev::Add(totals[i / 4][i % 4], sums[i / 4][i % 4]);
        }
      }
      Finish(args, work.Find(tile), work.num_rows, shared, totals);
    }
  }

  static INCIPIT_DEVICE void Free(char* shared, int stage) {
    dev::SyncWarp();
    if (dev::Lane() == 0) dev::Arrive(Empty(shared) + stage);
  }

  // Returns the row of the input x and the packed weight rows to which the four results of this
  // lane belong. `valid` is false if the input has no such row. Does not set the results `y`.
  static INCIPIT_DEVICE Results ResultsIn(TileOrigin origin, int unit, LanePosition mine, int block,
                                          int num_rows) {
    Results results;
    results.unit = unit;
    results.quad = mine.quad;
    results.row = origin.row + block * 8 + mine.token;
    results.valid = results.row < num_rows;
    return results;
  }

  // Calls the epilogue (the class that stores results) with the results of this warp, which belong
  // to 16 packed weight rows. The warp first reorders the results in shared memory, for 8 * kStaged
  // input rows at a time.
  static INCIPIT_DEVICE void Finish(const Args& args, TileOrigin origin, int num_rows, char* shared,
                                    const float (&sums)[kBlocks][4]) {
    const int lane = dev::Lane(), warp = dev::Warp() - kCopyWarps, unit = origin.unit + warp;
    if (unit >= args.input.num_units) return;
    auto* const scales = reinterpret_cast<float*>(shared + kScalesAt) + warp * kTokenTile;
    float* const stage = reinterpret_cast<float*>(shared + kResultsAt) + warp * kResultFloats;
    const LanePosition mine = PositionOfLane();
    const auto at = [&](int block) { return ResultsIn(origin, unit, mine, block, num_rows); };
    // Constants for a row of the input x. The epilogue (the class that stores results) loads these
    // constants two iterations before they are used.
    typename Epilogue::Row rows[kStaged];
    typename Epilogue::Early early[kStaged], next[kStaged];
    INCIPIT_UNROLL
    for (int i = 0; i < kStaged; ++i) rows[i] = Epilogue::LoadRow(args.epilogue, at(i));
    INCIPIT_UNROLL
    for (int i = 0; i < kStaged; ++i) {
      next[i] = Epilogue::Begin(args.epilogue, at(i), rows[i]);
      rows[i] = Epilogue::LoadRow(args.epilogue, at(kStaged + i));
    }
    FindScalesWarp<kTokenTile>(args.input, origin.row, num_rows, scales);
    INCIPIT_UNROLL
    for (int first = 0; first < kBlocks; first += kStaged) {
      INCIPIT_UNROLL
      for (int i = 0; i < kStaged * 4; ++i) {
        const int token = i / 4 * 8 + lane % 4 * 2 + i % 2, row = lane / 4 + i % 4 / 2 * 8;
        dev::StoreShared(stage + token * kResultStride + row, sums[first + i / 4][i % 4]);
      }
      dev::SyncWarp();
      INCIPIT_UNROLL
      for (int i = 0; i < kStaged; ++i) {
        early[i] = next[i];
        const int after = first + kStaged + i;
        if (after < kBlocks) next[i] = Epilogue::Begin(args.epilogue, at(after), rows[i]);
        if (after + kStaged < kBlocks) {
          rows[i] = Epilogue::LoadRow(args.epilogue, at(after + kStaged));
        }
      }
      INCIPIT_UNROLL
      for (int block = 0; block < kStaged; ++block) {
        const int token = block * 8 + mine.token;
        Results results = at(first + block);
        UnpackFloats(dev::LoadShared(reinterpret_cast<const Vec4*>(stage + token * kResultStride +
                                                                   mine.quad * 4)),
                     results.y);
        const float scale = dev::LoadShared(scales + first * 8 + token);
        INCIPIT_UNROLL
        for (int i = 0; i < 4; ++i) results.y[i] = dev::Multiply(results.y[i], scale);
        Epilogue::Run(args.epilogue, results, early[block]);
      }
      dev::SyncWarp();
    }
  }
};

}  // namespace incipit::cuda
