// Arguments of kernel Append and of the attention kernels. All pointers are device pointers.
#pragma once

#include <limits>

#include "kernels/cuda/device/attention/page_layout.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/step_plan.h"

namespace incipit::cuda {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kLog2E = 1.4426950408889634F;  // exp(x) = 2^(x * kLog2E)

// Arguments of kernel Append (append.h).
struct AppendArgs {
  const StepHeader* step = nullptr;
  const void* product = nullptr;  // f32 or bf16 [tokens, (num_heads + 2 * num_kv_heads) * head_dim]
  const float* bias = nullptr;    // one bias for each column of `product`, or null
  const float* query_norm = nullptr;  // f32 [head_dim], RMSNorm weight of query heads, or null
  const float* key_norm = nullptr;    // f32 [head_dim], RMSNorm weight of key heads, or null
  float norm_epsilon = 0;
  // f32 [max positions][head_dim / 2 cosines, then head_dim / 2 sines]
  const float* rope = nullptr;
  dev::bf16* query = nullptr;  // output: [tokens, num_heads * head_dim]
  dev::bf16* pool = nullptr;   // output: the layer's pages in the KV pool
  KvLayout layout;
  int32_t num_heads = 0;
};

// Arguments of the attention kernels (decode_attention.h, prefill_attention.h, simple_attention.h).
// One launch of DecodeAttention or PrefillAttention processes one AttentionList of the step's plan.
struct PagedAttentionArgs {
  const StepHeader* step = nullptr;
  int32_t list = 0;    // index of the AttentionList in StepHeader::lists
  int32_t window = 0;  // maximum number of positions that a token attends to; 0: unlimited
  const dev::bf16* query = nullptr;  // [tokens, num_heads * head_dim]
  const dev::bf16* pool = nullptr;   // the layer's pages in the KV pool
  dev::bf16* out = nullptr;          // [tokens, num_heads * head_dim]
  int32_t num_heads = 0, num_kv_heads = 0;
  float scale = 0;
  int32_t page_size = 0, head_dim = 0;  // read by kernel SimpleAttention only
  // Workspace of DecodeAttention. A partial row is the result of one attention row (token and query
  // head) over one split (range of positions). partial_sums: the weighted sums of values, f32
  // [max_partial_rows, num_kv_heads, head_dim]. partial_stats: maximum score and sum of weights,
  // f32 [max_partial_rows, num_kv_heads, 2]. arrivals: the counters of finished DecodeItems,
  // [max_decode_tiles, num_kv_heads], which are zero before the first step. Workspace of
  // PrefillAttention: `scratch`, PrefillAttention::kScratchBytes for each thread block.
  float* partial_sums = nullptr;
  float* partial_stats = nullptr;
  uint32_t* arrivals = nullptr;
  void* scratch = nullptr;
};

}  // namespace incipit::cuda
