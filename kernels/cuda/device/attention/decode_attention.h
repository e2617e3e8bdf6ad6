// Kernel DecodeAttention: attention of a few tokens of a sequence to the keys and values of the
// sequence. A work item (DecodeItem) has up to 16 query vectors (one for each query head of a
// token) and one range of positions.
#pragma once

#include "kernels/cuda/device/attention/attention_args.h"
#include "kernels/cuda/device/attention/attention_step.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/vectors.h"

namespace incipit::cuda {

// One warp copies keys and values to shared memory, 64 positions at a time. Four other warps
// compute attention. Each of these four warps computes a quarter of the scores, and then a quarter
// of the dimensions of the result.
template <class Shape>
struct DecodeAttention {
  using Step = AttentionStep<Shape>;
  using Args = PagedAttentionArgs;

  static constexpr int kHeadDim = Shape::kHeadDim, kPageSize = Shape::kPageSize;
  // Numbers of warps and of threads that compute attention. One additional warp only copies data.
  static constexpr int kWarps = 4, kAttending = 32 * kWarps;
  static constexpr int kThreads = kAttending + 32, kBlocksPerSm = 2;
  static constexpr int kStages = 384 / kHeadDim;
  static constexpr int kStageBytes = 2 * Step::kStepBytes;
  static constexpr int kQueryBytes = kDecodeRows * kHeadDim * 2;
  static constexpr int kScoreBytes = kDecodeRows * kStepPositions * 4;
  static constexpr int kQueryAt = kStages * kStageBytes, kScoresAt = kQueryAt + kQueryBytes;
  static constexpr int kBarriersAt = kScoresAt + 2 * kScoreBytes;
  static constexpr int kLastAt = kBarriersAt + 2 * kStages * int{sizeof(dev::Barrier)};
  static constexpr int kSharedBytes = kLastAt + 16;
  // Number of groups of 16 dimensions of the result that each warp computes
  static constexpr int kPairs = kHeadDim / 16 / kWarps;
  static_assert(kSharedBytes <= 112 * 1024);

  // Memory traffic: each work item reads the keys and values of its positions once, reads its
  // queries and writes its results. Work items that share query vectors also write and read partial
  // sums.
  static INCIPIT_DEVICE void Run(const Args& args) {
    if (dev::Thread() == 0) {
      for (int stage = 0; stage < kStages; ++stage) {
        dev::InitBarrier(Full(stage), 1);
        dev::InitBarrier(Empty(stage), kWarps);
      }
      dev::FenceBarriers();
    }
    dev::SyncBlock();
    const char* const step = reinterpret_cast<const char*>(args.step);
    const AttentionList* const list = &args.step->lists[args.list];
    const Work work = {
        reinterpret_cast<const dev::Vec4*>(step + dev::LoadConstant(&list->decode_items)),
        reinterpret_cast<const int32_t*>(step + dev::LoadConstant(&args.step->page_tables)),
        dev::LoadConstant(&list->num_decode_items)};
    dev::WaitForEarlierKernels();
    if (dev::Warp() == kWarps) {
      Bring(args, work);
    } else {
      Attend(args, work);
    }
  }

 private:
  struct Work {
    const dev::Vec4* items;
    const int32_t* page_tables;
    int num_items;
  };
  // Index of a buffer in the ring of buffers in shared memory. `parity` alternates between 0 and 1
  // with each pass through the ring.
  struct RingPosition {
    int stage = 0;
    uint32_t parity = 0;
    INCIPIT_DEVICE void Next() {
      if (++stage == kStages) {
        stage = 0;
        parity ^= 1;
      }
    }
  };

  static INCIPIT_DEVICE char* Stage(int stage) { return dev::SharedMemory() + stage * kStageBytes; }
  static INCIPIT_DEVICE dev::Barrier* Full(int stage) {
    return reinterpret_cast<dev::Barrier*>(dev::SharedMemory() + kBarriersAt) + stage;
  }
  static INCIPIT_DEVICE dev::Barrier* Empty(int stage) { return Full(kStages + stage); }
  static INCIPIT_DEVICE void SyncAttending() { dev::SyncThreads(1, kAttending); }

  static INCIPIT_DEVICE DecodeItem LoadItem(const dev::Vec4* items, int index) {
    struct Words {
      dev::Vec4 vector[3];
    } words;
    INCIPIT_UNROLL
    for (int i = 0; i < 3; ++i) words.vector[i] = dev::LoadConstant(items + 3 * index + i);
    return dev::BitCast<DecodeItem>(words);
  }

  // Copies the keys and values for all work items of this thread block to shared memory, 64
  // positions at a time. All lanes of one warp call Bring together.
  static INCIPIT_DEVICE void Bring(const Args& args, const Work& work) {
    // makes keys and values that earlier kernels stored visible to asynchronous copies
    dev::FenceBulkGlobal();
    const KvLayout layout = {kPageSize, args.num_kv_heads, kHeadDim};
    const int page_of_step = dev::Lane() / 2;
    const KvPart part = (dev::Lane() & 1) == 0 ? KvPart::kKey : KvPart::kValue;
    const int offset_in_stage =
        (part == KvPart::kKey ? 0 : Step::kStepBytes) + page_of_step * Step::kTileBytes;
    RingPosition ring;
    for (int round = 0;; ++round) {
      const Turn turn = TurnOf(round, work.num_items, args.num_kv_heads);
      if (!turn.exists) break;
      const DecodeItem item = LoadItem(work.items, turn.item);
      const int32_t* const table = work.page_tables + item.table;
      const int first_page = item.begin / kPageSize, last_page = (item.end - 1) / kPageSize;
      const dev::bf16* const tiles = args.pool + layout.TileOffset(0, part, turn.kv_head);
      int position = item.begin / kStepPositions * kStepPositions;
      int page = PageAt(table, position, page_of_step, first_page, last_page);
      for (; position < item.end; position += kStepPositions) {
        const int next =
            PageAt(table, position + kStepPositions, page_of_step, first_page, last_page);
        dev::WaitBarrier(Empty(ring.stage), ring.parity ^ 1);
        const uint32_t copies = dev::BallotWarp(page >= 0);
        if (dev::Lane() == 0) {
          dev::ArriveExpecting(Full(ring.stage), dev::CountBits(copies) * Step::kTileBytes);
        }
        dev::SyncWarp();
        if (page >= 0) {
          dev::CopyBulk<dev::Reuse::kNone>(Stage(ring.stage) + offset_in_stage,
                                           tiles + layout.PageSize() * page, Step::kTileBytes,
                                           Full(ring.stage));
        }
        page = next;
        ring.Next();
      }
    }
    dev::LetNextKernelStart();
  }

  // Returns the number of the KV cache page that this lane copies for the 64 positions from
  // `position` on, or -1 if this lane copies no page.
  static INCIPIT_DEVICE int PageAt(const int32_t* table, int position, int page_of_step, int first,
                                   int last) {
    const int index = Shape::PageOf(position) + page_of_step;
    if (page_of_step >= Step::kPagesPerStep || index < first || index > last) return -1;
    return dev::LoadConstant(table + index);
  }

  // Computes the attention of all work items of this thread block. All warps call Attend, except
  // the warp that copies data.
  static INCIPIT_DEVICE void Attend(const Args& args, const Work& work) {
    const float factor = dev::Multiply(args.scale, kLog2E);
    RingPosition ring;
    for (int round = 0;; ++round) {
      const Turn turn = TurnOf(round, work.num_items, args.num_kv_heads);
      if (!turn.exists) break;
      const DecodeItem item = LoadItem(work.items, turn.item);
      const int kv_head = turn.kv_head;
      uint32_t query[Step::kDimSteps][4];
      LoadQuery(args, item, kv_head, query);
      const RowView view = ViewOf(args, item.position, item.first_row, item.num_rows);
      RowStats stats;
      float sums[2 * kPairs][4] = {};
      int half = 0;
      for (int position = item.begin / kStepPositions * kStepPositions; position < item.end;
           position += kStepPositions, half ^= 1) {
        dev::WaitBarrier(Full(ring.stage), ring.parity);
        DoStep(item, view, position, half, factor, query, Stage(ring.stage), stats, sums);
        dev::SyncWarp();
        if (dev::Lane() == 0) dev::Arrive(Empty(ring.stage));
        ring.Next();
      }
      Step::SumWeights(stats);
      if (item.num_splits == 1) {
        StoreResult(args, item, kv_head, stats, sums);
      } else {
        StorePartial(args, item, kv_head, stats, sums);
        if (IsLast(args, item, kv_head)) Combine(args, item, kv_head);
      }
    }
  }

  // Loads all query vectors of `item` into registers. The four warps that compute call LoadQuery
  // together.
  static INCIPIT_DEVICE void LoadQuery(const Args& args, const DecodeItem& item, int kv_head,
                                       uint32_t (&query)[Step::kDimSteps][4]) {
    char* const shared = dev::SharedMemory() + kQueryAt;
    constexpr int kChunks = kHeadDim / 8;
    INCIPIT_UNROLL
    for (int i = 0; i < kDecodeRows * kChunks / kAttending; ++i) {
      const int index = i * kAttending + dev::Thread();
      const int row = index / kChunks, chunk = index % kChunks;
      const bool exists = row < item.num_rows;
      const int64_t from =
          RowOffset(args, kHeadDim, item.token, item.first_row + (exists ? row : 0), kv_head) +
          chunk * 8;
      dev::CopyAsync16(shared + OffsetInTile(kDecodeRows, kHeadDim, row, chunk * 8) * 2,
                       args.query + from, exists ? 16 : 0);
    }
    dev::CommitCopies();
    dev::WaitCopies<0>();
    SyncAttending();
    const int row = dev::Lane() & 15, chunk = dev::Lane() >> 4;
    INCIPIT_UNROLL
    for (int i = 0; i < Step::kDimSteps; ++i) {
      dev::LoadMatricesWarp(
          query[i], shared + OffsetInTile(kDecodeRows, kHeadDim, row, (2 * i + chunk) * 8) * 2);
    }
  }

  static INCIPIT_DEVICE void DoStep(const DecodeItem& item, const RowView& view, int position,
                                    int half, float factor,
                                    const uint32_t (&query)[Step::kDimSteps][4], char* stage,
                                    RowStats& stats, float (&sums)[2 * kPairs][4]) {
    char* const values = stage + Step::kStepBytes;
    if (Shape::kClearsValues && (item.begin > position || item.end < position + kStepPositions)) {
      Step::ClearValues(values, item.begin - position, item.end - position,
                        2 * kPairs * dev::Warp(), 2 * kPairs);
      dev::FenceBulkShared();
      dev::SyncWarp();
    }
    float scores[Step::kScoreTiles][4];
    ScoreAll(stage, half, query, scores);
    if (position < view.common_begin || position + kStepPositions > view.common_end) {
      Step::Mask(scores, position, view);
    }
    float keep[2];
    uint32_t weights[4][4];
    Step::Weigh(scores, factor, stats, keep, weights);
    INCIPIT_UNROLL
    for (int i = 0; i < 2 * kPairs; ++i) {
      INCIPIT_UNROLL
      for (int j = 0; j < 4; ++j) sums[i][j] = dev::Multiply(sums[i][j], keep[j >> 1]);
    }
    const int value_lane = Step::ValueLane(dev::Lane());
    INCIPIT_UNROLL
    for (int block = 0; block < 4; ++block) {
      INCIPIT_UNROLL
      for (int pair = 0; pair < kPairs; ++pair) {
        AddWarpsValues(values, value_lane, block, pair, weights[block], sums);
      }
    }
  }

  // Adds the values (V) of 16 positions, multiplied by softmax weights, to this warp's sums of 16
  // dimensions. `pair`: index of the group of 16 dimensions, counted from this warp's first group.
  static INCIPIT_DEVICE void AddWarpsValues(const char* values, int value_lane, int block, int pair,
                                            const uint32_t (&weights)[4],
                                            float (&sums)[2 * kPairs][4]) {
    const int whole = kPairs * dev::Warp() + pair;
    uint32_t v[4];
    dev::LoadMatricesTransposedWarp(v, values + Step::BlockOffset(block, 0) +
                                           whole / 4 * kPageSize * 128 +
                                           (value_lane ^ (whole % 4 * 32)));
    dev::MultiplyAddWarp(sums[2 * pair], weights, v[0], v[1]);
    dev::MultiplyAddWarp(sums[2 * pair + 1], weights, v[2], v[3]);
  }

  // Computes the scores of 64 positions. Each warp computes the scores of 16 positions. The warps
  // exchange these scores through buffer `half` (0 or 1) in shared memory. REQUIRES: successive
  // calls alternate between the two buffers.
  static INCIPIT_DEVICE void ScoreAll(const char* keys, int half,
                                      const uint32_t (&query)[Step::kDimSteps][4],
                                      float (&scores)[Step::kScoreTiles][4]) {
    float mine[2][4] = {};
    const int key_lane = Step::KeyLane(dev::Lane());
    const char* const block = keys + Step::BlockOffset(dev::Warp(), 0);
    INCIPIT_UNROLL
    for (int i = 0; i < Step::kDimSteps; ++i) {
      Step::AddScores(block, key_lane, 0, i, query[i], mine[0], mine[1]);
    }
    auto* const shared =
        reinterpret_cast<dev::Vec4*>(dev::SharedMemory() + kScoresAt + half * kScoreBytes);
    INCIPIT_UNROLL
    for (int i = 0; i < 2; ++i) {
      dev::StoreShared(shared + (2 * dev::Warp() + i) * 32 + dev::Lane(), PackFloats(mine[i]));
    }
    SyncAttending();
    INCIPIT_UNROLL
    for (int tile = 0; tile < Step::kScoreTiles; ++tile) {
      UnpackFloats(dev::LoadShared(shared + tile * 32 + dev::Lane()), scores[tile]);
    }
  }

  // Returns the first dimension for which this lane holds sums. All lanes of the warp call FirstDim
  // together.
  static INCIPIT_DEVICE int FirstDim() { return 16 * kPairs * dev::Warp() + 2 * (dev::Lane() & 3); }

  static INCIPIT_DEVICE void StoreResult(const Args& args, const DecodeItem& item, int kv_head,
                                         const RowStats& stats,
                                         const float (&sums)[2 * kPairs][4]) {
    const int first_dim = FirstDim();
    INCIPIT_UNROLL
    for (int i = 0; i < 2; ++i) {
      const int row = dev::Lane() / 4 + 8 * i;
      if (row >= item.num_rows) continue;
      const float inverse = dev::Divide(1, stats.weight[i]);
      dev::bf16* const to = args.out +
                            RowOffset(args, kHeadDim, item.token, item.first_row + row, kv_head) +
                            first_dim;
      INCIPIT_UNROLL
      for (int tile = 0; tile < 2 * kPairs; ++tile) {
        dev::StoreGlobal(reinterpret_cast<uint32_t*>(to + 8 * tile),
                         dev::PackBF16(Normalized(sums[tile][2 * i], inverse),
                                       Normalized(sums[tile][2 * i + 1], inverse)));
      }
    }
  }

  static INCIPIT_DEVICE int64_t PartialIndex(const Args& args, const DecodeItem& item, int kv_head,
                                             int split, int row) {
    return (int64_t{item.partial} + split * item.num_rows + row) * args.num_kv_heads + kv_head;
  }

  // Stores the sums over one range of positions in `args.partial_sums` and `args.partial_stats`.
  static INCIPIT_DEVICE void StorePartial(const Args& args, const DecodeItem& item, int kv_head,
                                          const RowStats& stats,
                                          const float (&sums)[2 * kPairs][4]) {
    const int warp = dev::Warp(), first_dim = FirstDim();
    INCIPIT_UNROLL
    for (int i = 0; i < 2; ++i) {
      const int row = dev::Lane() / 4 + 8 * i;
      if (row >= item.num_rows) continue;
      const int64_t index = PartialIndex(args, item, kv_head, item.split, row);
      float* const to = args.partial_sums + index * kHeadDim + first_dim;
      INCIPIT_UNROLL
      for (int tile = 0; tile < 2 * kPairs; ++tile) {
        StorePair(to + 8 * tile, sums[tile][2 * i], sums[tile][2 * i + 1]);
      }
      if (warp == 0 && (dev::Lane() & 3) == 0) {
        StorePair(args.partial_stats + index * 2, stats.maximum[i], stats.weight[i]);
      }
    }
  }

  static INCIPIT_DEVICE void StorePair(float* to, float a, float b) {
    const dev::Vec2 pair = {{dev::BitCast<uint32_t>(a), dev::BitCast<uint32_t>(b)}};
    dev::StoreGlobal(reinterpret_cast<dev::Vec2*>(to), pair);
  }

  // Counts the thread blocks that have finished their range of positions for the query vectors of
  // `item`. Returns true in the last of these thread blocks, which also resets the counter to zero.
  static INCIPIT_DEVICE bool IsLast(const Args& args, const DecodeItem& item, int kv_head) {
    auto* const last = reinterpret_cast<uint32_t*>(dev::SharedMemory() + kLastAt);
    SyncAttending();
    if (dev::Thread() == 0) {
      uint32_t* const arrivals =
          args.arrivals + static_cast<int64_t>(item.tile) * args.num_kv_heads + kv_head;
      const uint32_t before = dev::AtomicAddGlobal(arrivals, 1);
      const bool is_last = before + 1 == static_cast<uint32_t>(item.num_splits);
      if (is_last) dev::StoreGlobal(arrivals, 0U);
      dev::StoreShared(last, is_last ? 1U : 0U);
    }
    SyncAttending();
    return dev::LoadShared(last) != 0;
  }

  // Adds up the sums over all ranges of positions, in a fixed order, and stores the attention
  // results. Only the thread block that finishes its range last calls Combine.
  static INCIPIT_DEVICE void Combine(const Args& args, const DecodeItem& item, int kv_head) {
    constexpr int kChunks = kHeadDim / 4;
    for (int i = dev::Thread(); i < item.num_rows * kChunks; i += kAttending) {
      const int row = i / kChunks, dim = i % kChunks * 4;
      float maximum = -kInfinity, weight = 0, sums[4] = {};
      for (int turn = 0; turn < item.num_splits; ++turn) {
        const int split = Shape::SplitAt(turn, item.num_splits);
        const int64_t index = PartialIndex(args, item, kv_head, split, row);
        const dev::Vec2 stats =
            dev::LoadGlobal(reinterpret_cast<const dev::Vec2*>(args.partial_stats + index * 2));
        float added[4];
        LoadFloats(args.partial_sums + index * kHeadDim + dim, added);
        const float added_maximum = dev::BitCast<float>(stats.word[0]);
        const float both = dev::Max(maximum, added_maximum);
        const float keep = FactorTo(both, maximum), take = FactorTo(both, added_maximum);
        weight = MergeSums(weight, keep, dev::BitCast<float>(stats.word[1]), take);
        INCIPIT_UNROLL
        for (int j = 0; j < 4; ++j) sums[j] = MergeSums(sums[j], keep, added[j], take);
        maximum = both;
      }
      const float inverse = dev::Divide(1, weight);
      INCIPIT_UNROLL
      for (int j = 0; j < 4; ++j) sums[j] = Normalized(sums[j], inverse);
      StoreBF16s(
          args.out + RowOffset(args, kHeadDim, item.token, item.first_row + row, kv_head) + dim,
          sums);
    }
  }
};

}  // namespace incipit::cuda
