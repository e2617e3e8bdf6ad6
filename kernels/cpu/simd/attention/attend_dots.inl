// Computes the matrix products of attention with the bf16 dot instruction. This instruction
// multiplies two pairs of bf16 numbers and adds both products to an f32 sum. attend.inl includes
// this file. Queries and softmax weights are rounded to bf16. The softmax denominator is the sum of
// the rounded weights.
// An instruction set that uses the bf16 dot instruction defines a type DottedBF16
// (avx512_bf16.cpp). Any other instruction set defines DottedBF16 as BF16.
#pragma once

#include "kernels/cpu/simd/attention/attend_tile.inl"
#include "kernels/cpu/simd/attention/attend_weights.inl"
#include "kernels/cpu/simd/pack_rows.inl"

// The type in which attention stores queries and softmax weights: T if T has a dot instruction,
// otherwise float.
template <class T>
using Arithmetic = std::conditional_t<kHasDots<T>, T, float>;

constexpr int64_t kDotHeadDimMax = 256;
constexpr bool FitsDots(int64_t head_dim) {
  return head_dim % kBlock == 0 && head_dim <= kDotHeadDimMax;
}

constexpr uint32_t kPairOfOnes = 0x3F803F80;
constexpr int kAccumulateVectorsMax = 8;
constexpr uint16_t kNoValues[kAccumulateVectorsMax * Vec::kLanes] = {};

inline IntVec BroadcastPair(const void* p) { return BroadcastInts(static_cast<const char*>(p)); }

// Multiplies the elements of each query by `scale`, rounds them to T, and combines dimensions 2i
// and 2i + 1 into a pair. Stores the pairs in `out` with the shape [head_dim / 2][rows].
template <class T>
void InterleavePairs(const float* const* queries, int64_t rows, int64_t head_dim, Vec scale,
                     float* memory, float* out) {
  constexpr int64_t kAtOnce = 2 * Vec::kLanes;
  // `memory` holds kStep * 16 floats.
  static_assert(kAttendRows * kDotHeadDimMax / 2 <= kStep * 16);
  const int64_t stride = RoundUpTo(head_dim, kAtOnce) / 2;
  const float* pairs[kAttendRows];
  for (int64_t r = 0; r < rows; ++r) {
    float* const row = memory + r * stride;
    for (int64_t d = 0; d < head_dim; d += kAtOnce) {
      const Vec first = Load(queries[r] + d);
      const Vec second = d + Vec::kLanes < head_dim ? Load(queries[r] + d + Vec::kLanes) : Zero();
      StoreInts(row + d / 2, T::Narrow(Mul(first, scale), Mul(second, scale)));
    }
    pairs[r] = row;
  }
  InterleaveFactors(pairs, rows, head_dim / 2, out);
}

// Computes the scores of ROWS rows (pairs of a token and a query head) for the position groups
// [first, first + BLOCKS). A group has kBlock positions. A score is the dot product of a query and
// a key.
template <HasDots T, int ROWS, int BLOCKS, bool FETCH>
void ScoreBlocks(const ScoreArgs<T>& args, int64_t first) {
  const T* keys[BLOCKS];
  Vec sums[BLOCKS][ROWS][kBlockVectors];
#pragma GCC unroll 16
  for (int b = 0; b < BLOCKS; ++b) {
    keys[b] = args.blocks->keys[first + b];
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 16
      for (int v = 0; v < kBlockVectors; ++v) sums[b][r][v] = Zero();
    }
  }
  const float* query = args.query;
  constexpr int64_t kCount = BLOCKS * kBlock * 2;
  [[maybe_unused]] FetchAhead* const ahead = args.ahead;
  const int64_t num_pairs = args.head_dim / 2;
  const int64_t period = FETCH ? ahead->Period<kCount>() : num_pairs;
  for (int64_t pair = 0; pair < num_pairs;) {
    if constexpr (FETCH) ahead->FetchMore<T, kCount>();
    const int64_t end = pair + period < num_pairs ? pair + period : num_pairs;
    for (; pair < end; ++pair, query += ROWS) {
      IntVec key[BLOCKS][kBlockVectors];
#pragma GCC unroll 16
      for (int b = 0; b < BLOCKS; ++b) {
#pragma GCC unroll 16
        for (int v = 0; v < kBlockVectors; ++v) {
          key[b][v] = T::PairKeys(keys[b] + 2 * pair * kBlock + v * Vec::kLanes);
        }
      }
#pragma GCC unroll 16
      for (int r = 0; r < ROWS; ++r) {
        const IntVec factor = BroadcastPair(query + r);
#pragma GCC unroll 16
        for (int b = 0; b < BLOCKS; ++b) {
#pragma GCC unroll 16
          for (int v = 0; v < kBlockVectors; ++v) {
            sums[b][r][v] = T::Dot(factor, key[b][v], sums[b][r][v]);
          }
        }
      }
    }
  }
#pragma GCC unroll 16
  for (int b = 0; b < BLOCKS; ++b) {
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r) {
      float* const out = args.scores + r * kStep + (first + b) * kBlock;
#pragma GCC unroll 16
      for (int v = 0; v < kBlockVectors; ++v) Store(out + v * Vec::kLanes, sums[b][r][v]);
    }
  }
}

// Replaces the kStep scores of a row (a token and a query head) by softmax weights and returns the
// sum of these weights. The weights are stored as bf16 in the first half of the row's memory.
template <HasDots T>
inline float WeighAll(float* scores, float max) {
  constexpr int kAtOnce = 4;
  static_assert(kStep % (kAtOnce * Vec::kLanes) == 0);
  const Vec largest = Broadcast(max);
  const IntVec ones = BroadcastPair(&kPairOfOnes);
  Vec sum = Zero();
#pragma GCC unroll 4
  for (int64_t begin = 0; begin < kStep; begin += kAtOnce * Vec::kLanes) {
    Vec weights[kAtOnce];
#pragma GCC unroll 4
    for (int i = 0; i < kAtOnce; ++i) {
      weights[i] = Sub(Load(scores + begin + i * Vec::kLanes), largest);
    }
    Exp2(weights);
#pragma GCC unroll 2
    for (int i = 0; i < kAtOnce; i += 2) {
      const IntVec pairs = T::Narrow(weights[i], weights[i + 1]);
      StoreInts(scores + (begin + i * Vec::kLanes) / 2, pairs);
      sum = T::Dot(pairs, ones, sum);
    }
  }
  return ReduceAdd(sum);
}

template <HasDots T>
float WeighSome(SeenRange seen, float* scores, float max) {
  constexpr int64_t kAtOnce = 2 * Vec::kLanes;
  const Vec largest = Broadcast(max);
  const IntVec ones = BroadcastPair(&kPairOfOnes);
  Vec sum = Zero();
  for (int64_t i = seen.begin / kAtOnce * kAtOnce; i < seen.end; i += kAtOnce) {
    const auto weight = [&](int64_t begin) {
      return SelectLanes(seen.begin - begin, seen.end - begin,
                         Exp2(Sub(Load(scores + begin), largest)), Zero());
    };
    const IntVec pairs = T::Narrow(weight(i), weight(i + Vec::kLanes));
    StoreInts(scores + i / 2, pairs);
    sum = T::Dot(pairs, ones, sum);
  }
  return ReduceAdd(sum);
}

// Adds values (V), multiplied by softmax weights, to the sums of ROWS rows. A row is a pair of a
// token and a query head. Computes the head's dimensions [d, d + VECTORS * Vec::kLanes).
template <HasDots T, int ROWS, int VECTORS, bool FETCH>
void AccumulateChunk(const AccumulateArgs<T>& args, int64_t d) {
  static_assert(VECTORS <= kAccumulateVectorsMax);
  float* const out = args.sums + d;
  Vec sums[ROWS][VECTORS];
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r) {
    const Vec rescale = Broadcast(args.rescale[r]);
#pragma GCC unroll 16
    for (int v = 0; v < VECTORS; ++v) {
      sums[r][v] = Mul(rescale, Load(out + r * args.sums_stride + v * Vec::kLanes));
    }
  }
  constexpr int64_t kCount = VECTORS * Vec::kLanes * 2;
  [[maybe_unused]] FetchAhead* const ahead = args.ahead;
  constexpr int64_t kBlockPairs = kBlock / 2;
  const int64_t period = FETCH ? ahead->Period<kCount>() : kBlockPairs;
  const auto* const zeros = reinterpret_cast<const T*>(kNoValues);
  const int64_t last = (args.end + 1) / 2;
  for (int64_t pair = args.begin / 2; pair < last;) {
    if constexpr (FETCH) {
      if ((pair & (period - 1)) == 0) ahead->FetchMore<T, kCount>();
    }
    const int64_t block = pair / kBlockPairs;
    // Maximum number of pairs of positions in one run of the inner loop. A run ends at the next
    // prefetch, or at the end of a block of kBlock positions.
    const int64_t run = period < kBlockPairs ? period : kBlockPairs;
    const int64_t run_end = (pair | (run - 1)) + 1;
    const int64_t end = run_end < last ? run_end : last;
    const T* values =
        args.blocks->values[block] + (pair - block * kBlockPairs) * 2 * args.head_dim + d;
    for (; pair < end; ++pair, values += 2 * args.head_dim) {
      const T* const first = 2 * pair >= args.begin ? values : zeros;
      const T* const second = 2 * pair + 1 < args.end ? values + args.head_dim : zeros;
      IntVec value[VECTORS];
#pragma GCC unroll 16
      for (int v = 0; v + 1 < VECTORS; v += 2) {
        T::PairRows(first + v * Vec::kLanes, second + v * Vec::kLanes, value[v], value[v + 1]);
      }
      if constexpr (VECTORS == 1) value[0] = T::PairRows(first, second);
      const float* const weights = args.weights + pair;
#pragma GCC unroll 16
      for (int r = 0; r < ROWS; ++r) {
        const IntVec weight = BroadcastPair(weights + r * kStep);
#pragma GCC unroll 16
        for (int v = 0; v < VECTORS; ++v) sums[r][v] = T::Dot(weight, value[v], sums[r][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < VECTORS; ++v) {
      Store(out + r * args.sums_stride + v * Vec::kLanes, sums[r][v]);
    }
  }
}
