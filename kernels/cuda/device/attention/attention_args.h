// The arguments of the kernels around the KV pool. All arrays are on the device.
#pragma once

#include <limits>

#include "kernels/cuda/device/attention/page_layout.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/step_plan.h"

namespace incipit::cuda {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kLog2E = 1.4426950408889634F;  // exp(x) = 2^(x * kLog2E)

// Of append.h.
struct AppendArgs {
  const StepHeader* step = nullptr;
  const void* product = nullptr;  // f32 or bf16 [tokens, (num_heads + 2 * num_kv_heads) * head_dim]
  const float* bias = nullptr;    // [columns of product], or none
  const float* query_norm = nullptr;  // [head_dim], or none
  const float* key_norm = nullptr;    // [head_dim], or none
  float norm_epsilon = 0;
  const float* rope = nullptr;  // [max positions][cos: head_dim / 2 | sin: head_dim / 2]
  dev::bf16* query = nullptr;   // out: [tokens, num_heads * head_dim]
  dev::bf16* pool = nullptr;    // out: the layer's pages
  KvLayout layout;
  int32_t num_heads = 0;
};

// Of decode_attention.h, prefill_attention.h and simple_attention.h, which do one list of the step.
struct PagedAttentionArgs {
  const StepHeader* step = nullptr;
  int32_t list = 0;                  // of the header; the layer's window is that list's
  int32_t window = 0;                // 0: none
  const dev::bf16* query = nullptr;  // [tokens, num_heads * head_dim]
  const dev::bf16* pool = nullptr;   // the layer's pages
  dev::bf16* out = nullptr;          // [tokens, num_heads * head_dim]
  int32_t num_heads = 0, num_kv_heads = 0;
  float scale = 0;
  int32_t page_size = 0, head_dim = 0;  // for simple_attention.h; the others know them
  // Workspace. Decode: sums and (maximum, weight) of partial rows, f32 [max_partial_rows,
  // num_kv_heads, head_dim] and [max_partial_rows, num_kv_heads, 2], and uint32_t arrivals
  // [max_decode_tiles, num_kv_heads], zero before the first step. Prefill: `scratch`,
  // PrefillAttention::kScratchBytes for each block.
  float* partial_sums = nullptr;
  float* partial_stats = nullptr;
  uint32_t* arrivals = nullptr;
  void* scratch = nullptr;
};

}  // namespace incipit::cuda
