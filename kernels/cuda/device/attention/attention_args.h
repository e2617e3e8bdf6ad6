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
  const float* bias = nullptr;    // [columns of product], or null
  const float* query_norm = nullptr;  // [head_dim], or null
  const float* key_norm = nullptr;    // [head_dim], or null
  float norm_epsilon = 0;
  const float* rope = nullptr;  // [max positions][cos: head_dim / 2 | sin: head_dim / 2]
  dev::bf16* query = nullptr;   // output: [tokens, num_heads * head_dim]
  dev::bf16* pool = nullptr;    // output: the layer's pages
  KvLayout layout;
  int32_t num_heads = 0;
};

// Arguments of the attention kernels (decode_attention.h, prefill_attention.h, simple_attention.h).
// One launch of DecodeAttention or PrefillAttention processes one AttentionList of the step.
struct PagedAttentionArgs {
  const StepHeader* step = nullptr;
  int32_t list = 0;                  // index into StepHeader::lists
  int32_t window = 0;                // 0: no window
  const dev::bf16* query = nullptr;  // [tokens, num_heads * head_dim]
  const dev::bf16* pool = nullptr;   // the layer's pages
  dev::bf16* out = nullptr;          // [tokens, num_heads * head_dim]
  int32_t num_heads = 0, num_kv_heads = 0;
  float scale = 0;
  int32_t page_size = 0, head_dim = 0;  // read by simple_attention.h only
  // Workspace of DecodeAttention: the sums of partial rows, f32 [max_partial_rows, num_kv_heads,
  // head_dim]; the maximum and weight of partial rows, f32 [max_partial_rows, num_kv_heads, 2]; the
  // counters of finished items, [max_decode_tiles, num_kv_heads], which are zero before the first
  // step. Workspace of PrefillAttention: `scratch`, PrefillAttention::kScratchBytes for each thread
  // block.
  float* partial_sums = nullptr;
  float* partial_stats = nullptr;
  uint32_t* arrivals = nullptr;
  void* scratch = nullptr;
};

}  // namespace incipit::cuda
