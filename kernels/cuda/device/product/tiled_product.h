// Kernel TiledProduct: the matrix product (product.h) for many rows. L2 bandwidth and arithmetic
// limit the speed of the kernel.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/product/product.h"

namespace incipit::cuda {

// Shape of large tiles of the result. Only one thread block fits on a multiprocessor. The kernel
// loads 13 bytes for each 1,000 floating-point operations.
template <class EpilogueType>
struct LargeTiles {
  using Epilogue = EpilogueType;
  static constexpr int kGroups = 2, kTokenTile = 192, kBlocksPerSm = 1;
  static constexpr int kCopyRegisters = 40, kMultiplyRegisters = 232;
};
// Shape of small tiles of the result, for products of few rows: large tiles would leave
// multiprocessors without work. Two thread blocks fit on a multiprocessor. The kernel loads 23
// bytes for each 1,000 floating-point operations.
template <class EpilogueType>
struct SmallTiles {
  using Epilogue = EpilogueType;
  static constexpr int kGroups = 1, kTokenTile = 128, kBlocksPerSm = 2;
  static constexpr int kCopyRegisters = 40, kMultiplyRegisters = 216;
};

// A thread block computes tiles of the result, one after the other. A tile has 64 packed weight
// rows for each of kGroups warpgroups, and kTokenTile rows of x. The warps of another warpgroup
// only copy the weight and x into a ring of kStages buffers in shared memory. A buffer holds 64
// columns.
template <class Shape>
struct TiledProduct {
  using Epilogue = typename Shape::Epilogue;
  using Args = ProductArgs<Epilogue>;
  static constexpr int kGroups = Shape::kGroups, kBlocksPerSm = Shape::kBlocksPerSm;
  static constexpr int kCopyWarps = 4, kMultiplyWarps = 4 * kGroups;
  static constexpr int kThreads = 32 * (kCopyWarps + kMultiplyWarps);
  static constexpr int kUnits = 4 * kGroups, kTokenTile = Shape::kTokenTile;
  static constexpr int kBlocks = kTokenTile / 8;  // number of blocks of 8 tokens in a result tile
  static constexpr int kStages = 4;

  // Sizes in bytes of the weight and of x in one buffer (64 columns) of the ring in shared memory.
  static constexpr int kWeightBytes = kUnits * kTileBytes, kXBytes = kTokenTile * 128;
  static constexpr int kStageBytes = kWeightBytes + kXBytes;
  static constexpr int kStaged = 2, kResultStride = kUnitRows + 4;
  static constexpr int kResultFloats = kStaged * 8 * kResultStride;
  static constexpr int kResultsAt = kStages * kStageBytes;
  static constexpr int kScalesAt = kResultsAt + kMultiplyWarps * kResultFloats * 4;
  static constexpr int kBarriersAt = kScalesAt + kMultiplyWarps * kTokenTile * 4;
  static constexpr int kSharedBytes = kBarriersAt + 2 * kStages * 8;
  static_assert(kSharedBytes <= 228 * 1024 / kBlocksPerSm - 1024);
  // Number of registers of each thread when the kernel starts, a multiple of 8. GiveRegisters and
  // TakeRegisters change the number later.
  static constexpr int kRegisters = 65536 / (kBlocksPerSm * kThreads) / 8 * 8;
  static_assert(Shape::kCopyRegisters + kGroups * Shape::kMultiplyRegisters <=
                (1 + kGroups) * kRegisters);
  static_assert(kWeightBytes % 1024 == 0 && kXBytes % 1024 == 0);

  // Memory traffic of the kernel for each tile of the result:
  // NumTiles(columns) * (8,192 * kGroups + 128 * kTokenTile) bytes, mostly from L2. Each
  // multiplying warp also reads 4 * kTokenTile * num_squares bytes of `squares`, so num_squares
  // should be 1. The traffic of the epilogue is additional.
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
      // The next kernel may start now: it calls WaitForEarlierKernels before it reads this kernel's
      // results.
      if (warp == 1) dev::LetNextKernelStart();
    } else {
      dev::TakeRegisters<Shape::kMultiplyRegisters>();
      Multiply(args, work, shared);
    }
  }

 private:
  static constexpr int kXWarps = 2;
  // Number of x copies that a thread leaves in flight when it waits for the oldest copy
  static constexpr int kXLag = 1;
  // The ring needs one buffer for each copy in flight and two more buffers, because the multiplying
  // warps release a buffer only after they have started to multiply the next one.
  static_assert(kXLag + 2 <= kStages);

  static INCIPIT_DEVICE dev::Barrier* Full(char* shared) {
    return reinterpret_cast<dev::Barrier*>(shared + kBarriersAt);
  }
  static INCIPIT_DEVICE dev::Barrier* Empty(char* shared) { return Full(shared) + kStages; }

  struct TileOrigin {
    int row, unit;  // first row of x and first unit (16 packed weight rows) of a result tile
  };
  // Numbers of rows, columns and result tiles of a product. Find defines the order in which thread
  // blocks compute the tiles: up to 16 successive tiles use the same rows of the weight, which stay
  // in L2.
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

  // Index of a buffer in the ring; a buffer holds 64 columns of the weight and of x. `parity`: 0 in
  // the first pass through the ring, 1 in the second pass, 0 in the third pass, and so on.
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

  // Copies the weight into the ring of buffers in shared memory. Only one thread calls CopyWeight.
  // The copies start before earlier kernels have ended, because no kernel writes the weight.
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

  // Copies x into the ring of buffers in shared memory. kXWarps warps call CopyX. After the copies,
  // HandOver executes a fence, because tensor instructions read the copied bytes.
  static INCIPIT_DEVICE void CopyX(const ProductInput& input, const Work& work, char* shared) {
    constexpr int kRowsAtOnce = kXWarps * 32 / 8;
    const int thread = dev::Thread() - (kCopyWarps - kXWarps) * 32, part = thread % 8,
              row = thread / 8;
    const int offset = kWeightBytes + row * 128 + (part ^ (row & 7)) * 16;
    // A thread copies every 8th row. The storage index of a 16-byte chunk depends on row % 8, which
    // is the same for all these rows.
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

  // Multiplies x by the weight. The columns are divided into four runs (ranges) that are summed
  // separately. At the end of a run, a thread adds the sums of the run to the sums of the earlier
  // runs, so each thread holds two sets of sums in registers.
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

  // Returns the position of the four results that this lane finishes in block `block` of 8 tokens.
  // The results are for row `row` of x and unit `unit` (16 packed weight rows). The results `y` are
  // not set.
  static INCIPIT_DEVICE Results ResultsIn(TileOrigin origin, int unit, LanePosition mine, int block,
                                          int num_rows) {
    Results results;
    results.unit = unit;
    results.quad = mine.quad;
    results.row = origin.row + block * 8 + mine.token;
    results.valid = results.row < num_rows;
    return results;
  }

  // Calls the epilogue with this warp's results, which belong to one unit (16 packed weight rows).
  // In each iteration, the warp reorders the results of kStaged * 8 tokens through shared memory.
  // Meanwhile the epilogue loads constants for the next tokens.
  static INCIPIT_DEVICE void Finish(const Args& args, TileOrigin origin, int num_rows, char* shared,
                                    const float (&sums)[kBlocks][4]) {
    const int lane = dev::Lane(), warp = dev::Warp() - kCopyWarps, unit = origin.unit + warp;
    if (unit >= args.input.num_units) return;
    auto* const scales = reinterpret_cast<float*>(shared + kScalesAt) + warp * kTokenTile;
    float* const stage = reinterpret_cast<float*>(shared + kResultsAt) + warp * kResultFloats;
    const LanePosition mine = PositionOfLane();
    const auto at = [&](int block) { return ResultsIn(origin, unit, mine, block, num_rows); };
    // Constants that the epilogue loads for each row of x; loaded two iterations before their use
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
