// Attention with tensor instructions: a warp processes 16 query vectors (one for each query head of
// a token) and 64 positions at a time. Kernels DecodeAttention and PrefillAttention use the same
// functions in the same order, so that their results have the same bits.
#pragma once

#include "kernels/cuda/device/attention/attention_args.h"
#include "kernels/cuda/device/device.h"

namespace incipit::cuda {

// Sizes and small functions of an attention kernel. Tests replace single functions by wrong
// versions, to check that the tests detect such errors.
template <int kDims, int kPage>
struct AttentionShape {
  static constexpr int kHeadDim = kDims, kPageSize = kPage;
  // True if the kernel sets the values (V) of unused positions in shared memory to zero.
  // Uninitialised memory can contain NaN, and 0 * NaN is NaN.
  static constexpr bool kClearsValues = true;

  static INCIPIT_DEVICE bool Sees(int lowest, int highest, int position) {
    return position >= lowest && position <= highest;
  }
  static INCIPIT_DEVICE int PageOf(int position) { return position / kPageSize; }
  // A loop adds up the attention sums of `num_splits` ranges of positions. Returns the index of the
  // range that iteration `turn` of the loop adds.
  static INCIPIT_DEVICE int SplitAt(int turn, int num_splits) {
    static_cast<void>(num_splits);
    return turn;
  }
};

// Softmax statistics of the two query vectors of a lane. `maximum`: highest score, multiplied by
// log2(e). `weight`: sum of softmax weights.
struct RowStats {
  float maximum[2] = {-kInfinity, -kInfinity}, weight[2] = {0, 0};
};

// Returns the index in `args.query` of the first element of query vector `row`. Row 0 is the first
// query head of `kv_head` for token `first_token`. Rows are sorted by token, then by query head.
INCIPIT_DEVICE int64_t RowOffset(const PagedAttentionArgs& args, int head_dim, int first_token,
                                 int row, int kv_head) {
  const int group = dev::Fresh(args.num_heads) / args.num_kv_heads;
  const int token = first_token + row / group, head = kv_head * group + row % group;
  return (int64_t{token} * args.num_heads + head) * head_dim;
}

// Positions to which the two query vectors of a lane attend: [lowest[i], highest[i] + 1) for vector
// i.
struct RowView {
  int lowest[2], highest[2];
  // positions [begin, end) to which all query vectors of the warp attend
  int common_begin, common_end;
};

// Returns the positions to which the two query vectors of this lane attend. The warp holds the
// query vectors [first_row, first_row + num_rows). Query vector 0 belongs to the token at
// `position`. REQUIRES: num_rows is at least 1.
INCIPIT_DEVICE RowView ViewOf(const PagedAttentionArgs& args, int position, int first_row,
                              int num_rows) {
  const int group = dev::Fresh(args.num_heads) / args.num_kv_heads;
  const int first = position + first_row / group;
  const int last = position + (first_row + num_rows - 1) / group;
  RowView view;
  view.common_begin = last + 1 - Span(last, args.window);
  view.common_end = first + 1;
  INCIPIT_UNROLL
  for (int i = 0; i < 2; ++i) {
    const int row = dev::Lane() / 4 + 8 * i;
    view.highest[i] = row < num_rows ? position + (first_row + row) / group : first;
    view.lowest[i] = view.highest[i] + 1 - Span(view.highest[i], args.window);
  }
  return view;
}

// Returns 2^(from - to), or 0 if both are -infinity. REQUIRES: to >= from.
INCIPIT_DEVICE float FactorTo(float to, float from) {
  return dev::Exp2(dev::Add(from, to == -kInfinity ? 0 : -to));
}

// Returns the sum of two scaled sums: sum * keep + added * take.
INCIPIT_DEVICE float MergeSums(float sum, float keep, float added, float take) {
  return dev::Fma(sum, keep, dev::Multiply(added, take));
}

// Returns sum * inverse_weight, but +0 instead of -0.
INCIPIT_DEVICE float Normalized(float sum, float inverse_weight) {
  return dev::Fma(sum, inverse_weight, 0);
}

// Attention of 16 query vectors to 64 positions, computed by one warp. Lane l holds the query
// vectors with indices (l / 4) and (l / 4 + 8).
template <class Shape>
struct AttentionStep {
  static constexpr int kHeadDim = Shape::kHeadDim, kPageSize = Shape::kPageSize;
  static constexpr int kPagesPerStep = kStepPositions / kPageSize;
  // Size in bytes of the keys (or the values) of one page (kPageSize tokens) for one kv head
  static constexpr int kTileBytes = kPageSize * kHeadDim * 2;
  // Size in bytes of the keys (or the values) of 64 positions for one kv head
  static constexpr int kStepBytes = kStepPositions * kHeadDim * 2;
  static constexpr int kDimSteps = kHeadDim / 16, kScoreTiles = kStepPositions / 8;
  static_assert(kHeadDim == 64 || kHeadDim == 128);
  static_assert(kPageSize == 16 || kPageSize == 32 || kPageSize == 64);

  // Returns the byte offset of position 16 * block and dimension 64 * (pair / 4) in a buffer in
  // shared memory. The buffer holds the keys (or the values) of 64 positions.
  static INCIPIT_ANYWHERE constexpr int BlockOffset(int block, int pair) {
    const int row = 16 * block;
    return row / kPageSize * kTileBytes + pair / 4 * kPageSize * 128 + row % kPageSize * 128;
  }
  // Lane `lane` loads a part of the keys of 16 positions with LoadMatricesWarp. Returns the byte
  // offset of this part for the dimensions [0, 16).
  static INCIPIT_DEVICE int KeyLane(int lane) {
    const int row = (lane >> 4) * 8 + (lane & 7), chunk = (lane >> 3) & 1;
    return row * 128 + (chunk ^ (lane & 7)) * 16;
  }
  static INCIPIT_DEVICE int ValueLane(int lane) {
    const int row = ((lane >> 3) & 1) * 8 + (lane & 7), chunk = lane >> 4;
    return row * 128 + (chunk ^ (lane & 7)) * 16;
  }

  // Adds products of query and key to the scores of the positions [16 * block, 16 * block + 16).
  // Uses only the dimensions [16 * dims, 16 * dims + 16) of queries and keys.
  static INCIPIT_DEVICE void AddScores(const char* keys, int key_lane, int block, int dims,
                                       const uint32_t (&query)[4], float (&low)[4],
                                       float (&high)[4]) {
    uint32_t k[4];
    dev::LoadMatricesWarp(k, keys + BlockOffset(block, dims) + (key_lane ^ (dims % 4 * 32)));
    dev::MultiplyAddWarp(low, query, k[0], k[1]);
    dev::MultiplyAddWarp(high, query, k[2], k[3]);
  }

  // Adds values (V), multiplied by softmax weights, to sums. Uses the positions [16 * block, 16 *
  // block + 16) and the dimensions [16 * pair, 16 * pair + 16).
  static INCIPIT_DEVICE void AddValues(const char* values, int value_lane, int block, int pair,
                                       const uint32_t (&weights)[4], float (&low)[4],
                                       float (&high)[4]) {
    uint32_t v[4];
    dev::LoadMatricesTransposedWarp(
        v, values + BlockOffset(block, pair) + (value_lane ^ (pair % 4 * 32)));
    dev::MultiplyAddWarp(low, weights, v[0], v[1]);
    dev::MultiplyAddWarp(high, weights, v[2], v[3]);
  }

  // Sets a score to -infinity if the query vector does not attend to the position of the score.
  static INCIPIT_DEVICE void Mask(float (&scores)[kScoreTiles][4], int first_position,
                                  const RowView& view) {
    const int first = first_position + 2 * (dev::Lane() & 3);
    INCIPIT_UNROLL
    for (int tile = 0; tile < kScoreTiles; ++tile) {
      INCIPIT_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int position = first + 8 * tile + (i & 1);
        if (!Shape::Sees(view.lowest[i >> 1], view.highest[i >> 1], position)) {
          scores[tile][i] = -kInfinity;
        }
      }
    }
  }

  // Computes the softmax weights of 64 positions: 2^(score * factor - maximum), rounded to bf16.
  // Updates the maximum score and the sum of weights in `stats`. Returns in `keep` the factor by
  // which the caller must multiply the sums over earlier positions. REQUIRES: factor > 0.
  static INCIPIT_DEVICE void Weigh(const float (&scores)[kScoreTiles][4], float factor,
                                   RowStats& stats, float (&keep)[2],
                                   uint32_t (&weights)[kScoreTiles / 2][4]) {
    INCIPIT_UNROLL
    for (int row = 0; row < 2; ++row) {
      float maximum = -kInfinity;
      INCIPIT_UNROLL
      for (int tile = 0; tile < kScoreTiles; ++tile) {
        maximum = dev::Max(maximum, dev::Max(scores[tile][2 * row], scores[tile][2 * row + 1]));
      }
      maximum = dev::Max(maximum, dev::ShuffleXorWarp(maximum, 1));
      maximum = dev::Max(maximum, dev::ShuffleXorWarp(maximum, 2));
      maximum = dev::Max(stats.maximum[row], dev::Multiply(maximum, factor));
      keep[row] = FactorTo(maximum, stats.maximum[row]);
      const float base = maximum == -kInfinity ? 0 : -maximum;
      float even = 0, odd = 0;
      INCIPIT_UNROLL
      for (int tile = 0; tile < kScoreTiles; ++tile) {
        const float a = dev::Exp2(dev::Fma(scores[tile][2 * row], factor, base));
        const float b = dev::Exp2(dev::Fma(scores[tile][2 * row + 1], factor, base));
        even = dev::Add(even, a);
        odd = dev::Add(odd, b);
        weights[tile / 2][row + 2 * (tile & 1)] = dev::PackBF16(a, b);
      }
      stats.weight[row] = dev::Fma(stats.weight[row], keep[row], dev::Add(even, odd));
      stats.maximum[row] = maximum;
    }
  }

  // Replaces each lane's sum of softmax weights by the total of the four lanes that hold the same
  // query vector.
  static INCIPIT_DEVICE void SumWeights(RowStats& stats) {
    INCIPIT_UNROLL
    for (int row = 0; row < 2; ++row) {
      float weight = stats.weight[row];
      weight = dev::Add(weight, dev::ShuffleXorWarp(weight, 1));
      stats.weight[row] = dev::Add(weight, dev::ShuffleXorWarp(weight, 2));
    }
  }

  // Sets the values (V) in shared memory to zero for positions outside [begin, end). Sets only the
  // 16-byte chunks [first_chunk, first_chunk + num_chunks) of each position. All lanes of a warp
  // call ClearValues together.
  static INCIPIT_DEVICE void ClearValues(char* values, int begin, int end, int first_chunk,
                                         int num_chunks) {
    for (int i = dev::Fresh(dev::Lane()); i < kStepPositions * num_chunks; i += 32) {
      const int row = i % kStepPositions, chunk = first_chunk + i / kStepPositions;
      if (row >= begin && row < end) continue;
      char* const address = values + row / kPageSize * kTileBytes + chunk / 8 * kPageSize * 128 +
                            row % kPageSize * 128 + ((chunk & 7) ^ (row & 7)) * 16;
      dev::StoreShared(reinterpret_cast<dev::Vec4*>(address), dev::Vec4{});
    }
  }
};

// Next work item of a thread block. `item` is an index in the list of work items, and `kv_head` the
// key-value head to compute. `exists` is false if no work is left.
struct Turn {
  int item, kv_head;
  bool exists;
};

// Returns the work item that this thread block processes in round `round`, counted from 0. In odd
// rounds, the order of the thread blocks is reversed, to balance their work.
INCIPIT_DEVICE Turn TurnOf(int round, int num_items, int num_kv_heads) {
  const int rank = (round & 1) == 0 ? dev::Block() : dev::NumBlocks() - 1 - dev::Block();
  const int index = round * dev::NumBlocks() + rank;
  return {index / num_kv_heads, index % num_kv_heads, index < num_items * num_kv_heads};
}

}  // namespace incipit::cuda
