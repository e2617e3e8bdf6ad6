// Attention of a whole step on the CPU. Cuts the step into tiles and, if a tile is expensive, the
// tile into splits (fixed runs of positions). Threads then compute tiles and splits in parallel.
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
  // Part of a step's attention: consecutive tokens of one sequence, with some heads of one KV head,
  // or with all heads of several KV heads.
  struct Tile {
    int32_t sequence = 0, token_begin = 0, num_tokens = 0;
    int32_t head_begin = 0, num_heads = 0, num_groups = 0;
    // Range [split_begin, split_end) of the splits that the tokens attend to.
    int32_t split_begin = 0, split_end = 0;
    int64_t cost = 0;
    // Index into states_ if threads compute the splits separately, otherwise -1.
    int64_t states = -1;
  };
  // The work that one thread takes at a time: a whole tile, or one split of a tile.
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
  // Indices of the tiles whose splits are computed separately and combined afterwards.
  std::vector<int32_t> apart_;
  Scratch<float> scratch_;  // one part per thread
  Scratch<float> states_;
  int64_t scratch_floats_ = 0;
  int32_t heads_per_tile_ = 0, groups_per_tile_ = 0;
};

}  // namespace incipit
