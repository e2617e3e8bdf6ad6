// The two products of attention, for a few rows at a time: scores from queries and keys, sums from
// weights and values. Included by attend.inl.
//
// Each score adds up in ascending dimension, each sum in ascending position: how many rows, blocks
// or vectors a function takes at once changes nothing in their bits.
#pragma once

#include "kernels/cpu/simd/vector_math.inl"

// Of a type of stored elements: multiplied in pairs, as attend_dots.inl says.
template <class T>
concept HasDots = requires(IntVec pairs, Vec sum) {
  T::Dot(pairs, pairs, sum);
};
template <class T>
constexpr bool kHasDots = HasDots<T>;

constexpr int64_t kBlock = 16;  // positions whose keys lie side by side
constexpr int64_t kStep = 64;   // absolute positions in one step of the softmax
constexpr int64_t kStepBlocks = kStep / kBlock;
constexpr int kBlockVectors = kBlock / Vec::kLanes;

// Where the blocks of a step are, those from `begin` to `end`. Blocks lie anywhere, and the
// processor cannot guess where: while scores are added up, this step's values are fetched from
// memory; while values are, the keys that come next.
template <class T>
struct StepBlocks {
  int64_t begin, end;
  const T *keys[kStepBlocks], *next_keys[kStepBlocks];  // [head_dim][kBlock]
  const T* values[kStepBlocks];                         // [kBlock][head_dim]
};

constexpr int64_t kLine = 64;

// Into the second-level cache: in the first, blocks of a page's size would push each other out.
inline void Fetch(const char* p) { __builtin_prefetch(p, 0, 2); }

// Into the first-level cache, the line of f32 that a loop comes to soon which takes COUNT elements
// at a time. While lines come from memory, loads from the second-level cache wait: longer than what
// is done with one line of f32 takes. Loops that take several read on in several places anyway.
template <int64_t COUNT, class T>
inline void FetchSoon(const T* data) {
  if constexpr (sizeof(T) == sizeof(float) && COUNT * int64_t{sizeof(T)} == kLine) {
    __builtin_prefetch(data, 0, 3);
  }
}

// What comes next. The first tiles, a power of two of them, each fetch an equal part of it, in the
// rhythm of their loops, so that memory is busy all the time and never asked for more at once than
// it can take; a line of each block in turn, since reading on in several places at once gives up to
// half as much again as one after the other.
class FetchAhead {
 public:
  // `begins`: where it begins, for each block that the step has.
  template <class T>
  FetchAhead(const StepBlocks<T>& blocks, const T* const* begins, int64_t num_tiles)
      : log2_tiles_(num_tiles >= 4 ? 2 : num_tiles / 2) {
    int64_t block = blocks.begin;
    for (const char*& begin : begins_) {
      begin = reinterpret_cast<const char*>(begins[block]);
      if (++block == blocks.end) block = blocks.begin;
    }
  }

  bool IsFor(int64_t tile) const { return tile >> log2_tiles_ == 0; }

  // After how many times COUNT elements of what is in use more is due: a power of two.
  template <int64_t COUNT>
  int64_t Period() const {
    constexpr int64_t kPeriod = kAtOnce / COUNT;
    return (kPeriod > 0 ? kPeriod : 1) << log2_tiles_;
  }
  template <class T, int64_t COUNT>
  void FetchMore() {
    constexpr int64_t kElements = COUNT > kAtOnce ? COUNT : kAtOnce;
    constexpr int64_t kLines = kElements * int64_t{sizeof(T)} / (kStepBlocks * kLine);
#pragma GCC unroll 4
    for (int64_t i = 0; i < kLines; ++i, offset_ += kLine) {
#pragma GCC unroll 4
      for (const char* begin : begins_) Fetch(begin + offset_);
    }
  }

 private:
  // Elements: of bf16 a line of each block, of f32 two, which was fastest.
  static constexpr int64_t kAtOnce = kStepBlocks * kLine / 2;
  const char* begins_[kStepBlocks];
  int64_t offset_ = 0, log2_tiles_;
};

// The same pointer, what it points to to be read again: registers are for sums, not for factors.
inline const float* Reloaded(const float* p) {
  asm volatile("" : "+r"(p));
  return p;
}

template <class T>
struct ScoreArgs {
  const float* query;  // [head_dim][rows]
  const StepBlocks<T>* blocks;
  int64_t head_dim;
  float* scores;      // [row][kStep]
  FetchAhead* ahead;  // with FETCH
};

template <class T>
inline void WidenBlock(const T* keys, Vec out[kBlockVectors]) {
  if constexpr (kBlockVectors == 1) {
    out[0] = Widen(keys);
  } else {
#pragma GCC unroll 16
    for (int v = 0; v < kBlockVectors; v += 2) {
      WidenPair(keys + v * Vec::kLanes, out[v], out[v + 1]);
    }
  }
}

// scores[r][t] = sum over d of query[d][r] * keys[d][t], in BLOCKS blocks from `first`.
template <class T, int ROWS, int BLOCKS, bool FETCH>
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
  constexpr int64_t kCount = BLOCKS * kBlock;
  [[maybe_unused]] FetchAhead* const ahead = args.ahead;
  const int64_t period = FETCH ? ahead->Period<kCount>() : args.head_dim;
  for (int64_t d = 0; d < args.head_dim;) {
    if constexpr (FETCH) ahead->FetchMore<T, kCount>();
    const int64_t end = d + period < args.head_dim ? d + period : args.head_dim;
    for (; d < end; ++d, query += ROWS) {
#pragma GCC unroll 16
      for (int b = 0; b < BLOCKS; ++b) {
        Vec key[kBlockVectors];
        if constexpr (FETCH) FetchSoon<kCount>(keys[b] + (d + kBlock) * kBlock);
        WidenBlock(keys[b] + d * kBlock, key);
        const float* const factors = Reloaded(query);
#pragma GCC unroll 16
        for (int r = 0; r < ROWS; ++r) {
          const Vec factor = Broadcast(factors[r]);
#pragma GCC unroll 16
          for (int v = 0; v < kBlockVectors; ++v) {
            sums[b][r][v] = MultiplyAdd(factor, key[v], sums[b][r][v]);
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
      for (int v = 0; v + 1 < kBlockVectors; v += 2) {
        PutInOrder(keys[b], sums[b][r][v], sums[b][r][v + 1]);
      }
#pragma GCC unroll 16
      for (int v = 0; v < kBlockVectors; ++v) Store(out + v * Vec::kLanes, sums[b][r][v]);
    }
  }
}

// How many units of `size` sums each fit into the registers: a power of two, at most `most`.
constexpr int FittingPower(int size, int most) {
  int count = 1;
  while (2 * count <= most && 2 * count * size <= kAttendSums) count *= 2;
  return count;
}

template <class T, int ROWS, bool FETCH>
void ScoreTile(const ScoreArgs<T>& args) {
  constexpr int kBlocks = FittingPower(ROWS * kBlockVectors, kStepBlocks);
  int64_t block = args.blocks->begin;
  const int64_t end = args.blocks->end;
  for (; block + kBlocks <= end; block += kBlocks) {
    ScoreBlocks<T, ROWS, kBlocks, FETCH>(args, block);
  }
  for (; block < end; ++block) ScoreBlocks<T, ROWS, 1, FETCH>(args, block);
}

template <class T>
struct AccumulateArgs {
  const float* weights;  // [row][kStep]
  const float* rescale;  // [row]: the sums so far are multiplied by it first
  const StepBlocks<T>* blocks;
  int64_t begin, end;  // slots of the step
  float* sums;         // [row][sums_stride]
  int64_t sums_stride, head_dim;
  FetchAhead* ahead;  // with FETCH
};

// VECTORS vectors of head_dim at a time.
template <class T, int ROWS, int VECTORS, bool FETCH>
void AccumulateChunk(const AccumulateArgs<T>& args, int64_t d) {
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
  constexpr int64_t kCount = VECTORS * Vec::kLanes;
  [[maybe_unused]] FetchAhead* const ahead = args.ahead;
  const int64_t period = FETCH ? ahead->Period<kCount>() : kBlock;
  for (int64_t position = args.begin; position < args.end;) {
    if constexpr (FETCH) {
      if ((position & (period - 1)) == 0) ahead->FetchMore<T, kCount>();
    }
    const int64_t block = position / kBlock;
    // To the end of the block, or to where more is due.
    const int64_t run = period < kBlock ? period : kBlock;
    const int64_t run_end = (position | (run - 1)) + 1;
    const int64_t end = run_end < args.end ? run_end : args.end;
    const T* values = args.blocks->values[block] + (position - block * kBlock) * args.head_dim + d;
    const float* weights = args.weights + position;
    for (; position < end; ++position) {
      constexpr int kPair = VECTORS == 1 ? 1 : 2;
      if constexpr (FETCH) FetchSoon<kCount>(values + kCount);  // the next call takes it
#pragma GCC unroll 16
      for (int v = 0; v < VECTORS; v += kPair) {
        Vec value[kPair];
        if constexpr (kPair == 1) {
          value[0] = Widen(values);
        } else {
          WidenPair(values + v * Vec::kLanes, value[0], value[1]);
        }
        const float* const factors = Reloaded(weights);
#pragma GCC unroll 16
        for (int r = 0; r < ROWS; ++r) {
          const Vec weight = Broadcast(factors[r * kStep]);
#pragma GCC unroll 16
          for (int i = 0; i < kPair; ++i) {
            sums[r][v + i] = MultiplyAdd(weight, value[i], sums[r][v + i]);
          }
        }
      }
      values += args.head_dim;
      ++weights;
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

// Pairs of vectors, whose elements stay in the order in which WidenPair gives them, then perhaps
// one. The last may reach into the next row: those lanes are never read.
template <class T, int ROWS, bool FETCH>
void AccumulateTile(const AccumulateArgs<T>& args) {
  // With dots all values of a pair are in registers beside the sums.
  constexpr int kVectors = FittingPower(ROWS, kHasDots<T> && ROWS > 2 ? 4 : 8);
  static_assert(kVectors >= 2);
  int64_t left = (args.head_dim + Vec::kLanes - 1) / Vec::kLanes, d = 0;
  for (; left >= kVectors; left -= kVectors, d += kVectors * Vec::kLanes) {
    AccumulateChunk<T, ROWS, kVectors, FETCH>(args, d);
  }
  if constexpr (kHasDots<T> && kVectors > 4) {  // few rows' sums would wait for each other
    for (; left >= 4; left -= 4, d += 4 * Vec::kLanes) AccumulateChunk<T, ROWS, 4, FETCH>(args, d);
  }
  for (; left >= 2; left -= 2, d += 2 * Vec::kLanes) AccumulateChunk<T, ROWS, 2, FETCH>(args, d);
  if (left > 0) AccumulateChunk<T, ROWS, 1, FETCH>(args, d);
}

template <class T>
struct TileFunctions {
  void (*score)(const ScoreArgs<T>& args);
  void (*accumulate)(const AccumulateArgs<T>& args);
};

template <class T, bool FETCH, int... INDICES>
const TileFunctions<T>& TileFunctionsOf(int64_t rows, std::integer_sequence<int, INDICES...>) {
  static constexpr TileFunctions<T> kFunctions[] = {
      {ScoreTile<T, INDICES + 1, FETCH>, AccumulateTile<T, INDICES + 1, FETCH>}...};
  return kFunctions[rows - 1];
}

// `fetch`: what comes next, too.
template <class T>
const TileFunctions<T>& TileFunctionsOf(int64_t rows, bool fetch) {
  constexpr std::make_integer_sequence<int, kAttendRows> kIndices;
  return fetch ? TileFunctionsOf<T, true>(rows, kIndices)
               : TileFunctionsOf<T, false>(rows, kIndices);
}
