// Arguments of kernel Append and of the attention kernels. All pointers are device pointers.
#pragma once

#include <limits>

#include "kernels/cuda/device/attention/page_layout.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/step_plan.h"

namespace incipit::cuda {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kLog2E = 1.4426950408889634F;  // e^x = 2^(x * kLog2E)

// Arguments of kernel Append (append.h).
struct AppendArgs {
  const StepHeader* step = nullptr;
  // f32 or bf16 results of the product that computes queries, keys and values: [tokens, (num_heads
  // + 2 * num_kv_heads) * head_dim]
  const void* product = nullptr;
  const float* bias = nullptr;        // one bias for each column of `product`, or null
  const float* query_norm = nullptr;  // f32 [head_dim], RMSNorm weight of query heads, or null
  const float* key_norm = nullptr;    // f32 [head_dim], RMSNorm weight of key heads, or null
  float norm_epsilon = 0;
  // Rotary embedding table, f32. The row of each position has head_dim / 2 cosines, then head_dim /
  // 2 sines.
  const float* rope = nullptr;
  dev::bf16* query = nullptr;  // output: queries, [tokens, num_heads * head_dim]
  dev::bf16* pool = nullptr;   // output: keys and values, in one layer's pages
  KvLayout layout;
  int32_t num_heads = 0;
};

// Arguments of the attention kernels (decode_attention.h, prefill_attention.h, simple_attention.h).
// One launch computes the attention of one layer. An AttentionList in `step` holds the work items.
struct PagedAttentionArgs {
  const StepHeader* step = nullptr;
  int32_t list = 0;    // index in StepHeader::lists of the AttentionList that the kernel processes
  int32_t window = 0;  // maximum number of positions that a token attends to; 0: unlimited
  const dev::bf16* query = nullptr;  // queries: [tokens, num_heads * head_dim]
  const dev::bf16* pool = nullptr;   // keys and values: the layer's pages in the KV pool
  dev::bf16* out = nullptr;          // output: [tokens, num_heads * head_dim]
  int32_t num_heads = 0, num_kv_heads = 0;
  float scale = 0;
  int32_t page_size = 0, head_dim = 0;  // only kernel SimpleAttention reads these sizes
  // Workspace of DecodeAttention, f32 [max_partial_rows, num_kv_heads, head_dim]: sums of weighted
  // values. Each row is for one token, one query head and one range of positions.
  float* partial_sums = nullptr;
  // Workspace of DecodeAttention, f32 [max_partial_rows, num_kv_heads, 2]: maximum score and sum of
  // softmax weights. Each row is for one token, one query head and one range of positions.
  float* partial_stats = nullptr;
  // Workspace of DecodeAttention, [max_decode_tiles, num_kv_heads]. Each counter counts finished
  // work items that process the same tokens and query heads but different positions. REQUIRES: the
  // counters are zero before the first step.
  uint32_t* arrivals = nullptr;
  // Workspace of PrefillAttention: PrefillAttention::kScratchBytes for each thread block.
  void* scratch = nullptr;
};

}  // namespace incipit::cuda
