// Computes the two matrix products of attention for a few rows (pairs of a token and a query head)
// at a time: scores, and sums of values (V) multiplied by softmax weights. attend.inl includes this
// file.
//
// The products of a score are added in ascending order of dimensions, and the terms of a sum in
// ascending order of positions. The bits of a row therefore do not depend on other rows.
#pragma once

#include "kernels/cpu/simd/vector_math.inl"

// True if T is a type of stored elements for which a dot instruction exists. A dot instruction
// multiplies two pairs of elements (attend_dots.inl).
template <class T>
concept HasDots = requires(IntVec pairs, Vec sum) {
  T::Dot(pairs, pairs, sum);
};
template <class T>
constexpr bool kHasDots = HasDots<T>;

// Number of consecutive positions whose keys are stored together, dimension by dimension.
constexpr int64_t kBlock = 16;
// Number of consecutive positions for which the softmax is updated at a time.
constexpr int64_t kStep = 64;
constexpr int64_t kStepBlocks = kStep / kBlock;
constexpr int kBlockVectors = kBlock / Vec::kLanes;

// Addresses of the keys and values of kStep positions, in blocks of kBlock positions. Only the
// blocks [begin, end) are read.
template <class T>
struct StepBlocks {
  int64_t begin, end;
  const T *keys[kStepBlocks], *next_keys[kStepBlocks];  // shape [head_dim][kBlock]
  const T* values[kStepBlocks];                         // shape [kBlock][head_dim]
};

// Size of a cache line in bytes.
constexpr int64_t kLine = 64;

// Prefetches a cache line into the second-level cache. In the first-level cache, prefetched cache
// lines could evict each other.
inline void Fetch(const char* p) { __builtin_prefetch(p, 0, 2); }

// Prefetches `data` into the first-level cache if T is f32 and COUNT elements fill exactly one
// cache line. Otherwise does nothing.
template <int64_t COUNT, class T>
inline void FetchSoon(const T* data) {
  if constexpr (sizeof(T) == sizeof(float) && COUNT * int64_t{sizeof(T)} == kLine) {
    __builtin_prefetch(data, 0, 3);
  }
}

// Prefetches memory during a computation, a few cache lines per loop iteration. Consecutive
// prefetches read different blocks of kBlock positions. This order is up to 50 % faster than
// prefetches of one whole block after the other.
class FetchAhead {
 public:
  // Element i of `begins` is the address of the memory to prefetch for the i-th block (kBlock
  // positions).
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

  // Returns the number of loop iterations between two prefetches, which is a power of two. The loop
  // reads COUNT elements per iteration.
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
  // Minimum number of elements that FetchMore prefetches: 32 elements for each of kStepBlocks
  // blocks. 32 elements fill at least one cache line.
  static constexpr int64_t kAtOnce = kStepBlocks * kLine / 2;
  const char* begins_[kStepBlocks];
  int64_t offset_ = 0, log2_tiles_;
};

// Returns `p`, and makes the compiler load the elements at `p` again at every use. Otherwise the
// compiler would keep these elements in registers, and too few registers would remain for sums.
inline const float* Reloaded(const float* p) {
  asm volatile("" : "+r"(p));
  return p;
}

template <class T>
struct ScoreArgs {
  const float* query;  // shape [head_dim][rows]
  const StepBlocks<T>* blocks;
  int64_t head_dim;
  float* scores;      // shape [rows][kStep]
  FetchAhead* ahead;  // memory to prefetch during the computation; unused if FETCH is false
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

// Computes the scores of ROWS rows (pairs of a token and a query head) for the position groups
// [first, first + BLOCKS). A group has kBlock positions. A score is the dot product of a query and
// a key.
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

// Returns the largest power of two n <= `most` for which n * size vectors of sums fit into the
// registers. Returns at least 1.
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
  const float* weights;  // softmax weights, of shape [rows][kStep]
  const float* rescale;  // element i: the factor by which the previous sums of row i are multiplied
  const StepBlocks<T>* blocks;
  // The rows attend to the positions [begin, end) of a group of kStep positions. `begin` and `end`
  // are counted from the start of the group.
  int64_t begin, end;
  float* sums;  // shape [rows][sums_stride]
  int64_t sums_stride, head_dim;
  FetchAhead* ahead;  // memory to prefetch during the computation; unused if FETCH is false
};

// Adds values (V), multiplied by softmax weights, to the sums of ROWS rows. A row is a pair of a
// token and a query head. Computes the head's dimensions [d, d + VECTORS * Vec::kLanes).
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
    // Maximum number of positions in one run of the inner loop. A run ends at the next prefetch, or
    // at the end of a block of kBlock positions.
    const int64_t run = period < kBlock ? period : kBlock;
    const int64_t run_end = (position | (run - 1)) + 1;
    const int64_t end = run_end < args.end ? run_end : args.end;
    const T* values = args.blocks->values[block] + (position - block * kBlock) * args.head_dim + d;
    const float* weights = args.weights + position;
    for (; position < end; ++position) {
      constexpr int kPair = VECTORS == 1 ? 1 : 2;
      // prefetches the next dimensions of this position, which the next AccumulateChunk reads
      if constexpr (FETCH) FetchSoon<kCount>(values + kCount);
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

// Adds values (V), multiplied by softmax weights, to the sums of all dimensions. If head_dim is not
// a multiple of the vector size, the last vector also contains values of the next position. The
// sums of these values are never read.
template <class T, int ROWS, bool FETCH>
void AccumulateTile(const AccumulateArgs<T>& args) {
  // Registers hold the sums and the current values (V). A dot instruction needs the values of two
  // positions at a time, so fewer sums fit into the registers.
  constexpr int kVectors = FittingPower(ROWS, kHasDots<T> && ROWS > 2 ? 4 : 8);
  static_assert(kVectors >= 2);
  int64_t left = (args.head_dim + Vec::kLanes - 1) / Vec::kLanes, d = 0;
  for (; left >= kVectors; left -= kVectors, d += kVectors * Vec::kLanes) {
    AccumulateChunk<T, ROWS, kVectors, FETCH>(args, d);
  }
  // If there are few rows, groups of 4 vectors hide the latency of the dot instruction better than
  // groups of 2 vectors.
  if constexpr (kHasDots<T> && kVectors > 4) {
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

// Returns the functions that compute scores and sums for `rows` rows. If `fetch` is true, these
// functions also prefetch memory.
template <class T>
const TileFunctions<T>& TileFunctionsOf(int64_t rows, bool fetch) {
  constexpr std::make_integer_sequence<int, kAttendRows> kIndices;
  return fetch ? TileFunctionsOf<T, true>(rows, kIndices)
               : TileFunctionsOf<T, false>(rows, kIndices);
}
