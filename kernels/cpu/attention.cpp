#include "kernels/cpu/attention.h"

#include <algorithm>

#include "base/check.h"

namespace incipit {
namespace {

// Maximum number of rows (pairs of a token and a query head) that one thread computes together.
// With this limit, the sums of these rows fit into the first-level cache.
constexpr int32_t kTileRowsMax = 48;

// A tile is the attention of some tokens and heads of one sequence. Several threads share a tile if
// its work is more than 1 / kPartMax of the average work of a thread.
constexpr int64_t kPartMax = 4;

// Maximum number of rows of each KV head if one thread computes several KV heads together. A row is
// a pair of a token and a query head.
constexpr int32_t kGroupRowsMax = kTileRowsMax / simd::kAttendGroupsMax;
// Minimum size in bytes of a contiguous read that reaches full memory bandwidth. If the keys and
// values of one KV head in a cache block have fewer bytes, a thread computes several KV heads
// together.
constexpr int64_t kRunBytes = 16384;

constexpr auto kSplit = static_cast<int32_t>(simd::kSplit);

}  // namespace

void CpuAttention::Run(const AttentionArgs& args, const Step& step) {
  const KvPoolShape& shape = args.pool->shape();
  INCIPIT_CHECK(args.num_heads % shape.num_kv_heads == 0);
  CutIntoTiles(args, step);
  if (tiles_.empty()) return;
  CutIntoUnits(shape.head_dim);
  scratch_floats_ = (kernels_.attend_scratch_floats(kTileRowsMax, shape.head_dim) + 15) / 16 * 16;
  scratch_.Get(scratch_floats_ * threads_.count());

  int64_t work = 0;
  for (const Unit& unit : units_) work += unit.cost;
  const int dtype = static_cast<int>(shape.dtype);
  INCIPIT_CHECK(kernels_.attend[dtype] != nullptr);
  threads_.ForEach(std::ssize(units_), 2 * work * shape.head_dim, [&](int64_t i, int32_t thread) {
    const Unit& unit = units_[i];
    const Tile& tile = tiles_[unit.tile];
    simd::AttendArgs attend = ArgsOf(args, step, tile, thread);
    attend.split_begin = unit.split_begin;
    attend.split_end = unit.split_end;
    if (tile.states >= 0) {
      const int64_t size = tile.num_groups * kernels_.attend_state_floats(
                                                 tile.num_tokens * tile.num_heads, shape.head_dim);
      attend.states += (unit.split_begin - tile.split_begin) * size;
    }
    kernels_.attend[dtype](attend);
  });
  if (apart_.empty()) return;
  int64_t num_rows = 0;
  for (const int32_t tile : apart_) {
    num_rows += int64_t{tiles_[tile].num_tokens} * tiles_[tile].num_heads *
                tiles_[tile].num_groups * (tiles_[tile].split_end - tiles_[tile].split_begin);
  }
  threads_.ForEach(std::ssize(apart_), num_rows * shape.head_dim, [&](int64_t i, int32_t thread) {
    kernels_.attend_combine[dtype](ArgsOf(args, step, tiles_[apart_[i]], thread));
  });
}

void CpuAttention::CutIntoTiles(const AttentionArgs& args, const Step& step) {
  const KvPoolShape& shape = args.pool->shape();
  const int32_t group = args.num_heads / shape.num_kv_heads;
  const int64_t parts = std::max<int64_t>(1, CountParts(args, step)), threads = threads_.count();
  // Number of pieces into which the query heads of one KV head are divided, to keep all threads
  // busy. 1: not divided.
  const int64_t cuts = (threads + parts - 1) / parts;
  heads_per_tile_ = std::clamp(static_cast<int32_t>(group / cuts), 1, kTileRowsMax);
  // A thread computes several KV heads together if one KV head of a cache block has fewer than
  // kRunBytes bytes. At least two pieces of work must remain for each thread.
  const int64_t bytes = int64_t{2} * shape.block_size * shape.head_dim * ByteSize(shape.dtype);
  const int64_t wanted = std::min((kRunBytes + bytes - 1) / bytes, parts / (2 * threads));
  groups_per_tile_ = std::clamp(static_cast<int32_t>(wanted), 1, simd::kAttendGroupsMax);
  tiles_.clear();
  const auto num_sequences = static_cast<int32_t>(step.token_begin.size()) - 1;
  for (int32_t s = 0; s < num_sequences; ++s) AddTiles(args, step, s);
}

// Returns the number of pieces of work that threads can compute in parallel. A piece is one KV head
// and one split (a range of kSplit positions) of one sequence.
int64_t CpuAttention::CountParts(const AttentionArgs& args, const Step& step) const {
  int64_t parts = 0;
  for (size_t s = 0; s + 1 < step.token_begin.size(); ++s) {
    const int32_t end = step.token_begin[s + 1];
    if (step.token_begin[s] < end) parts += step.positions[end - 1] / kSplit + 1;
  }
  return parts * args.pool->shape().num_kv_heads;
}

void CpuAttention::AddTiles(const AttentionArgs& args, const Step& step, int32_t sequence) {
  const int32_t group = args.num_heads / args.pool->shape().num_kv_heads;
  const int32_t tokens_per_tile = std::max(1, kTileRowsMax / heads_per_tile_);
  const int32_t begin = step.token_begin[sequence], end = step.token_begin[sequence + 1];
  for (int32_t token = begin; token < end; token += tokens_per_tile) {
    const int32_t num_tokens = std::min(tokens_per_tile, end - token);
    const int32_t first = step.positions[token], last = first + num_tokens - 1;
    const int32_t oldest = args.window > 0 ? std::max(0, first + 1 - args.window) : 0;
    const bool has_few_rows = heads_per_tile_ == group && num_tokens * group <= kGroupRowsMax;
    for (int32_t head = 0; head < args.num_heads;) {
      // A tile belongs to the tokens of one sequence. A tile holds either some query heads of one
      // KV head, or all query heads of several KV heads.
      const int32_t num_heads = std::min(heads_per_tile_, group - head % group);
      const int32_t num_groups =
          has_few_rows ? std::min(groups_per_tile_, (args.num_heads - head) / group) : 1;
      tiles_.push_back({.sequence = sequence,
                        .token_begin = token,
                        .num_tokens = num_tokens,
                        .head_begin = head,
                        .num_heads = num_heads,
                        .num_groups = num_groups,
                        .split_begin = oldest / kSplit,
                        .split_end = last / kSplit + 1,
                        .cost = int64_t{last + 1 - oldest} * num_tokens * num_heads * num_groups});
      head += num_heads * num_groups;
    }
  }
}

void CpuAttention::CutIntoUnits(int64_t head_dim) {
  int64_t work = 0, floats = 0;
  for (const Tile& tile : tiles_) work += tile.cost;
  units_.clear();
  apart_.clear();
  for (size_t i = 0; i < tiles_.size(); ++i) {
    Tile& tile = tiles_[i];
    const auto index = static_cast<int32_t>(i);
    const int32_t num_splits = tile.split_end - tile.split_begin;
    if (num_splits == 1 || threads_.count() == 1 ||
        tile.cost * kPartMax * threads_.count() <= work) {
      units_.push_back({index, tile.split_begin, tile.split_end, tile.cost});
      continue;
    }
    apart_.push_back(index);
    tile.states = floats;
    floats += int64_t{num_splits} * tile.num_groups *
              kernels_.attend_state_floats(int64_t{tile.num_tokens} * tile.num_heads, head_dim);
    for (int32_t split = tile.split_begin; split < tile.split_end; ++split) {
      units_.push_back({index, split, split + 1, tile.cost / num_splits});
    }
  }
  states_.Get(floats);
  // Sorts the pieces of work by cost, the most expensive piece first. Threads fetch the pieces in
  // this order, so no thread starts an expensive piece at the end. The results do not depend on the
  // order.
  std::sort(units_.begin(), units_.end(),
            [](const Unit& a, const Unit& b) { return a.cost > b.cost; });
}

simd::AttendArgs CpuAttention::ArgsOf(const AttentionArgs& args, const Step& step, const Tile& tile,
                                      int32_t thread) {
  static_assert(sizeof(BlockId) == sizeof(int32_t));
  const auto& pool = static_cast<const CpuKvPool&>(*args.pool);
  const KvPoolShape& shape = pool.shape();
  const int32_t kv_head = tile.head_begin / (args.num_heads / shape.num_kv_heads);
  const int64_t first =
      tile.token_begin * args.query.cols + int64_t{tile.head_begin} * shape.head_dim;
  return {.kv = {.data = pool.Head(args.layer, kv_head),
                 .block_stride = pool.block_stride(),
                 .head_stride = pool.block_stride() / shape.num_kv_heads,
                 .blocks = reinterpret_cast<const int32_t*>(step.blocks.data() +
                                                            step.block_begin[tile.sequence]),
                 .block_size = shape.block_size,
                 .head_dim = shape.head_dim},
          .query = static_cast<const float*>(args.query.data) + first,
          .out = static_cast<float*>(args.out.data) + first,
          .token_stride = args.query.cols,
          .first_position = step.positions[tile.token_begin],
          .num_tokens = tile.num_tokens,
          .num_heads = tile.num_heads,
          .num_groups = tile.num_groups,
          .window = args.window,
          .scale = args.scale,
          .split_begin = tile.split_begin,
          .split_end = tile.split_end,
          .scratch = scratch_.Get(0) + thread * scratch_floats_,
          .states = tile.states >= 0 ? states_.Get(0) + tile.states : nullptr};
}

}  // namespace incipit
