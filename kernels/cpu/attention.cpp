#include "kernels/cpu/attention.h"

#include <algorithm>

#include "base/check.h"

namespace incipit {
namespace {

// Rows (tokens x heads) that share what a tile reads of the cache. More reuse it more often, and
// fewer keep their sums in the first-level cache.
constexpr int32_t kTileRowsMax = 48;

}  // namespace

void CpuAttention::Run(const AttentionArgs& args, const StepInputs& inputs) {
  const KvPoolShape& shape = args.pool->shape();
  INCIPIT_CHECK(args.num_heads % shape.num_kv_heads == 0);
  CutIntoTiles(args, inputs);
  if (tiles_.empty()) return;
  scratch_floats_ = (kernels_.attend_scratch_floats(kTileRowsMax, shape.head_dim) + 15) / 16 * 16;
  scratch_.Get(scratch_floats_ * threads_.count());

  int64_t work = 0;
  for (const Tile& tile : tiles_) work += tile.cost;
  // The longest first, so that no thread is left with a long one at the end. Which thread takes a
  // tile, and with what else, changes nothing in the result.
  std::sort(tiles_.begin(), tiles_.end(),
            [](const Tile& a, const Tile& b) { return a.cost > b.cost; });
  threads_.ForEach(std::ssize(tiles_), 2 * work * shape.head_dim,
                   [&](int64_t i, int32_t thread) { RunTile(args, inputs, tiles_[i], thread); });
}

void CpuAttention::CutIntoTiles(const AttentionArgs& args, const StepInputs& inputs) {
  const int32_t num_kv_heads = args.pool->shape().num_kv_heads;
  const int32_t group = args.num_heads / num_kv_heads;
  const auto num_sequences = static_cast<int32_t>(inputs.token_begin.size()) - 1;
  // Heads of a group share each load of keys and values, unless threads would be left idle.
  const int32_t at_least = (threads_.count() + num_kv_heads - 1) / num_kv_heads;
  const int32_t parts = std::max(1, at_least / std::max(1, num_sequences));
  const int32_t heads_per_tile = std::clamp(group / parts, 1, kTileRowsMax);
  tiles_.clear();
  for (int32_t s = 0; s < num_sequences; ++s) AddTiles(args, inputs, s, heads_per_tile);
}

void CpuAttention::AddTiles(const AttentionArgs& args, const StepInputs& inputs, int32_t sequence,
                            int32_t heads_per_tile) {
  const int32_t group = args.num_heads / args.pool->shape().num_kv_heads;
  const int32_t tokens_per_tile = std::max(1, kTileRowsMax / heads_per_tile);
  const int32_t begin = inputs.token_begin[sequence], end = inputs.token_begin[sequence + 1];
  for (int32_t token = begin; token < end; token += tokens_per_tile) {
    const int32_t num_tokens = std::min(tokens_per_tile, end - token);
    const int32_t last = inputs.positions[token + num_tokens - 1];
    const int32_t seen = args.window > 0 ? std::min(last + 1, args.window + num_tokens) : last + 1;
    for (int32_t head = 0; head < args.num_heads;) {
      // Never across two KV heads.
      const int32_t left_in_group = group - head % group;
      const int32_t num_heads = std::min(heads_per_tile, left_in_group);
      tiles_.push_back({.sequence = sequence,
                        .token_begin = token,
                        .num_tokens = num_tokens,
                        .head_begin = head,
                        .num_heads = num_heads,
                        .cost = int64_t{seen} * num_tokens * num_heads});
      head += num_heads;
    }
  }
}

void CpuAttention::RunTile(const AttentionArgs& args, const StepInputs& inputs, const Tile& tile,
                           int32_t thread) {
  static_assert(sizeof(BlockId) == sizeof(int32_t));
  const auto& pool = static_cast<const CpuKvPool&>(*args.pool);
  const KvPoolShape& shape = pool.shape();
  const int32_t kv_head = tile.head_begin / (args.num_heads / shape.num_kv_heads);
  const int64_t first =
      tile.token_begin * args.query.cols + int64_t{tile.head_begin} * shape.head_dim;
  const simd::AttendArgs attend = {
      .kv = {.data = pool.Head(args.layer, kv_head),
             .block_stride = pool.block_stride(),
             .blocks = reinterpret_cast<const int32_t*>(inputs.blocks.data() +
                                                        inputs.block_begin[tile.sequence]),
             .block_size = shape.block_size,
             .head_dim = shape.head_dim},
      .query = static_cast<const float*>(args.query.data) + first,
      .out = static_cast<float*>(args.out.data) + first,
      .token_stride = args.query.cols,
      .first_position = inputs.positions[tile.token_begin],
      .num_tokens = tile.num_tokens,
      .num_heads = tile.num_heads,
      .window = args.window,
      .scale = args.scale,
      .scratch = scratch_.Get(0) + thread * scratch_floats_};
  kernels_.attend[static_cast<int>(shape.dtype)](attend);
}

}  // namespace incipit
