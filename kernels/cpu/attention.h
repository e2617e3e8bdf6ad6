// Computes the attention of all sequences of a step on the CPU. A thread computes a tile: a group
// of tokens and heads of one sequence. Several threads share an expensive tile: each thread
// computes ranges of 1024 (kSplit) positions.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/kv_pool.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/threads.h"

namespace incipit {

class CpuAttention {
 public:
  CpuAttention(const simd::Kernels& kernels, const Threads& threads)
      : kernels_(kernels), threads_(threads) {}

  void Run(const AttentionArgs& args, const Step& step);

 private:
  // A part of the attention of a step: consecutive tokens of one sequence, and several query heads.
  // The query heads are some heads of one KV head, or all heads of several KV heads.
  struct Tile {
    int32_t sequence = 0, token_begin = 0, num_tokens = 0;
    int32_t head_begin = 0, num_heads = 0, num_groups = 0;
    // The tokens attend only to positions in the splits [split_begin, split_end). Split i is the
    // range of positions [i * kSplit, (i + 1) * kSplit).
    int32_t split_begin = 0, split_end = 0;
    int64_t cost = 0;
    // If several threads compute this tile: index in `states_` where the intermediate sums of the
    // tile begin. Otherwise -1.
    int64_t states = -1;
  };
  // Work for one thread: the tokens of a tile attend to the positions in the splits [split_begin,
  // split_end). Split i is the range of positions [i * kSplit, (i + 1) * kSplit).
  struct Unit {
    int32_t tile = 0, split_begin = 0, split_end = 0;
    int64_t cost = 0;
  };

  void CutIntoTiles(const AttentionArgs& args, const Step& step);
  int64_t CountParts(const AttentionArgs& args, const Step& step) const;
  void AddTiles(const AttentionArgs& args, const Step& step, int32_t sequence);
  void CutIntoUnits(int64_t head_dim);
  simd::AttendArgs ArgsOf(const AttentionArgs& args, const Step& step, const Tile& tile,
                          int32_t thread);

  const simd::Kernels& kernels_;
  const Threads& threads_;
  std::vector<Tile> tiles_;
  std::vector<Unit> units_;
  // Indices in `tiles_` of the tiles that several threads share. Each thread computes the sums over
  // some ranges of kSplit positions of such a tile. At the end, the sums over all ranges are
  // combined.
  std::vector<int32_t> apart_;
  Scratch<float> scratch_;  // working memory: scratch_floats_ floats for each thread
  Scratch<float> states_;
  int64_t scratch_floats_ = 0;
  int32_t heads_per_tile_ = 0, groups_per_tile_ = 0;
};

}  // namespace incipit
