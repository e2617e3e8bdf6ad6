// Kernel SkinnyProduct: the product (kernels/cuda/device/product/product.h) of up to 64 rows.
// Reading the weight once bounds the time of the kernel.
//
// Clusters of kCluster thread blocks divide the units (16 packed rows each) of the weight evenly;
// each cluster has a contiguous range of units. In one pass over the columns a cluster computes up
// to kMaxUnits * kCluster units. A thread block computes 4 / kCluster of the runs (packed_order.h)
// of these units, so the thread block reads only the columns of x in those runs. With many tokens
// and one thread block in a cluster, x would be most of the bytes read from L2.
//
// Four consumer warps multiply. kCluster warps share a run; each of these warps computes every
// kCluster-th unit. The weight is the 16-row operand of the tensor instructions; the columns of the
// other operand are kTokens rows of x. After a pass, the sums of the runs are added in order
// through the shared memory of the cluster. If kCluster is 1, the first lane of a fifth warp copies
// the weight; otherwise thread 0 copies the weight. The copies fill a ring of 8,192-byte slots, and
// the first copies start before earlier kernels have ended. The warps of a run copy x themselves,
// in chunks.
//
// Launch: in clusters of kCluster thread blocks; NumBlocks() is a multiple of kCluster. One thread
// block for each multiprocessor is fastest: more thread blocks would read x more often and would
// leave no room for the thread blocks of the next kernel.
//
// Memory traffic: num_units * NumTiles(columns) * 2,048 bytes of the weight; 2 * num_rows * columns
// bytes of x for every pass of every cluster; 4 * num_rows * num_squares bytes for every thread
// block; and the epilogue's traffic. The first read of x and of the squares comes from memory, the
// later reads come from L2.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/product/product.h"

namespace incipit::cuda {

template <int kTokenColumns, class EpilogueType>
struct SkinnyShape {
  using Epilogue = EpilogueType;
  // maximum number of rows of x: 8, 16, 24, 32, 48 or 64
  static constexpr int kTokens = kTokenColumns;
  static constexpr int kCluster = kTokens < 32 ? 1 : 2;
  // Maximum number of units (16 packed weight rows) that a warp computes in one pass over the
  // columns
  static constexpr int kMaxUnits = kTokens <= 32 ? 4 : 3;
  // Number of chunks of x (64 columns each) in shared memory, for each run (one of the four ranges
  // of columns that are summed separately)
  static constexpr int kChunkStages = kTokens <= 16 ? 4 : kTokens == 64 ? 2 : 3;
  static constexpr int kSlots = kTokens <= 8 ? 10 : 8;
};

// Copies columns of x to shared memory in chunks of 64 columns: the columns of one run (a range of
// columns that is summed separately), repeated for each pass over the columns. All warps that
// multiply the columns of the run call each function together. The rows of a chunk are swizzled
// like the rows of a weight tile (packed_order.h).
template <class Shape>
class ChunkStream {
 public:
  static constexpr int kTokens = Shape::kTokens, kWarps = Shape::kCluster;
  static constexpr int kBytes = kTokens * kTileColumns * 2;  // bytes of a chunk: 64 columns of x
  static constexpr int kAllBytes = kBytes * Shape::kChunkStages;

  struct Run {
    int first_tile, num_tiles;
    // warp: index of this warp among the warps of its run (range of columns). barrier: index of the
    // barrier of these warps, 0 or 1.
    int warp, barrier;
  };

  INCIPIT_DEVICE ChunkStream(char* shared, const ProductInput& input, int num_rows, const Run& run,
                             int passes)
      : shared_(shared),
        barrier_(run.barrier),
        length_(run.num_tiles * kTileColumns),
        columns_(input.columns),
        left_(run.num_tiles * passes) {
    const int row = run.warp * 4 + dev::Lane() / 8, part = dev::Lane() % 8;
    offset_ = OffsetOf(row, part);
    column_ = run.first_tile * kTileColumns + part * 8;
    end_ = column_ + length_;
    rows_left_ = num_rows - row;
    source_ = input.x + static_cast<int64_t>(row < num_rows ? row : 0) * columns_;
    INCIPIT_UNROLL
    for (int i = 0; i < Shape::kChunkStages - 1; ++i) Copy(i);
  }

  // Returns the address of the next chunk (64 columns of x). Waits until all warps of the run
  // (range of columns) have copied their part of the chunk. REQUIRES: these warps have finished
  // reading the previous chunk.
  INCIPIT_DEVICE const char* Next() {
    dev::WaitCopies<Shape::kChunkStages - 2>();
    if constexpr (kWarps == 1) {
      dev::SyncWarp();
    } else {
      // Each call has a constant barrier number, so that the compiler knows which barriers the
      // kernel uses.
      if (barrier_ == 0) dev::SyncThreads(2, 32 * kWarps);
      if (barrier_ != 0) dev::SyncThreads(3, 32 * kWarps);
    }
    Copy(stage_ == 0 ? Shape::kChunkStages - 1 : stage_ - 1);
    const char* const chunk = shared_ + stage_ * kBytes;
    stage_ = stage_ + 1 == Shape::kChunkStages ? 0 : stage_ + 1;
    return chunk;
  }

  // Returns the offset in bytes, from the start of a chunk (64 columns of x), of 16-byte piece
  // `part` of row `row`.
  static INCIPIT_DEVICE int OffsetOf(int row, int part) {
    return row * 128 + (part ^ (row & 7)) * 16;
  }

 private:
  static constexpr int kRowsPerCopy = 4 * kWarps;

  INCIPIT_DEVICE void Copy(int stage) {
    if (left_ > 0) {
      --left_;
      char* const chunk = shared_ + stage * kBytes;
      const bool inside = column_ < columns_;
      INCIPIT_UNROLL
      for (int i = 0; i < kTokens / kRowsPerCopy; ++i) {
        // Distance in rows from the first row that this lane copies; a multiple of four
        const int more = i * kRowsPerCopy;
        const bool valid = inside && more < rows_left_;
        const int64_t from = valid ? static_cast<int64_t>(more) * columns_ + column_ : 0;
        const int offset = (offset_ ^ (more % 8 * 16)) + more * 128;
        dev::CopyAsync16(chunk + offset, source_ + from, valid ? 16 : 0);
      }
      column_ += kTileColumns;
      if (column_ == end_) column_ -= length_;
    }
    dev::CommitCopies();
  }

  char* shared_;
  int barrier_;
  // length_: number of columns of the run (range of columns). columns_: number of columns of x.
  // left_: number of chunks left to copy.
  int length_, columns_, left_;
  // column_: the next column that this lane copies. end_: the column at which the lane returns to
  // the start of the run (range of columns).
  int column_, end_;
  int rows_left_, offset_;
  int stage_ = 0;
  const dev::bf16* source_;
};

template <class Shape>
struct SkinnyProduct {
  using Epilogue = typename Shape::Epilogue;
  using Args = ProductArgs<Epilogue>;
  using Chunks = ChunkStream<Shape>;
  static constexpr int kTokens = Shape::kTokens, kMaxUnits = Shape::kMaxUnits;
  static constexpr int kCluster = Shape::kCluster, kBlockRuns = kNumRuns / kCluster;
  static constexpr int kBlocksOfTokens = kTokens / 8, kSlots = Shape::kSlots;
  // Number of columns that one load of x from shared memory reads. If the number of blocks of 8
  // tokens is even, a load reads 16 columns of two blocks, otherwise 32 columns of one block.
  static constexpr int kStep = kBlocksOfTokens % 2 == 0 ? 16 : 32;
  // True if the epilogue loads its constants before the multiplication. With at most 8 tokens, each
  // lane loads the constants of only one row, and enough registers are free.
  static constexpr bool kBeginsEarly = kTokens == 8;
  static constexpr int kWarps = 4, kConsumers = 32 * kWarps;
  static constexpr int kThreads = kConsumers + (kCluster == 1 ? 32 : 0), kBlocksPerSm = 2;

  // Size of a slot of the ring in shared memory: one weight tile (16 x 64 elements) for each of the
  // four warps.
  static constexpr int kSlotBytes = kWarps * kTileBytes;
  // Distance in floats between the sums of successive tokens in shared memory; 4 floats of padding
  // avoid bank conflicts
  static constexpr int kStageStride = kUnitRows + 4;
  static constexpr int kStageFloats = 8 * kStageStride;
  static constexpr int kChunksAt = kSlots * kSlotBytes;
  static constexpr int kStagesAt = kChunksAt + kBlockRuns * Chunks::kAllBytes;
  static constexpr int kScalesAt = kStagesAt + 4 * kWarps * kStageFloats * 4;
  static constexpr int kBarriersAt = kScalesAt + kTokens * 4;
  static constexpr int kSharedBytes = kBarriersAt + 2 * kSlots * 8;
  static_assert(kSharedBytes <= 112 * 1024);
  static_assert(kCluster == 1 || kBlockRuns <= 2);

  static INCIPIT_DEVICE void Run(const Args& args) {
    char* const shared = dev::SharedMemory();
    auto* const full = reinterpret_cast<dev::Barrier*>(shared + kBarriersAt);
    if (dev::Thread() == 0) {
      for (int i = 0; i < kSlots; ++i) {
        dev::InitBarrier(full + i, 1);
        dev::InitBarrier(full + kSlots + i, kWarps);
      }
      dev::FenceBarriers();
    }
    dev::SyncBlock();
    const int64_t num_units = args.input.num_units;
    const int cluster = dev::Block() / kCluster, num_clusters = dev::NumBlocks() / kCluster;
    const Range units = {static_cast<int>(num_units * cluster / num_clusters),
                         static_cast<int>(num_units * (cluster + 1) / num_clusters)};
    WeightStream weight(args.input, units, shared, full);
    if constexpr (kCluster == 1) {
      if (dev::Warp() == kWarps) {
        while (dev::Lane() == 0 && !weight.done()) weight.CopyNext(args.input);
        return;
      }
    } else {
      for (int i = 0; i < kSlots && dev::Thread() == 0; ++i) weight.CopyNext(args.input);
      dev::SyncWarp();  // all lanes of the warp wait for thread 0, which starts copies
    }
    Multiply(args, units, shared, full, weight);
  }

 private:
  struct Range {
    int begin, end;
  };
  // Index of a slot in the ring of slots that hold weight tiles. The parity changes whenever the
  // index returns to slot 0.
  struct Cursor {
    int slot = 0;
    uint32_t parity = 0;
    INCIPIT_DEVICE void Advance() {
      if (++slot == kSlots) {
        slot = 0;
        parity ^= 1;
      }
    }
  };

  // Maximum number of units (16 packed weight rows) that a cluster computes in one pass over the
  // columns
  static constexpr int kMost = kMaxUnits * kCluster;

  static INCIPIT_DEVICE int Rank() {
    if constexpr (kCluster == 1) return 0;
    return dev::ClusterRank();
  }
  static INCIPIT_DEVICE int CountUnits(Range units, int pass) {
    return units.end - pass < kMost ? units.end - pass : kMost;
  }

  // Copies the weight tiles that this thread block multiplies into the ring of slots in shared
  // memory. Only one thread calls CopyNext.
  class WeightStream {
   public:
    INCIPIT_DEVICE WeightStream(const ProductInput& input, Range units, char* shared,
                                dev::Barrier* full)
        : shared_(shared),
          full_(full),
          num_tiles_(NumTiles(input.columns)),
          first_tile_(Rank() * kBlockRuns),
          tile_(first_tile_),
          pass_(units.begin),
          units_(units) {
      if (first_tile_ >= num_tiles_) pass_ = units_.end;
      if (done()) dev::LetNextKernelStart();
    }

    INCIPIT_DEVICE bool done() const { return pass_ >= units_.end; }

    // Waits until the next slot of the ring is free, and starts the copies that fill the slot. Does
    // nothing if all tiles of this thread block have been copied.
    INCIPIT_DEVICE void CopyNext(const ProductInput& input) {
      if (done()) return;
      if (!first_turn_) dev::WaitBarrier(full_ + kSlots + cursor_.slot, cursor_.parity ^ 1);
      dev::Barrier* const full = full_ + cursor_.slot;
      const int left = num_tiles_ - tile_;
      const auto bytes =
          static_cast<uint32_t>((left < kBlockRuns ? left : kBlockRuns) * kTileBytes);
      const int count = CountUnits(units_, pass_);
      const int together = count - unit_ < kCluster ? count - unit_ : kCluster;
      dev::ArriveExpecting(full, static_cast<uint32_t>(together) * bytes);
      for (int i = 0; i < together; ++i) {
        const int64_t tile_index = static_cast<int64_t>(pass_ + unit_ + i) * num_tiles_ + tile_;
        dev::CopyBulk<dev::Reuse::kNone>(
            shared_ + cursor_.slot * kSlotBytes + i * kBlockRuns * kTileBytes,
            input.weight + tile_index * kTileElements, bytes, full);
      }
      cursor_.Advance();
      first_turn_ = first_turn_ && cursor_.slot != 0;
      unit_ += kCluster;
      if (unit_ < count) return;
      unit_ = 0;
      tile_ += kNumRuns;
      if (tile_ < num_tiles_) return;
      tile_ = first_tile_;
      pass_ += kMost;
      if (done()) dev::LetNextKernelStart();
    }

   private:
    char* shared_;
    dev::Barrier* full_;
    int num_tiles_, first_tile_;
    // Position of the next copy. tile_: index of the tile in its unit (16 packed weight rows).
    // pass_: first unit of the current pass over the columns. unit_: number of units of this pass
    // before the copied unit.
    int tile_, pass_, unit_ = 0;
    Range units_;
    Cursor cursor_;
    bool first_turn_ = true;
  };

  static INCIPIT_DEVICE void Multiply(const Args& args, Range units, char* shared,
                                      dev::Barrier* full, WeightStream& weight) {
    dev::WaitForEarlierKernels();
    const int warp = dev::Warp(), rank = Rank();
    int num_rows = dev::LoadConstant(args.input.num_rows);
    if (num_rows > kTokens) num_rows = kTokens;
    auto* const scales = reinterpret_cast<float*>(shared + kScalesAt);
    constexpr int kScalesPerWarp = kTokens / kWarps;
    const int num_tiles = NumTiles(args.input.columns);
    const int block_run = warp / kCluster, run = rank * kBlockRuns + block_run;
    Chunks chunks(shared + kChunksAt + block_run * Chunks::kAllBytes, args.input, num_rows,
                  {RunBegin(num_tiles, run), RunLength(num_tiles, run), warp % kCluster, block_run},
                  (units.end - units.begin + kMost - 1) / kMost);
    // Constants that the epilogue loads for each row; the same in every pass over the columns
    typename Epilogue::Row row;
    if constexpr (kBeginsEarly) {
      row = Epilogue::LoadRow(args.epilogue, ResultsIn(units, warp, num_rows));
    }
    // The scales of the rows are computed while the asynchronous copies of x are in flight.
    FindScalesWarp<kScalesPerWarp>(args.input, warp * kScalesPerWarp, num_rows,
                                   scales + warp * kScalesPerWarp);
    const char* const tiles = shared + (warp % kCluster * kBlockRuns + block_run) * kTileBytes;
    Cursor cursor;
    int num_free = 0;  // number of slots of the ring that have been read and not yet refilled
    for (int pass = units.begin; pass < units.end; pass += kMost) {
      const int count = CountUnits(units, pass), slots = (count + kCluster - 1) / kCluster;
      const Range of_pass = {pass, pass + count};
      typename Epilogue::Early early;
      if constexpr (kBeginsEarly) {
        early = Epilogue::Begin(args.epilogue, ResultsIn(of_pass, warp, num_rows), row);
      }
      float sums[kMaxUnits][kBlocksOfTokens][4] = {};
      for (int index = 0; TilePosition(rank * kBlockRuns, index) < num_tiles; ++index) {
        Cursor next = cursor;
        for (int slot = 0; slot < slots; ++slot) {
          dev::WaitBarrier(full + next.slot, next.parity);
          next.Advance();
        }
        if constexpr (kCluster > 1) {
          for (; num_free > 0 && dev::Thread() == 0; --num_free) weight.CopyNext(args.input);
          dev::SyncWarp();
          num_free = slots;
        }
        if (TilePosition(run, index) < num_tiles) MultiplyTiles(tiles, cursor, slots, chunks, sums);
        dev::SyncWarp();
        for (int slot = 0; slot < slots; ++slot) {
          if (dev::Lane() == 0) dev::Arrive(full + kSlots + cursor.slot);
          cursor.Advance();
        }
      }
      Finish(args, of_pass, num_rows, shared, sums, early);
    }
  }

  // Multiplies weight tiles by the next chunk of x (64 columns) and adds the results to `sums`. The
  // tiles are in `slots` consecutive slots of the ring, from slot `cursor` on; each slot has one
  // tile for this warp.
  static INCIPIT_DEVICE void MultiplyTiles(const char* tiles, const Cursor& cursor, int slots,
                                           Chunks& chunks,
                                           float (&sums)[kMaxUnits][kBlocksOfTokens][4]) {
    const int lane = dev::Lane(), row = lane % 16;
    int weight[kMaxUnits];  // offset in bytes, from `tiles`, of the weight tile of each unit
    int slot = cursor.slot;
    INCIPIT_UNROLL
    for (int unit = 0; unit < kMaxUnits; ++unit) {
      weight[unit] = slot * kSlotBytes + row * 128;
      slot = slot + 1 == kSlots ? 0 : slot + 1;
    }
    const char* const x = chunks.Next();
    INCIPIT_UNROLL
    for (int step = 0; step < kTileColumns; step += kStep) {
      uint32_t b[kBlocksOfTokens][kStep / 8];
      LoadTokens(x, step, b);
      INCIPIT_UNROLL
      for (int unit = 0; unit < kMaxUnits; ++unit) {
        if (unit >= slots) break;
        INCIPIT_UNROLL
        for (int half = 0; half < kStep / 16; ++half) {
          uint32_t a[4];
          const int part = step / 8 + half * 2 + lane / 16;
          dev::LoadMatricesWarp(a, tiles + (weight[unit] + (part ^ (row & 7)) * 16));
          INCIPIT_UNROLL
          for (int block = 0; block < kBlocksOfTokens; ++block) {
            dev::MultiplyAddWarp(sums[unit][block], a, b[block][2 * half], b[block][2 * half + 1]);
          }
        }
      }
    }
  }

  // Loads columns [step, step + kStep) of a chunk of x for all rows of x. `b` receives the right
  // operands of MultiplyAddWarp.
  static INCIPIT_DEVICE void LoadTokens(const char* chunk, int step,
                                        uint32_t (&b)[kBlocksOfTokens][kStep / 8]) {
    const int lane = dev::Lane();
    if constexpr (kStep == 32) {
      INCIPIT_UNROLL
      for (int block = 0; block < kBlocksOfTokens; ++block) {
        dev::LoadMatricesWarp(b[block],
                              chunk + Chunks::OffsetOf(block * 8 + lane % 8, step / 8 + lane / 8));
      }
    } else {
      INCIPIT_UNROLL
      for (int block = 0; block < kBlocksOfTokens; block += 2) {
        uint32_t words[4];
        const int row = block * 8 + lane / 16 * 8 + lane % 8;
        dev::LoadMatricesWarp(words, chunk + Chunks::OffsetOf(row, step / 8 + lane / 8 % 2));
        b[block][0] = words[0];
        b[block][1] = words[1];
        b[block + 1][0] = words[2];
        b[block + 1][1] = words[3];
      }
    }
  }

  // Waits until all threads have stored their sums in shared memory: all threads of the thread
  // block, or of the cluster if kCluster > 1.
  static INCIPIT_DEVICE void TakeStages() {
    if constexpr (kCluster == 1) {
      dev::SyncThreads(1, kConsumers);
    } else {
      dev::SyncCluster();
    }
  }
  // Announces that this thread has finished reading other threads' sums in shared memory. The
  // epilogue stores its results after LeaveStages, because ArriveCluster waits for all earlier
  // stores of the thread.
  static INCIPIT_DEVICE void LeaveStages() {
    if constexpr (kCluster > 1) dev::ArriveCluster();
  }
  // Waits until all threads have called LeaveStages. The sums in shared memory may then be
  // overwritten.
  static INCIPIT_DEVICE void WaitForStages() {
    if constexpr (kCluster == 1) {
      dev::SyncThreads(1, kConsumers);
    } else {
      dev::WaitCluster();
    }
  }

  // Returns the unit (16 packed weight rows), the quad (four of these rows) and the row of x of the
  // four results that this lane finishes in block `block` of 8 tokens. Does not set the results'
  // values y. The unit may lie beyond `units`.
  static INCIPIT_DEVICE Results ResultsIn(Range units, int block, int num_rows) {
    const LanePosition position = PositionOfLane();
    Results results;
    results.unit = units.begin + block / kBlocksOfTokens * kCluster + Rank();
    if (kMaxUnits * kBlocksOfTokens % 4 != 0 && block >= kMaxUnits * kBlocksOfTokens) {
      results.unit = units.end;
    }
    results.quad = position.quad;
    results.row = block % kBlocksOfTokens * 8 + position.token;
    results.valid = results.row < num_rows && results.unit < units.end;
    return results;
  }

  // Adds up the sums of the four runs (ranges of columns), and calls the epilogue with the results.
  // The warps store the sums of four blocks of 8 tokens at a time in shared memory, and warp w then
  // finishes block w. In a cluster of two thread blocks, each thread block finishes every second
  // unit (16 packed weight rows). `early` is set only if kBeginsEarly is true.
  static INCIPIT_DEVICE void Finish(const Args& args, Range units, int num_rows, char* shared,
                                    const float (&sums)[kMaxUnits][kBlocksOfTokens][4],
                                    typename Epilogue::Early early) {
    auto* const stages = reinterpret_cast<float*>(shared + kStagesAt);
    const int lane = dev::Lane(), warp = dev::Warp();
    const int slots = (units.end - units.begin + kCluster - 1) / kCluster;
    INCIPIT_UNROLL
    for (int first = 0; first < kMaxUnits * kBlocksOfTokens; first += 4) {
      if (first / kBlocksOfTokens >= slots) break;
      Results results = ResultsIn(units, first + warp, num_rows);
      typename Epilogue::Row row;
      if constexpr (!kBeginsEarly) row = Epilogue::LoadRow(args.epilogue, results);
      INCIPIT_UNROLL
      for (int i = 0; i < 4; ++i) {
        // If fewer than four blocks of 8 tokens are left, the last block is stored again. Every
        // iteration therefore stores four blocks.
        const int last = kMaxUnits * kBlocksOfTokens - 1,
                  block = first + i < last ? first + i : last;
        const float(&sum)[4] = sums[block / kBlocksOfTokens][block % kBlocksOfTokens];
        float* const stage = stages + (i * kWarps + warp) * kStageFloats;
        INCIPIT_UNROLL
        for (int j = 0; j < 4; ++j) {
          const int token = lane % 4 * 2 + j % 2, row = lane / 4 + j / 2 * 8;
          dev::StoreShared(stage + token * kStageStride + row, sum[j]);
        }
      }
      if constexpr (!kBeginsEarly) early = Epilogue::Begin(args.epilogue, results, row);
      TakeStages();
      const bool exists = results.unit < units.end;
      if (exists) {
        AddRuns(stages + warp * kWarps * kStageFloats + results.row % 8 * kStageStride +
                    results.quad * 4,
                NumTiles(args.input.columns), results.y);
      }
      LeaveStages();
      if (exists) {
        const float scale =
            dev::LoadShared(reinterpret_cast<float*>(shared + kScalesAt) + results.row);
        INCIPIT_UNROLL
        for (int i = 0; i < 4; ++i) results.y[i] = dev::Multiply(results.y[i], scale);
        Epilogue::Run(args.epilogue, results, early);
      }
      WaitForStages();
    }
  }

  // Stores in `y` the total of the sums of all runs (four ranges of columns). `stage` is the
  // address, in shared memory, of the first four floats to add: the sums that warp 0 stored for the
  // results of this lane.
  static INCIPIT_DEVICE void AddRuns(const float* stage, int num_tiles, float (&y)[4]) {
    LoadRun(stage, 0, y);
    INCIPIT_UNROLL
    for (int run = 1; run < kNumRuns; ++run) {
      if (run >= num_tiles) break;  // this run (range of columns) has no weight tiles
      float more[4];
      LoadRun(stage, run, more);
      INCIPIT_UNROLL
      for (int i = 0; i < 4; ++i) y[i] = dev::Add(y[i], more[i]);
    }
  }
  static INCIPIT_DEVICE void LoadRun(const float* stage, int run, float (&y)[4]) {
    if constexpr (kCluster == 1) {
      UnpackFloats(dev::LoadShared(reinterpret_cast<const Vec4*>(stage + run * kStageFloats)), y);
    } else {
      const int warp = run % kBlockRuns * kCluster + Rank();
      const auto* const words = reinterpret_cast<const Vec4*>(stage + warp * kStageFloats);
      UnpackFloats(dev::LoadCluster(words, run / kBlockRuns), y);
    }
  }
};

}  // namespace incipit::cuda
