// Kernel SkinnyProduct: a matrix product (product.h) for an input x of up to 64 rows. The kernel
// reads the weight once. Its run time is about the time of this read.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/product/product.h"

namespace incipit::cuda {

template <int kTokenColumns, class EpilogueType>
struct SkinnyShape {
  using Epilogue = EpilogueType;
  // maximum number of rows of the input x: 8, 16, 24, 32, 48 or 64
  static constexpr int kTokens = kTokenColumns;
  static constexpr int kCluster = kTokens < 32 ? 1 : 2;
  // Maximum number of units (groups of 16 weight rows) that a warp computes at a time
  static constexpr int kMaxUnits = kTokens <= 32 ? 4 : 3;
  // Number of shared-memory buffers for each of the kNumRuns column ranges of the input x. A buffer
  // holds 64 columns.
  static constexpr int kChunkStages = kTokens <= 16 ? 4 : kTokens == 64 ? 2 : 3;
  static constexpr int kSlots = kTokens <= 8 ? 10 : 8;
};

// Copies one range of the columns of the input x to shared memory, 64 columns at a time. All warps
// that multiply this range call each function together.
template <class Shape>
class ChunkStream {
 public:
  static constexpr int kTokens = Shape::kTokens, kWarps = Shape::kCluster;
  // Size in bytes of 64 columns of the input x
  static constexpr int kBytes = kTokens * kTileColumns * 2;
  static constexpr int kAllBytes = kBytes * Shape::kChunkStages;

  struct Run {
    int first_tile, num_tiles;
    // `warp`: index of this warp among the warps that process the same columns of the input x.
    // `barrier`: index (0 or 1) of the barrier that these warps use.
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

  // Waits until the next 64 columns of the input x are in shared memory, and returns their address.
  // REQUIRES: the caller no longer reads the previous 64 columns.
  INCIPIT_DEVICE const char* Next() {
    dev::WaitCopies<Shape::kChunkStages - 2>();
    if constexpr (kWarps == 1) {
      dev::SyncWarp();
    } else {
      // The barrier ids are constants, so that the compiler knows which barriers the kernel uses.
      if (barrier_ == 0) dev::SyncThreads(2, 32 * kWarps);
      if (barrier_ != 0) dev::SyncThreads(3, 32 * kWarps);
    }
    Copy(stage_ == 0 ? Shape::kChunkStages - 1 : stage_ - 1);
    const char* const chunk = shared_ + stage_ * kBytes;
    stage_ = stage_ + 1 == Shape::kChunkStages ? 0 : stage_ + 1;
    return chunk;
  }

  // Returns the offset in bytes of 16-byte piece `part` of row `row`, in a buffer with 64 columns
  // of the input x.
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
        // Distance in rows between the first row that this lane copies and the row of this
        // iteration
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
  // `length_`: number of columns of the column range. `columns_`: number of columns of the input x.
  // `left_`: number of copies (of 64 columns each) that have not started.
  int length_, columns_, left_;
  // `column_`: the next column that this lane copies. At column `end_`, the lane starts again with
  // the first column of the column range.
  int column_, end_;
  int rows_left_, offset_;
  int stage_ = 0;
  const dev::bf16* source_;
};

// Kernel SkinnyProduct. A cluster of kCluster thread blocks computes up to kMaxUnits * kCluster
// units (groups of 16 weight rows) at a time. Four ranges of columns are summed separately. In a
// cluster of two thread blocks, each thread block computes two of these ranges.
template <class Shape>
struct SkinnyProduct {
  using Epilogue = typename Shape::Epilogue;
  using Args = ProductArgs<Epilogue>;
  using Chunks = ChunkStream<Shape>;
  static constexpr int kTokens = Shape::kTokens, kMaxUnits = Shape::kMaxUnits;
  static constexpr int kCluster = Shape::kCluster, kBlockRuns = kNumRuns / kCluster;
  static constexpr int kBlocksOfTokens = kTokens / 8, kSlots = Shape::kSlots;
  // Number of columns of the input x that one load instruction reads from shared memory: 16 columns
  // of 16 input rows, or 32 columns of 8 input rows
  static constexpr int kStep = kBlocksOfTokens % 2 == 0 ? 16 : 32;
  // True if the epilogue (the class that stores the results) loads its constants before the
  // multiplication. With more than 8 tokens, too few registers are free for the constants.
  static constexpr bool kBeginsEarly = kTokens == 8;
  static constexpr int kWarps = 4, kConsumers = 32 * kWarps;
  static constexpr int kThreads = kConsumers + (kCluster == 1 ? 32 : 0), kBlocksPerSm = 2;

  // Size in bytes of a buffer for the weight in shared memory: one tile (16 x 64 elements) for each
  // of the four warps
  static constexpr int kSlotBytes = kWarps * kTileBytes;
  // Distance in floats, in shared memory, between the sums of successive tokens. Four floats of
  // padding avoid bank conflicts.
  static constexpr int kStageStride = kUnitRows + 4;
  static constexpr int kStageFloats = 8 * kStageStride;
  static constexpr int kChunksAt = kSlots * kSlotBytes;
  static constexpr int kStagesAt = kChunksAt + kBlockRuns * Chunks::kAllBytes;
  static constexpr int kScalesAt = kStagesAt + 4 * kWarps * kStageFloats * 4;
  static constexpr int kBarriersAt = kScalesAt + kTokens * 4;
  static constexpr int kSharedBytes = kBarriersAt + 2 * kSlots * 8;
  static_assert(kSharedBytes <= 112 * 1024);
  static_assert(kCluster == 1 || kBlockRuns <= 2);

  // REQUIRES: NumBlocks() is a multiple of kCluster. Memory traffic: reads the weight once; each
  // cluster reads the input x, mostly from the L2 cache.
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
      dev::SyncWarp();  // the other lanes wait until thread 0 has started the copies
    }
    Multiply(args, units, shared, full, weight);
  }

 private:
  struct Range {
    int begin, end;
  };
  // Index of a buffer in the ring of buffers for weight tiles in shared memory. `parity` alternates
  // between 0 and 1 with each pass through the ring.
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

  // Maximum number of units (groups of 16 weight rows) that a cluster computes at a time
  static constexpr int kMost = kMaxUnits * kCluster;

  static INCIPIT_DEVICE int Rank() {
    if constexpr (kCluster == 1) return 0;
    return dev::ClusterRank();
  }
  static INCIPIT_DEVICE int CountUnits(Range units, int pass) {
    return units.end - pass < kMost ? units.end - pass : kMost;
  }

  // Copies the part of the weight that this thread block multiplies to shared memory. Only one
  // thread calls CopyNext. The first copies start before earlier kernels have ended, because no
  // kernel writes the weight.
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

    // Waits until the next buffer in shared memory is free, then starts to copy weight tiles into
    // the buffer. Does nothing if all weight tiles have been copied.
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
    // The next copy begins with tile number `tile_` of unit number `pass_ + unit_`. A unit is a
    // group of 16 weight rows. A tile holds 64 columns of a unit.
    int tile_, pass_, unit_ = 0;
    Range units_;
    Cursor cursor_;
    bool first_turn_ = true;
  };

  // Multiplies the input x by this thread block's part of the weight, and passes the results to the
  // epilogue (the class that stores them). Four warps of the thread block call Multiply together.
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
    // Constants that the epilogue (the class that stores results) loads for a row of the input x
    typename Epilogue::Row row;
    if constexpr (kBeginsEarly) {
      row = Epilogue::LoadRow(args.epilogue, ResultsIn(units, warp, num_rows));
    }
    // Computes the RMSNorm factors of the input rows while the asynchronous copies of the input are
    // in flight.
    FindScalesWarp<kScalesPerWarp>(args.input, warp * kScalesPerWarp, num_rows,
                                   scales + warp * kScalesPerWarp);
    const char* const tiles = shared + (warp % kCluster * kBlockRuns + block_run) * kTileBytes;
    Cursor cursor;
    int num_free = 0;  // number of weight buffers in shared memory that can be filled again
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

  // Multiplies weight tiles by the next 64 columns of the input x and adds the products to `sums`.
  // `cursor` is the first of `slots` consecutive shared-memory buffers that contain the weight
  // tiles.
  static INCIPIT_DEVICE void MultiplyTiles(const char* tiles, const Cursor& cursor, int slots,
                                           Chunks& chunks,
                                           float (&sums)[kMaxUnits][kBlocksOfTokens][4]) {
    const int lane = dev::Lane(), row = lane % 16;
    // A weight tile is 16 packed weight rows of 64 columns. This lane reads one row of each tile.
    // Element i is the byte offset of this row in tile number i, from `tiles`.
    int weight[kMaxUnits];
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

  // Loads kStep columns of all rows of the input x, from column `step` on, into `b`, in the layout
  // that MultiplyAddWarp expects.
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

  // Waits until all threads of the thread block (or of the cluster, if kCluster > 1) have stored
  // their sums in shared memory. Other threads may then read the sums.
  static INCIPIT_DEVICE void TakeStages() {
    if constexpr (kCluster == 1) {
      dev::SyncThreads(1, kConsumers);
    } else {
      dev::SyncCluster();
    }
  }
  // Signals that this thread has finished reading sums of other threads in shared memory. REQUIRES:
  // the epilogue has not stored results yet. Otherwise, the signal waits for these stores.
  static INCIPIT_DEVICE void LeaveStages() {
    if constexpr (kCluster > 1) dev::ArriveCluster();
  }
  // Waits until no thread reads the sums in shared memory. The sums may then be overwritten.
  static INCIPIT_DEVICE void WaitForStages() {
    if constexpr (kCluster == 1) {
      dev::SyncThreads(1, kConsumers);
    } else {
      dev::WaitCluster();
    }
  }

  // Returns the position of the four results that this lane passes to the epilogue: one row of the
  // input x, and four packed weight rows. Sets `valid` to false if these results do not exist. Does
  // not set `y`.
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

  // Adds up the sums of the four column ranges, which different warps hold, and calls the epilogue
  // (the class that stores results).
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
        // A block of sums belongs to 16 weight rows and 8 tokens. Each iteration of the outer loop
        // stores four blocks. If fewer than four blocks are left, the last block is stored several
        // times.
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

  // Computes this lane's four results `y`: adds the partial sums of the kNumRuns column ranges.
  // `stage`: address of the lane's first partial sum in shared memory.
  static INCIPIT_DEVICE void AddRuns(const float* stage, int num_tiles, float (&y)[4]) {
    LoadRun(stage, 0, y);
    INCIPIT_UNROLL
    for (int run = 1; run < kNumRuns; ++run) {
      if (run >= num_tiles) break;  // range `run` and all later column ranges are empty
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
