// Kernel Append adds the bias to queries, keys and values, and applies RMSNorm and the rotary
// embedding to queries and keys. The kernel stores queries in an array, and keys and values in the
// memory of the KV cache.
#pragma once

#include "kernels/cuda/device/attention/attention_args.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/vectors.h"

namespace incipit::cuda {

// Eight elements of an attention head, held by one lane of a warp. `low`: four elements of the
// first half of the head. `high`: the four elements that are head_dim / 2 elements later.
struct HeadChunk {
  float low[4], high[4];
};

INCIPIT_ANYWHERE constexpr int LanesPerHead(int head_dim) {
  int lanes = 1;
  while (lanes * 8 < head_dim) lanes *= 2;
  return lanes;  // lanes <= 32, because head_dim <= 256
}

// Returns element `x` of an attention head after the rotary embedding. `other` is the element that
// the rotary embedding combines with `x`. REQUIRES: if `x` is in the first half of the head, the
// caller has negated `sine`.
INCIPIT_DEVICE float Rotated(float x, float other, float cosine, float sine) {
  return dev::Fma(x, cosine, dev::Multiply(other, sine));
}

// Returns the address of element `dim` of attention head `head` of a token. Heads are numbered in
// this order: query heads, key heads, value heads.
INCIPIT_DEVICE dev::bf16* ElementOf(const AppendArgs& args, int slot, int token, int head,
                                    int dim) {
  const KvLayout& layout = args.layout;
  if (head < args.num_heads) {
    return args.query + (int64_t{token} * args.num_heads + head) * layout.head_dim + dim;
  }
  const int key = head - args.num_heads, value = key - layout.num_kv_heads;
  // The type is unsigned, because a division of unsigned integers takes fewer instructions than a
  // division of signed integers.
  const unsigned page_size = layout.page_size;
  const int page = slot / page_size, row = slot % page_size;
  const int64_t tile = value < 0 ? layout.TileOffset(page, KvPart::kKey, key)
                                 : layout.TileOffset(page, KvPart::kValue, value);
  return args.pool + tile + OffsetInTile(layout.page_size, layout.head_dim, row, dim);
}

INCIPIT_DEVICE const dev::Vec4* RowsOf(const StepHeader* step) {
  return reinterpret_cast<const dev::Vec4*>(reinterpret_cast<const char*>(step) +
                                            dev::LoadConstant(&step->rows));
}
INCIPIT_DEVICE StepRow RowAt(const dev::Vec4* rows, int token) {
  return dev::BitCast<StepRow>(dev::LoadConstant(rows + token));
}

// Loads four consecutive f32 results of a matrix product.
INCIPIT_DEVICE void LoadProduct(const float* address, float (&x)[4]) { LoadFloats(address, x); }
INCIPIT_DEVICE void LoadProduct(const dev::bf16* address, float (&x)[4]) {
  const dev::Vec2 pairs = dev::LoadGlobal(reinterpret_cast<const dev::Vec2*>(address));
  INCIPIT_UNROLL
  for (int i = 0; i < 2; ++i) {
    x[2 * i] = dev::LowFloat(pairs.word[i]);
    x[2 * i + 1] = dev::HighFloat(pairs.word[i]);
  }
}

// Adds the bias to one head of queries, keys or values, applies RMSNorm and the rotary embedding,
// and stores the head. Stores nothing if `row.slot` (the token's index in the KV cache) is -1. All
// lanes of a warp call AppendHead together.
INCIPIT_DEVICE void AppendHead(const AppendArgs& args, const StepRow& row, int token, int head,
                               int chunk, HeadChunk x) {
  const int head_dim = args.layout.head_dim, half = head_dim / 2;
  const int low = 4 * chunk, high = half + low;
  const bool is_query = head < args.num_heads;
  const bool is_value = head >= args.num_heads + args.layout.num_kv_heads;
  const bool active = row.slot >= 0 && chunk * 8 < head_dim;
  if (args.bias != nullptr && active) {
    AddConstantFloats(args.bias + head * head_dim + low, x.low);
    AddConstantFloats(args.bias + head * head_dim + high, x.high);
  }
  if (args.query_norm != nullptr || args.key_norm != nullptr) {
    float squares = 0;
    INCIPIT_UNROLL
    for (int i = 0; i < 4; ++i) {
      squares = dev::Fma(x.low[i], x.low[i], squares);
      squares = dev::Fma(x.high[i], x.high[i], squares);
    }
    if (!active) squares = 0;
    for (int mask = LanesPerHead(head_dim) / 2; mask > 0; mask /= 2) {
      squares = dev::Add(squares, dev::ShuffleXorWarp(squares, mask));
    }
    const float* weight = is_query ? args.query_norm : is_value ? nullptr : args.key_norm;
    if (weight != nullptr && active) {
      const float mean = dev::Divide(squares, static_cast<float>(head_dim));
      const float factor = dev::Divide(1, dev::SquareRoot(dev::Add(mean, args.norm_epsilon)));
      float low_weight[4], high_weight[4];
      LoadConstantFloats(weight + low, low_weight);
      LoadConstantFloats(weight + high, high_weight);
      INCIPIT_UNROLL
      for (int i = 0; i < 4; ++i) {
        x.low[i] = dev::Multiply(dev::Multiply(x.low[i], factor), low_weight[i]);
        x.high[i] = dev::Multiply(dev::Multiply(x.high[i], factor), high_weight[i]);
      }
    }
  }
  if (!active) return;
  if (!is_value) {
    const float* angles = args.rope + int64_t{row.position} * head_dim;
    float cosine[4], sine[4];
    LoadConstantFloats(angles + low, cosine);
    LoadConstantFloats(angles + high, sine);
    INCIPIT_UNROLL
    for (int i = 0; i < 4; ++i) {
      const float a = x.low[i], b = x.high[i];
      x.low[i] = Rotated(a, b, cosine[i], -sine[i]);
      x.high[i] = Rotated(b, a, cosine[i], sine[i]);
    }
  }
  StoreBF16s(ElementOf(args, row.slot, token, head, low), x.low);
  StoreBF16s(ElementOf(args, row.slot, token, head, high), x.high);
}

// Kernel Append: adds the bias to queries, keys and values, applies RMSNorm and the rotary
// embedding, and stores the results. T: number type of the input, float or dev::bf16.
template <class T>
struct Append {
  static constexpr int kThreads = 256, kSharedBytes = 0, kBlocksPerSm = 4;
  using Args = AppendArgs;

  // Memory traffic: reads each query, key and value once (as T) and writes it once (as bf16). Also
  // reads a row of the rotary embedding table for each query head and key head.
  static INCIPIT_DEVICE void Run(const Args& args) {
    const StepHeader* step = args.step;
    const int num_tokens = dev::LoadConstant(&step->num_tokens);
    const dev::Vec4* const rows = RowsOf(step);
    const int head_dim = args.layout.head_dim, lanes = LanesPerHead(head_dim);
    const int num_heads = args.num_heads + 2 * args.layout.num_kv_heads;
    const int heads_per_warp = 32 / lanes;
    const int num_warps = dev::NumBlocks() * (kThreads / 32);
    const int chunk = dev::Lane() & (lanes - 1);
    const int64_t num_units = int64_t{num_tokens} * num_heads;
    int64_t unit = int64_t{dev::Block() * (kThreads / 32) + dev::Warp()} * heads_per_warp;
    dev::WaitForEarlierKernels();
    dev::LetNextKernelStart();
    for (; unit < num_units; unit += int64_t{num_warps} * heads_per_warp) {
      const int64_t mine = unit + dev::Lane() / lanes;
      StepRow row;
      HeadChunk x = {};
      int token = 0, head = 0;
      if (mine < num_units) {
        token = static_cast<int>(mine / num_heads);
        head = static_cast<int>(mine % num_heads);
        row = RowAt(rows, token);
        if (chunk * 8 < head_dim) {
          const T* product = static_cast<const T*>(args.product) + mine * head_dim + 4 * chunk;
          LoadProduct(product, x.low);
          LoadProduct(product + head_dim / 2, x.high);
        }
      }
      AppendHead(args, row, token, head, chunk, x);
    }
  }
};

}  // namespace incipit::cuda
