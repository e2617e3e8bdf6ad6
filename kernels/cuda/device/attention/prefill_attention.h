// Kernel PrefillAttention: causal attention of many tokens of a sequence to the keys and values of
// the sequence. A work item (PrefillTile) has up to 128 query vectors (one for each query head of a
// token).
#pragma once

#include "kernels/cuda/device/attention/attention_args.h"
#include "kernels/cuda/device/attention/attention_step.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/vectors.h"

namespace incipit::cuda {

// Each of eight warps processes 16 query vectors, 64 positions at a time. The first warp also
// copies keys and values to shared memory. Sums are added in the same order as in DecodeAttention.
template <class Shape>
struct PrefillAttention {
  using Step = AttentionStep<Shape>;
  using Args = PagedAttentionArgs;

  static constexpr int kHeadDim = Shape::kHeadDim, kPageSize = Shape::kPageSize;
  static constexpr int kWarps = kPrefillRows / 16, kThreads = 32 * kWarps, kBlocksPerSm = 2;
  // Number of shared-memory buffers for keys; there are as many buffers for values. A buffer holds
  // 64 positions.
  static constexpr int kStages = 256 / kHeadDim;
  static constexpr int kWarpQueryBytes = 16 * kHeadDim * 2;
  static constexpr int kKeysAt = kWarps * kWarpQueryBytes;
  static constexpr int kValuesAt = kKeysAt + kStages * Step::kStepBytes;
  static constexpr int kBarriersAt = kValuesAt + kStages * Step::kStepBytes;
  static constexpr int kNotesAt = kBarriersAt + 4 * kStages * int{sizeof(dev::Barrier)};
  static constexpr int kStatsAt = kNotesAt + kWarps * 64;
  static constexpr int kSharedBytes = kStatsAt + kThreads * 16;
  static constexpr int kSumTiles = kHeadDim / 8;
  // Size in bytes of PagedAttentionArgs::scratch for each thread block
  static constexpr int kScratchBytes = kThreads * (kSumTiles + 1) * 16;
  static_assert(kSharedBytes <= 112 * 1024);

  // Memory traffic: each work item reads the keys and values of its positions once, reads its
  // queries and writes its results. Partial sums stay in the L2 cache.
  static INCIPIT_DEVICE void Run(const Args& args) {
    if (dev::Thread() == 0) {
      for (int stage = 0; stage < kStages; ++stage) {
        dev::InitBarrier(Full(KvPart::kKey, stage), 1);
        dev::InitBarrier(Full(KvPart::kValue, stage), 1);
        dev::InitBarrier(Empty(KvPart::kKey, stage), kWarps);
        dev::InitBarrier(Empty(KvPart::kValue, stage), kWarps);
      }
      dev::FenceBarriers();
    }
    dev::SyncBlock();
    PrefillAttention(args, dev::Warp()).DoTiles();
  }

 private:
  INCIPIT_DEVICE PrefillAttention(const Args& args, int warp) : args_(args), warp_(warp) {}

  INCIPIT_DEVICE void DoTiles() {
    dev::WaitForEarlierKernels();
    // makes keys and values that earlier kernels stored visible to asynchronous copies
    dev::FenceBulkGlobal();
    for (int round = 0, turn = 0; NoteTile(round); ++round) turn = DoTile(turn);
    dev::LetNextKernelStart();
  }

  // Returns the index of the calling warp. Because of dev::Fresh, the compiler recomputes addresses
  // from the index instead of keeping them in registers.
  INCIPIT_DEVICE int Warp() const { return dev::Fresh(warp_); }

  static INCIPIT_DEVICE dev::Barrier* Full(KvPart part, int stage) {
    return reinterpret_cast<dev::Barrier*>(dev::SharedMemory() + kBarriersAt) +
           (part == KvPart::kKey ? 0 : kStages) + stage;
  }
  static INCIPIT_DEVICE dev::Barrier* Empty(KvPart part, int stage) {
    return Full(part, stage) + 2 * kStages;
  }
  // Returns the index of the shared-memory buffer for iteration `turn`. Iterations are counted over
  // all work items of the thread block.
  static INCIPIT_DEVICE int StageOf(int turn) { return turn % kStages; }
  static INCIPIT_DEVICE uint32_t ParityOf(int turn) {
    return static_cast<uint32_t>(turn / kStages) & 1;
  }
  static INCIPIT_DEVICE char* TilesOf(KvPart part, int turn) {
    return dev::SharedMemory() + (part == KvPart::kKey ? kKeysAt : kValuesAt) +
           StageOf(turn) * Step::kStepBytes;
  }

  // Range [begin, end) of positions.
  struct alignas(8) Bounds {
    int begin, end;
  };
  // Data about the current work item of a warp, kept in shared memory because registers are scarce.
  struct TileNotes {
    PrefillTile tile;
    const int32_t* pages;  // numbers of the KV cache pages of the sequence, in order of position
    Bounds common;         // positions [begin, end) to which all query vectors of the warp attend
    int kv_head;
    // Position p is processed in iteration first_turn + p / 64 of this thread block. Iterations are
    // counted over all work items.
    int first_turn;
    int unused[2];
  };
  static_assert(sizeof(TileNotes) == 64);

  INCIPIT_DEVICE TileNotes* Notes() {
    return reinterpret_cast<TileNotes*>(dev::SharedMemory() + kNotesAt) + Warp();
  }
  INCIPIT_DEVICE int Note(int PrefillTile::*what) {
    return dev::LoadShared(&(Notes()->tile.*what));
  }
  INCIPIT_DEVICE int FirstRow() { return Note(&PrefillTile::first_row) + 16 * Warp(); }
  INCIPIT_DEVICE int NumRows() {
    const int left = Note(&PrefillTile::num_rows) - 16 * Warp();
    return left < 0 ? 0 : left < 16 ? left : 16;
  }
  INCIPIT_DEVICE RowView View() {
    const int num_rows = NumRows();
    return ViewOf(args_, Note(&PrefillTile::position), FirstRow(), num_rows < 1 ? 1 : num_rows);
  }

  // Loads the next work item of the thread block to shared memory. Returns false if no work is
  // left. `round`: number of work items already processed.
  INCIPIT_DEVICE bool NoteTile(int round) {
    const char* const step = reinterpret_cast<const char*>(args_.step);
    const AttentionList* const list = &args_.step->lists[args_.list];
    const Turn turn = TurnOf(round, dev::LoadGlobal(&list->num_prefill_tiles), args_.num_kv_heads);
    if (!turn.exists) return false;
    const auto* const tile = reinterpret_cast<const dev::Vec4*>(
        step + dev::LoadGlobal(&list->prefill_tiles) + turn.item * int{sizeof(PrefillTile)});
    dev::SyncWarp();  // waits until all lanes have read the previous work item
    if (dev::Lane() < 2) {
      dev::StoreShared(reinterpret_cast<dev::Vec4*>(Notes()) + dev::Lane(),
                       dev::LoadGlobal(tile + dev::Lane()));
    }
    dev::SyncWarp();
    const RowView view = View();
    if (dev::Lane() == 0) {
      const auto* const pages =
          reinterpret_cast<const int32_t*>(step + dev::LoadGlobal(&args_.step->page_tables));
      dev::StoreShared(&Notes()->pages, pages + Note(&PrefillTile::table));
      dev::StoreShared(&Notes()->kv_head, turn.kv_head);
      dev::StoreShared(&Notes()->common, Bounds{view.common_begin, view.common_end});
    }
    dev::SyncWarp();
    return true;
  }

  // Starts to copy the keys (or the values) of 64 positions to shared memory, beginning at
  // `position`, for iteration `turn`. All lanes of the first warp call Bring together.
  INCIPIT_DEVICE void Bring(KvPart part, int turn, int position) {
    const KvLayout layout = {kPageSize, dev::Fresh(args_.num_kv_heads), kHeadDim};
    const int index = Shape::PageOf(position) + dev::Lane();
    const bool is_read = dev::Lane() < Step::kPagesPerStep &&
                         index >= Note(&PrefillTile::begin) / kPageSize &&
                         index <= (Note(&PrefillTile::end) - 1) / kPageSize;
    const int page = is_read ? dev::LoadConstant(dev::LoadShared(&Notes()->pages) + index) : 0;
    dev::WaitBarrier(Empty(part, StageOf(turn)), ParityOf(turn) ^ 1);
    dev::Barrier* const full = Full(part, StageOf(turn));
    const uint32_t copies = dev::BallotWarp(is_read);
    if (dev::Lane() == 0) {
      dev::ArriveExpecting(full, dev::CountBits(copies) * Step::kTileBytes);
    }
    dev::SyncWarp();
    if (is_read) {
      const int64_t from = layout.TileOffset(page, part, dev::LoadShared(&Notes()->kv_head));
      dev::CopyBulk(TilesOf(part, turn) + dev::Lane() * Step::kTileBytes, args_.pool + from,
                    Step::kTileBytes, full);
    }
  }

  // Computes the attention of the current work item. `turn`: number of iterations that the thread
  // block has already executed. Returns this number after the work item.
  INCIPIT_DEVICE int DoTile(int turn) {
    const int first_step = Note(&PrefillTile::begin) / kStepPositions * kStepPositions;
    if (dev::Lane() == 0) {
      dev::StoreShared(&Notes()->first_turn, turn - first_step / kStepPositions);
    }
    if (Warp() == 0) BringFirst(turn, first_step);
    LoadQuery();
    StoreStats({});
    float sums[kSumTiles][4] = {};
    int position = first_step;
    for (; position < Note(&PrefillTile::end); position += kStepPositions) {
      if (HasCutAt(position)) {
        RowStats stats = LoadStats();
        Step::SumWeights(stats);
        if (HasCutAt(position - Note(&PrefillTile::split_length))) Merge(stats, sums);
        Keep(stats, sums);
        StoreStats({});
        Clear(sums);
      }
      DoStep(position, sums);
    }
    RowStats stats = LoadStats();
    Step::SumWeights(stats);
    const int split_length = Note(&PrefillTile::split_length);
    if (HasCutAt((position - 1) & -split_length)) Merge(stats, sums);
    StoreResult(stats, sums);
    return TurnAt(position);
  }

  // Returns the number of the iteration that processes `position`. Iterations are counted over all
  // work items of the thread block.
  INCIPIT_DEVICE int TurnAt(int position) {
    return position / kStepPositions + dev::LoadShared(&Notes()->first_turn);
  }

  // Returns the address in shared memory of this thread's softmax statistics (RowStats).
  static INCIPIT_DEVICE dev::Vec4* Stats() {
    return reinterpret_cast<dev::Vec4*>(dev::SharedMemory() + kStatsAt) + dev::Thread();
  }
  static INCIPIT_DEVICE RowStats LoadStats() {
    return dev::BitCast<RowStats>(dev::LoadShared(Stats()));
  }
  static INCIPIT_DEVICE void StoreStats(const RowStats& stats) {
    dev::StoreShared(Stats(), dev::BitCast<dev::Vec4>(stats));
  }

  // Returns true if a new range of split_length positions begins at `position`. The attention sums
  // of each range are computed separately. Returns false at the first position of the work item.
  INCIPIT_DEVICE bool HasCutAt(int position) {
    // equal to position % split_length, because split_length is a power of two
    const int inside = position & (Note(&PrefillTile::split_length) - 1);
    return inside == 0 && position > Note(&PrefillTile::begin);
  }

  INCIPIT_DEVICE void BringFirst(int turn, int position) {
    for (int i = 0; i < kStages && position < Note(&PrefillTile::end); ++i) {
      Bring(KvPart::kKey, turn + i, position);
      if (i + 1 < kStages) Bring(KvPart::kValue, turn + i, position);
      position += kStepPositions;
    }
  }

  // Starts copies for later iterations: the keys of iteration turn + kStages, and the values of
  // iteration turn + kStages - 1. Copies nothing for iterations after the end of the work item.
  INCIPIT_DEVICE void BringNext(int position, int turn) {
    constexpr int kAhead = kStages * kStepPositions;
    const int end = Note(&PrefillTile::end);
    if (position + kAhead < end) {
      Bring(KvPart::kKey, turn + kStages, position + kAhead);
    }
    if (position + kAhead - kStepPositions < end) {
      Bring(KvPart::kValue, turn + kStages - 1, position + kAhead - kStepPositions);
    }
  }

  INCIPIT_DEVICE void DoStep(int position, float (&sums)[kSumTiles][4]) {
    const int turn = TurnAt(position);
    dev::WaitBarrier(Full(KvPart::kKey, StageOf(turn)), ParityOf(turn));
    float scores[Step::kScoreTiles][4] = {};
    Score(TilesOf(KvPart::kKey, turn), scores);
    LeaveKeys(position);
    const Bounds common = dev::LoadShared(&Notes()->common);
    if (position < common.begin || position + kStepPositions > common.end) {
      Step::Mask(scores, position, View());
    }
    float keep[2];
    uint32_t weights[4][4];
    RowStats stats = LoadStats();
    Step::Weigh(scores, dev::Multiply(args_.scale, kLog2E), stats, keep, weights);
    StoreStats(stats);
    Scale(sums, keep[0], keep[1]);
    TakeValues(position);
    AddAllValues(TilesOf(KvPart::kValue, TurnAt(position)), weights, sums);
    dev::SyncWarp();
    if (dev::Lane() == 0) dev::Arrive(Empty(KvPart::kValue, StageOf(TurnAt(position))));
  }

  INCIPIT_DEVICE void LeaveKeys(int position) {
    const int turn = TurnAt(position);
    dev::SyncWarp();
    if (dev::Lane() == 0) dev::Arrive(Empty(KvPart::kKey, StageOf(turn)));
    if (Warp() == 0) BringNext(position, turn);
  }

  // Waits until the values of 64 positions from `position` on are in shared memory. Sets values
  // outside the positions of the work item to zero. All warps call TakeValues.
  INCIPIT_DEVICE void TakeValues(int position) {
    const int turn = TurnAt(position);
    dev::WaitBarrier(Full(KvPart::kValue, StageOf(turn)), ParityOf(turn));
    const int begin = Note(&PrefillTile::begin) - position,
              end = Note(&PrefillTile::end) - position;
    if (Shape::kClearsValues && (begin > 0 || end < kStepPositions)) {
      constexpr int kChunks = kHeadDim / 8 / kWarps;
      Step::ClearValues(TilesOf(KvPart::kValue, turn), begin, end, kChunks * Warp(), kChunks);
      dev::FenceBulkShared();
      dev::SyncThreads(1, kThreads);
    }
  }

  // Returns the address of this warp's part of shared memory, which holds first the queries and
  // later the results of the warp.
  INCIPIT_DEVICE char* WarpsRows() { return dev::SharedMemory() + Warp() * kWarpQueryBytes; }

  INCIPIT_DEVICE int64_t OffsetOf(int row) {
    return RowOffset(args_, kHeadDim, Note(&PrefillTile::token), FirstRow() + row,
                     dev::LoadShared(&Notes()->kv_head));
  }

  INCIPIT_DEVICE void LoadQuery() {
    const int num_rows = NumRows();
    constexpr int kChunks = kHeadDim / 8;
    dev::SyncWarp();  // waits until all lanes have read the results of the previous work item
    INCIPIT_KEEP_LOOP
    for (int i = 0; i < kChunks / 2; ++i) {
      const int index = i * 32 + dev::Lane(), row = index / kChunks, chunk = index % kChunks;
      const bool exists = row < num_rows;
      const int64_t from = exists ? OffsetOf(row) : 0;
      dev::CopyAsync16(WarpsRows() + OffsetInTile(16, kHeadDim, row, chunk * 8) * 2,
                       args_.query + from + chunk * 8, exists ? 16 : 0);
    }
    dev::CommitCopies();
    dev::WaitCopies<0>();
    dev::SyncWarp();
  }

  INCIPIT_DEVICE void Score(const char* keys, float (&scores)[Step::kScoreTiles][4]) {
    const int lane = dev::Fresh(dev::Lane()), key_lane = Step::KeyLane(lane);
    const int row = lane & 15, chunk = lane >> 4;
    INCIPIT_KEEP_LOOP
    for (int i = 0; i < Step::kDimSteps; ++i) {
      uint32_t query[4];
      dev::LoadMatricesWarp(query,
                            WarpsRows() + OffsetInTile(16, kHeadDim, row, (2 * i + chunk) * 8) * 2);
      INCIPIT_UNROLL
      for (int block = 0; block < 4; ++block) {
        Step::AddScores(keys, key_lane, block, i, query, scores[2 * block], scores[2 * block + 1]);
      }
    }
  }

  // Adds the values (V) of 64 positions, multiplied by softmax weights, to `sums`. The loop is not
  // unrolled, to save registers.
  static INCIPIT_DEVICE void AddAllValues(const char* values, uint32_t (&weights)[4][4],
                                          float (&sums)[kSumTiles][4]) {
    const int value_lane = Step::ValueLane(dev::Fresh(dev::Lane()));
    INCIPIT_KEEP_LOOP
    for (int block = 0; block < 4; ++block) {
      const char* const rows = values + Step::BlockOffset(block, 0);
      INCIPIT_UNROLL
      for (int pair = 0; pair < kSumTiles / 2; ++pair) {
        Step::AddValues(rows, value_lane, 0, pair, weights[0], sums[2 * pair], sums[2 * pair + 1]);
      }
      INCIPIT_UNROLL
      for (int i = 0; i < 4; ++i) {
        INCIPIT_UNROLL
        for (int next = 1; next < 4; ++next) weights[next - 1][i] = weights[next][i];
      }
    }
  }

  static INCIPIT_DEVICE void Scale(float (&sums)[kSumTiles][4], float first, float second) {
    INCIPIT_UNROLL
    for (int tile = 0; tile < kSumTiles; ++tile) {
      INCIPIT_UNROLL
      for (int i = 0; i < 4; ++i) {
        sums[tile][i] = dev::Multiply(sums[tile][i], i < 2 ? first : second);
      }
    }
  }

  static INCIPIT_DEVICE void Clear(float (&sums)[kSumTiles][4]) {
    INCIPIT_UNROLL
    for (int tile = 0; tile < kSumTiles; ++tile) {
      INCIPIT_UNROLL
      for (int i = 0; i < 4; ++i) sums[tile][i] = 0;
    }
  }

  // Returns the address in `args.scratch` of group `index` of this thread. A group has four floats.
  INCIPIT_DEVICE float* Scratch(int index) {
    return static_cast<float*>(args_.scratch) +
           (int64_t{dev::Block()} * (kSumTiles + 1) + index) * (kThreads * 4) +
           dev::Fresh(dev::Thread()) * 4;
  }

  INCIPIT_DEVICE void Keep(const RowStats& stats, const float (&sums)[kSumTiles][4]) {
    INCIPIT_UNROLL
    for (int tile = 0; tile < kSumTiles; ++tile) StoreFloats(Scratch(tile), sums[tile]);
    StoreFloats(Scratch(kSumTiles),
                {stats.maximum[0], stats.maximum[1], stats.weight[0], stats.weight[1]});
  }

  // Adds the sums over earlier positions, stored in `args.scratch`, to `stats` and `sums`. The
  // operations are the same as in DecodeAttention::Combine, so that the results have the same bits.
  INCIPIT_DEVICE void Merge(RowStats& stats, float (&sums)[kSumTiles][4]) {
    float before[4], keep[2], take[2];
    LoadFloats(Scratch(kSumTiles), before);
    INCIPIT_UNROLL
    for (int row = 0; row < 2; ++row) {
      const float both = dev::Max(before[row], stats.maximum[row]);
      keep[row] = FactorTo(both, before[row]);
      take[row] = FactorTo(both, stats.maximum[row]);
      stats.weight[row] = MergeSums(before[2 + row], keep[row], stats.weight[row], take[row]);
      stats.maximum[row] = both;
    }
    INCIPIT_UNROLL
    for (int tile = 0; tile < kSumTiles; ++tile) {
      float kept[4];
      LoadFloats(Scratch(tile), kept);
      INCIPIT_UNROLL
      for (int i = 0; i < 4; ++i) {
        sums[tile][i] = MergeSums(kept[i], keep[i >> 1], sums[tile][i], take[i >> 1]);
      }
    }
  }

  // Stores the results of this warp in `args.out`. Reorders the results in shared memory first, so
  // that each lane stores 16 consecutive bytes.
  INCIPIT_DEVICE void StoreResult(const RowStats& stats, const float (&sums)[kSumTiles][4]) {
    const int group_of_lanes = dev::Lane() / 4, column = 2 * (dev::Lane() & 3);
    INCIPIT_UNROLL
    for (int i = 0; i < 2; ++i) {
      const int row = group_of_lanes + 8 * i;
      const float inverse = dev::Divide(1, stats.weight[i]);
      INCIPIT_UNROLL
      for (int tile = 0; tile < kSumTiles; ++tile) {
        const int offset = OffsetInTile(16, kHeadDim, row, 8 * tile + column) * 2;
        dev::StoreShared(reinterpret_cast<uint32_t*>(WarpsRows() + offset),
                         dev::PackBF16(Normalized(sums[tile][2 * i], inverse),
                                       Normalized(sums[tile][2 * i + 1], inverse)));
      }
    }
    dev::SyncWarp();
    constexpr int kChunks = kHeadDim / 8;
    INCIPIT_KEEP_LOOP
    for (int i = 0; i < kChunks / 2; ++i) {
      const int index = i * 32 + dev::Lane(), row = index / kChunks, chunk = index % kChunks;
      if (row >= NumRows()) continue;
      const int64_t to = OffsetOf(row);
      const int offset = OffsetInTile(16, kHeadDim, row, chunk * 8) * 2;
      dev::StoreGlobal(reinterpret_cast<dev::Vec4*>(args_.out + to + chunk * 8),
                       dev::LoadShared(reinterpret_cast<const dev::Vec4*>(WarpsRows() + offset)));
    }
  }

  const Args& args_;
  const int warp_;
};

}  // namespace incipit::cuda
