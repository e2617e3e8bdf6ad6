// Kernel SimpleAttention: causal attention for head sizes and page sizes (tokens per page of the KV
// cache) that kernels DecodeAttention and PrefillAttention do not support. head_dim is a multiple
// of 8, at most kMaxHeadDim.
#pragma once

#include "kernels/cuda/device/attention/attention_args.h"
#include "kernels/cuda/device/device.h"

namespace incipit::cuda {

// A warp computes one query head of one token, 32 positions at a time. Each lane first computes the
// score of one position. Each lane then computes eight dimensions of the weighted sum of the values
// (V) of 32 positions.
struct SimpleAttention {
  static constexpr int kWarps = 8;
  static constexpr int kThreads = 32 * kWarps, kBlocksPerSm = 2;
  static constexpr int kSharedBytes = kWarps * kMaxHeadDim * int{sizeof(float)};
  using Args = PagedAttentionArgs;

  // Memory traffic: for each query head of each token, reads the keys and values of all positions
  // to which the token attends.
  static INCIPIT_DEVICE void Run(const Args& args) {
    const char* step = reinterpret_cast<const char*>(args.step);
    const int num_tokens = dev::LoadConstant(&args.step->num_tokens);
    const auto* rows =
        reinterpret_cast<const dev::Vec4*>(step + dev::LoadConstant(&args.step->rows));
    const auto* tables =
        reinterpret_cast<const int32_t*>(step + dev::LoadConstant(&args.step->page_tables));
    dev::WaitForEarlierKernels();
    dev::LetNextKernelStart();
    const int num_warps = dev::NumBlocks() * kWarps;
    const int64_t num_units = int64_t{num_tokens} * args.num_heads;
    for (int64_t unit = dev::Block() * kWarps + dev::Warp(); unit < num_units; unit += num_warps) {
      const int token = static_cast<int>(unit / args.num_heads);
      const StepRow row = dev::BitCast<StepRow>(dev::LoadConstant(rows + token));
      const int head = static_cast<int>(unit % args.num_heads);
      DoHead(args, row.position, tables + row.table, head, unit * args.head_dim);
    }
  }

 private:
  struct Sums {
    float values[8] = {};
    float maximum = 0, weight = 0;
    bool empty = true;
  };

  // Computes the attention of one query head of one token. `offset`: index of the first element of
  // the head in `args.query` and `args.out`.
  static INCIPIT_DEVICE void DoHead(const Args& args, int position, const int32_t* pages, int head,
                                    int64_t offset) {
    float* query = reinterpret_cast<float*>(dev::SharedMemory()) + dev::Warp() * kMaxHeadDim;
    const int lane = dev::Lane();
    const bool has_dims = lane * 8 < args.head_dim;
    if (has_dims) {
      float x[8];
      Unpack(dev::LoadGlobal(reinterpret_cast<const dev::Vec4*>(args.query + offset + lane * 8)),
             x);
      INCIPIT_UNROLL
      for (int i = 0; i < 8; ++i) dev::StoreShared(query + lane * 8 + i, x[i]);
    }
    dev::SyncWarp();
    const KvLayout layout = {args.page_size, args.num_kv_heads, args.head_dim};
    const int kv_head = head / (args.num_heads / args.num_kv_heads);
    const int lowest = position + 1 - Span(position, args.window);
    Sums sums;
    for (int run = lowest / 32 * 32; run <= position; run += 32) {
      const int begin = run < lowest ? lowest : run;
      const int end = run + 32 < position + 1 ? run + 32 : position + 1;
      const int mine = run + lane;
      float score = -kInfinity;
      if (mine >= begin && mine < end) {
        score = dev::Multiply(Score(args, layout, pages, kv_head, mine, query),
                              dev::Multiply(args.scale, kLog2E));
      }
      const float weight = Rescale(score, mine >= begin && mine < end, sums);
      for (int i = begin; i < end; ++i) {
        const float p = dev::ShuffleWarp(weight, i - run);
        if (!has_dims) continue;
        float v[8];
        Unpack(LoadChunk(args, layout, pages, KvPart::kValue, kv_head, i, lane * 8), v);
        INCIPIT_UNROLL
        for (int d = 0; d < 8; ++d) sums.values[d] = dev::Fma(p, v[d], sums.values[d]);
      }
    }
    if (has_dims) {
      const float factor = dev::Divide(1, sums.weight);
      dev::Vec4 packed;
      INCIPIT_UNROLL
      for (int i = 0; i < 4; ++i) {
        packed.word[i] = dev::PackBF16(dev::Multiply(sums.values[2 * i], factor),
                                       dev::Multiply(sums.values[2 * i + 1], factor));
      }
      dev::StoreGlobal(reinterpret_cast<dev::Vec4*>(args.out + offset + lane * 8), packed);
    }
    dev::SyncWarp();  // waits until all lanes have read the query of this head
  }

  static INCIPIT_DEVICE void Unpack(const dev::Vec4& from, float (&to)[8]) {
    INCIPIT_UNROLL
    for (int i = 0; i < 4; ++i) {
      to[2 * i] = dev::LowFloat(from.word[i]);
      to[2 * i + 1] = dev::HighFloat(from.word[i]);
    }
  }

  static INCIPIT_DEVICE dev::Vec4 LoadChunk(const Args& args, const KvLayout& layout,
                                            const int32_t* pages, KvPart part, int kv_head,
                                            int position, int dim) {
    const int page = dev::LoadConstant(pages + position / layout.page_size);
    const int64_t offset = layout.Offset(page, part, kv_head, position % layout.page_size, dim);
    return dev::LoadGlobal(reinterpret_cast<const dev::Vec4*>(args.pool + offset));
  }

  // Returns the dot product of `query` and the key of `position`, summed in ascending order of
  // dimensions.
  static INCIPIT_DEVICE float Score(const Args& args, const KvLayout& layout, const int32_t* pages,
                                    int kv_head, int position, const float* query) {
    float sum = 0;
    for (int dim = 0; dim < args.head_dim; dim += 8) {
      float k[8];
      Unpack(LoadChunk(args, layout, pages, KvPart::kKey, kv_head, position, dim), k);
      INCIPIT_UNROLL
      for (int i = 0; i < 8; ++i) sum = dev::Fma(dev::LoadShared(query + dim + i), k[i], sum);
    }
    return sum;
  }

  // Adds the softmax weights of 32 positions (one for each lane) to sums.weight. Before the
  // addition, scales sums.weight and sums.values to the new maximum score. Returns the softmax
  // weight of this lane's position. `score`: score of this lane's position, multiplied by log2(e).
  // `seen`: true if the query attends to the position.
  static INCIPIT_DEVICE float Rescale(float score, bool seen, Sums& sums) {
    float maximum = score;
    for (int mask = 16; mask > 0; mask /= 2) {
      maximum = dev::Max(maximum, dev::ShuffleXorWarp(maximum, mask));
    }
    if (!sums.empty) maximum = dev::Max(maximum, sums.maximum);
    const float base = maximum == -kInfinity ? 0 : maximum;
    const float keep = sums.empty ? 0 : dev::Exp2(dev::Add(sums.maximum, -base));
    const float weight = seen ? dev::Exp2(dev::Add(score, -base)) : 0;
    float total = weight;
    for (int mask = 16; mask > 0; mask /= 2) {
      total = dev::Add(total, dev::ShuffleXorWarp(total, mask));
    }
    sums.weight = dev::Fma(sums.weight, keep, total);
    INCIPIT_UNROLL
    for (int i = 0; i < 8; ++i) sums.values[i] = dev::Multiply(sums.values[i], keep);
    sums.maximum = maximum;
    sums.empty = false;
    return weight;
  }
};

}  // namespace incipit::cuda
