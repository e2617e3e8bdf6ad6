// Computes the softmax weights of one row (a token and a query head) for 64 positions. attend.inl
// includes this file.
#pragma once

#include "kernels/cpu/simd/attention/attend_tile.inl"
#include "kernels/cpu/simd/vector_math.inl"

// The range [begin, end) of positions that a token attends to. The positions are counted from the
// start of the sequence, or from the start of a group of kStep positions.
struct SeenRange {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
  bool empty() const { return begin >= end; }
};

// Returns the maximum of `max` and the kStep scores of a row (a token and a query head). REQUIRES:
// the row attends to all kStep positions.
float MaximumOfAll(const float* scores, float max) {
  Vec largest = Broadcast(max);
#pragma GCC unroll 16
  for (int64_t i = 0; i < kStep; i += Vec::kLanes) largest = Max(Load(scores + i), largest);
  return ReduceMax(largest);
}

// Returns the maximum of `max` and the scores in the range `seen`, for a row (a token and a query
// head). The first and the last SIMD vector may also contain scores outside the range. These scores
// are set to -infinity.
float MaximumOf(SeenRange seen, float* scores, float max) {
  Vec largest = Broadcast(max);
  for (int64_t i = seen.begin / Vec::kLanes * Vec::kLanes; i < seen.end; i += Vec::kLanes) {
    const Vec score =
        SelectLanes(seen.begin - i, seen.end - i, Load(scores + i), Broadcast(-__builtin_inff()));
    Store(scores + i, score);
    largest = Max(score, largest);
  }
  return ReduceMax(largest);
}

// Replaces the kStep scores of a row (a token and a query head) by softmax weights and returns the
// sum of these weights.
template <class T>
inline float WeighAll(float* scores, float max) {
  constexpr int kAtOnce = 4;
  static_assert(kStep % (kAtOnce * Vec::kLanes) == 0);
  const Vec largest = Broadcast(max);
  Vec sum = Zero();
#pragma GCC unroll 4
  for (int64_t begin = 0; begin < kStep; begin += kAtOnce * Vec::kLanes) {
    Vec weights[kAtOnce];
#pragma GCC unroll 4
    for (int i = 0; i < kAtOnce; ++i) {
      weights[i] = Sub(Load(scores + begin + i * Vec::kLanes), largest);
    }
    Exp2(weights);
#pragma GCC unroll 4
    for (int i = 0; i < kAtOnce; ++i) Store(scores + begin + i * Vec::kLanes, weights[i]);
    sum = Add(sum, Add(Add(weights[0], weights[1]), Add(weights[2], weights[3])));
  }
  return ReduceAdd(sum);
}

template <class T>
float WeighSome(SeenRange seen, float* scores, float max) {
  const Vec largest = Broadcast(max);
  Vec sum = Zero();
  for (int64_t i = seen.begin / Vec::kLanes * Vec::kLanes; i < seen.end; i += Vec::kLanes) {
    const Vec weight =
        SelectLanes(seen.begin - i, seen.end - i, Exp2(Sub(Load(scores + i), largest)), Zero());
    Store(scores + i, weight);
    sum = Add(sum, weight);
  }
  return ReduceAdd(sum);
}
