// Attention of a whole step on the CPU: cuts it into tiles and hands them to the threads.
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

  void Run(const AttentionArgs& args, const StepInputs& inputs);

 private:
  // Consecutive tokens of one sequence, and heads that share a KV head.
  struct Tile {
    int32_t sequence = 0, token_begin = 0, num_tokens = 0;
    int32_t head_begin = 0, num_heads = 0;
    int64_t cost = 0;
  };

  void CutIntoTiles(const AttentionArgs& args, const StepInputs& inputs);
  void AddTiles(const AttentionArgs& args, const StepInputs& inputs, int32_t sequence,
                int32_t heads_per_tile);
  void RunTile(const AttentionArgs& args, const StepInputs& inputs, const Tile& tile,
               int32_t thread);

  const simd::Kernels& kernels_;
  const Threads& threads_;
  std::vector<Tile> tiles_;
  Scratch<float> scratch_;  // a part for each thread
  int64_t scratch_floats_ = 0;
};

}  // namespace incipit
