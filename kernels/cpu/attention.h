// Attention of a whole step on the CPU: cuts it into tiles, long ones into splits, and hands them
// to the threads.
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
  // Consecutive tokens of one sequence, and heads of one KV head, or all those of several.
  struct Tile {
    int32_t sequence = 0, token_begin = 0, num_tokens = 0;
    int32_t head_begin = 0, num_heads = 0, num_groups = 0;
    int32_t split_begin = 0, split_end = 0;  // that its tokens see
    int64_t cost = 0;
    int64_t states = -1;  // where in states_, if its splits are handed out one by one
  };
  // What one thread does at a time: a tile, or one split of it.
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
  std::vector<int32_t> apart_;  // tiles with states, to be combined
  Scratch<float> scratch_;      // a part for each thread
  Scratch<float> states_;
  int64_t scratch_floats_ = 0;
  int32_t heads_per_tile_ = 0, groups_per_tile_ = 0;
};

}  // namespace incipit
