// Arguments of kernel Append and of the attention kernels. All pointers point to GPU memory.
#pragma once

#include <limits>

#include "kernels/cuda/device/attention/page_layout.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/step_plan.h"

namespace incipit::cuda {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
// log2(e). The attention kernels compute e^x as 2^(x * log2(e)).
inline constexpr float kLog2E = 1.4426950408889634F;

// Arguments of kernel Append (append.h).
struct AppendArgs {
  const StepHeader* step = nullptr;
  // Queries, keys and values before the bias is added, as f32 or bf16: [tokens, (num_heads + 2 *
  // num_kv_heads) * head_dim]
  const void* product = nullptr;
  const float* bias = nullptr;  // bias of each column of `product`, f32; null: no bias
  // RMSNorm weight that all query heads share, f32 [head_dim]; null: no RMSNorm
  const float* query_norm = nullptr;
  // RMSNorm weight that all key heads share, f32 [head_dim]; null: no RMSNorm
  const float* key_norm = nullptr;
  float norm_epsilon = 0;
  // Rotary embedding table, f32 [positions, head_dim]: for each position, head_dim / 2 cosines,
  // then head_dim / 2 sines
  const float* rope = nullptr;
  dev::bf16* query = nullptr;  // output: queries, [tokens, num_heads * head_dim]
  dev::bf16* pool = nullptr;   // output: keys and values of one layer (page_layout.h)
  KvLayout layout;
  int32_t num_heads = 0;
};

// Arguments of the attention kernels (decode_attention.h, prefill_attention.h, simple_attention.h),
// which compute the attention of one layer.
struct PagedAttentionArgs {
  const StepHeader* step = nullptr;
  int32_t list = 0;    // index in `step->lists` of the list of work items for this kernel
  int32_t window = 0;  // size of the sliding window in positions; 0: no window
  const dev::bf16* query = nullptr;  // queries: [tokens, num_heads * head_dim]
  const dev::bf16* pool = nullptr;   // keys and values of one layer (page_layout.h)
  dev::bf16* out = nullptr;          // output: attention results, [tokens, num_heads * head_dim]
  int32_t num_heads = 0, num_kv_heads = 0;
  float scale = 0;
  // page_size: number of tokens per page. head_dim: number of elements per attention head. Only
  // kernel SimpleAttention uses these fields.
  int32_t page_size = 0, head_dim = 0;
  // Workspace of kernel DecodeAttention, f32 [max_partial_rows, num_kv_heads, head_dim]: sums of
  // values (V) multiplied by softmax weights. Each sum belongs to one query vector and one range of
  // positions.
  float* partial_sums = nullptr;
  // Workspace of kernel DecodeAttention, f32 [max_partial_rows, num_kv_heads, 2]: maximum score and
  // sum of softmax weights. Each pair belongs to one query vector and one range of positions.
  float* partial_stats = nullptr;
  // Workspace of kernel DecodeAttention, [max_decode_tiles, num_kv_heads]: counters of finished
  // work items. REQUIRES: all counters are zero before the first launch.
  uint32_t* arrivals = nullptr;
  // Workspace of kernel PrefillAttention: PrefillAttention::kScratchBytes bytes for each thread
  // block
  void* scratch = nullptr;
};

}  // namespace incipit::cuda
