// The product (kernels/cuda/device/product/product.h) of up to 64 rows: bound by the bytes of the
// weight, which stream through the block once.
//
// The clusters of kCluster blocks share the units of 16 packed rows evenly, each a contiguous
// range, and take up to kMaxUnits * kCluster of them in a pass over the columns. A block does 4 /
// kCluster of the runs (packed_order.h) of these units, so that it needs only those columns of x:
// with many tokens, and one block to a cluster, x would be most of what comes out of L2. Its four
// consumer warps are kCluster to a run, each with every kCluster-th unit; the weight is the 16-row
// operand, kTokens rows of x the columns. Then the runs are added in order through the shared
// memory of the cluster. A fifth warp's first lane copies the weight: 8 KB to a slot of a ring, the
// first of them before the kernels before this one have ended. The warps of a run copy x
// themselves, in chunks.
//
// Launched with NumBlocks() a multiple of kCluster, and in such clusters. One block for each
// multiprocessor is best: more would read x more often and leave the next kernel's no room.
//
// Moves num_units * NumTiles(columns) * 2,048 bytes of the weight, 2 * num_rows * columns of x for
// every pass of every cluster and 4 * num_rows * num_squares for every block (out of L2, but the
// first), beside what the epilogue says.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/product/product.h"

namespace incipit::cuda {

template <int kTokenColumns, class EpilogueType>
struct SkinnyShape {
  using Epilogue = EpilogueType;
  static constexpr int kTokens = kTokenColumns;  // 8, 16, 24, 32, 48 or 64
  static constexpr int kCluster = kTokens < 32 ? 1 : 2;
  static constexpr int kMaxUnits = kTokens <= 32 ? 4 : 3;  // of a warp
  // Of x: chunks of a run that are there or under way.
  static constexpr int kChunkStages = kTokens <= 16 ? 4 : kTokens == 64 ? 2 : 3;
  static constexpr int kSlots = kTokens <= 8 ? 10 : 8;
};

// x of one run on its way through shared memory, over and over for every pass, by the warps of the
// run together. A chunk is 64 columns, its rows swizzled as those of a tile of the weight.
template <class Shape>
class ChunkStream {
 public:
  static constexpr int kTokens = Shape::kTokens, kWarps = Shape::kCluster;
  static constexpr int kBytes = kTokens * kTileColumns * 2;  // of a chunk
  static constexpr int kAllBytes = kBytes * Shape::kChunkStages;

  struct Run {
    int first_tile, num_tiles;
    int warp, barrier;  // which of the run's warps this is; their barrier: 0 or 1
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

  // The next chunk, in place for all warps of the run, which are done with the one before.
  INCIPIT_DEVICE const char* Next() {
    dev::WaitCopies<Shape::kChunkStages - 2>();
    if constexpr (kWarps == 1) {
      dev::SyncWarp();
    } else {
      // Two calls, so that the compiler sees how few barriers there are.
      if (barrier_ == 0) dev::SyncThreads(2, 32 * kWarps);
      if (barrier_ != 0) dev::SyncThreads(3, 32 * kWarps);
    }
    Copy(stage_ == 0 ? Shape::kChunkStages - 1 : stage_ - 1);
    const char* const chunk = shared_ + stage_ * kBytes;
    stage_ = stage_ + 1 == Shape::kChunkStages ? 0 : stage_ + 1;
    return chunk;
  }

  // Place of 16 bytes of a row in a chunk.
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
        const int more = i * kRowsPerCopy;  // rows; four of them are half a turn of the swizzle
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
  int length_, columns_, left_;  // columns of the run, of x; chunks to copy
  int column_, end_;             // that this lane copies next, and beyond its last
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
  // Columns that one load of x takes: of two blocks of tokens, or of one where they are odd.
  static constexpr int kStep = kBlocksOfTokens % 2 == 0 ? 16 : 32;
  // Whether an epilogue begins before the sums are made: what it loads is that of one place then,
  // and there are registers for it.
  static constexpr bool kBeginsEarly = kTokens == 8;
  static constexpr int kWarps = 4, kConsumers = 32 * kWarps;
  static constexpr int kThreads = kConsumers + (kCluster == 1 ? 32 : 0), kBlocksPerSm = 2;

  // Shared memory: the ring, x, the sums of the runs of four times 8 tokens, scales, barriers.
  static constexpr int kSlotBytes = kWarps * kTileBytes;  // a tile for each warp
  static constexpr int kStageStride = kUnitRows + 4;      // floats of a token: no bank conflicts
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
      dev::SyncWarp();  // what its lanes do as one comes next
    }
    Multiply(args, units, shared, full, weight);
  }

 private:
  struct Range {
    int begin, end;
  };
  // A place in the ring.
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

  static constexpr int kMost = kMaxUnits * kCluster;  // units of a pass

  static INCIPIT_DEVICE int Rank() {
    if constexpr (kCluster == 1) return 0;
    return dev::ClusterRank();
  }
  static INCIPIT_DEVICE int CountUnits(Range units, int pass) {
    return units.end - pass < kMost ? units.end - pass : kMost;
  }

  // The weight on its way into the ring; one thread's.
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

    // Waits for the next slot to be free and fills it, if something is left.
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
    int tile_, pass_, unit_ = 0;  // that is copied next; the unit within the pass
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
    typename Epilogue::Row row;  // the same in every pass
    if constexpr (kBeginsEarly) {
      row = Epilogue::LoadRow(args.epilogue, ResultsIn(units, warp, num_rows));
    }
    FindScalesWarp<kScalesPerWarp>(args.input, warp * kScalesPerWarp, num_rows,
                                   scales + warp * kScalesPerWarp);  // while x is on its way
    const char* const tiles = shared + (warp % kCluster * kBlockRuns + block_run) * kTileBytes;
    Cursor cursor;
    int num_free = 0;  // slots
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

  // The tiles of this warp in `slots` slots of the ring, from the cursor's on, with the same chunk.
  static INCIPIT_DEVICE void MultiplyTiles(const char* tiles, const Cursor& cursor, int slots,
                                           Chunks& chunks,
                                           float (&sums)[kMaxUnits][kBlocksOfTokens][4]) {
    const int lane = dev::Lane(), row = lane % 16;
    int weight[kMaxUnits];  // offsets
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

  // Columns step .. step + kStep of a chunk, of all tokens.
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

  // Everyone's sums are staged.
  static INCIPIT_DEVICE void TakeStages() {
    if constexpr (kCluster == 1) {
      dev::SyncThreads(1, kConsumers);
    } else {
      dev::SyncCluster();
    }
  }
  // This thread has loaded what it takes; everyone has. In two steps, as the first waits for the
  // stores before it: those of the epilogue come in between.
  static INCIPIT_DEVICE void LeaveStages() {
    if constexpr (kCluster > 1) dev::ArriveCluster();
  }
  static INCIPIT_DEVICE void WaitForStages() {
    if constexpr (kCluster == 1) {
      dev::SyncThreads(1, kConsumers);
    } else {
      dev::WaitCluster();
    }
  }

  // What this lane finishes of block `block` of 8 tokens; the unit may be beyond.
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

  // Adds the runs and hands the results over. A warp's sums are `slots` times so many blocks of 8
  // tokens; of four at a time, warp w of rank r finishes block w of the units of the warps w' with
  // w' % kCluster = r. `early`: with kBeginsEarly.
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
        // Where there are no four left, the last is staged again.
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

  // `stage` is the place of the results in what the first warp of a block has staged.
  static INCIPIT_DEVICE void AddRuns(const float* stage, int num_tiles, float (&y)[4]) {
    LoadRun(stage, 0, y);
    INCIPIT_UNROLL
    for (int run = 1; run < kNumRuns; ++run) {
      if (run >= num_tiles) break;  // it is empty
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
