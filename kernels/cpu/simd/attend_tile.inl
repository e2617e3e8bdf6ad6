// The two products of attention, for a few rows at a time: scores from queries and keys, sums from
// weights and values. Included by attend.inl.
//
// Each score adds up in ascending dimension, each sum in ascending position: how many rows, blocks
// or vectors a function takes at once changes nothing in their bits.
#pragma once

#include "kernels/cpu/simd/vector_math.inl"

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

// What part of those a tile fetches: each its own, and in the rhythm of its loops, so that memory
// is busy all the time and never asked for more at once than it can take.
struct FetchTurn {
  int64_t tile;
  int32_t log2_count;  // the first so many fetch

  static FetchTurn Of(int64_t tile, int64_t num_tiles) {
    return {tile, num_tiles >= 4 ? 2 : num_tiles >= 2 ? 1 : 0};
  }
  bool fetches() const { return tile >> log2_count == 0; }
  int64_t Share(int64_t bytes) const { return bytes >> log2_count; }
};

// Into the second-level cache: in the first, blocks of a page's size would push each other out.
inline void Fetch(const void* p) { __builtin_prefetch(p, 0, 2); }

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
  float* scores;  // [row][kStep]
  FetchTurn turn;
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
  // A dimension fetches what a turn has of one value.
  const int64_t fetch_bytes = args.turn.Share(kBlock * int64_t{sizeof(T)});
  const T* keys[BLOCKS];
  const char* fetch[BLOCKS];
  Vec sums[BLOCKS][ROWS][kBlockVectors];
#pragma GCC unroll 16
  for (int b = 0; b < BLOCKS; ++b) {
    keys[b] = args.blocks->keys[first + b];
    fetch[b] = reinterpret_cast<const char*>(args.blocks->values[first + b]) +
               args.turn.tile * fetch_bytes * args.head_dim;
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 16
      for (int v = 0; v < kBlockVectors; ++v) sums[b][r][v] = Zero();
    }
  }
  const float* query = args.query;
  for (int64_t d = 0; d < args.head_dim; ++d, query += ROWS) {
#pragma GCC unroll 16
    for (int b = 0; b < BLOCKS; ++b) {
      if constexpr (FETCH) Fetch(fetch[b] + d * fetch_bytes);
      Vec key[kBlockVectors];
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
  FetchTurn turn;
};

// VECTORS vectors of head_dim at a time.
template <class T, int ROWS, int VECTORS, bool FETCH>
void AccumulateChunk(const AccumulateArgs<T>& args, int64_t d) {
  // A position fetches what a turn has of as many dimensions as it adds up.
  const int64_t fetch_bytes = args.turn.Share(VECTORS * Vec::kLanes * int64_t{sizeof(T)});
  const int64_t fetch_begin =
      args.turn.Share(kBlock * int64_t{sizeof(T)} * (args.turn.tile * args.head_dim + d));
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
  for (int64_t block = args.begin / kBlock; block * kBlock < args.end; ++block) {
    const int64_t first = block * kBlock < args.begin ? args.begin - block * kBlock : 0;
    const int64_t last = args.end - block * kBlock < kBlock ? args.end - block * kBlock : kBlock;
    const T* values = args.blocks->values[block] + first * args.head_dim + d;
    const char* fetch = reinterpret_cast<const char*>(args.blocks->next_keys[block]) + fetch_begin;
    const float* weights = args.weights + block * kBlock + first;
    for (int64_t t = first; t < last; ++t) {
      if constexpr (FETCH) {
        Fetch(fetch);
        fetch += fetch_bytes;
      }
      constexpr int kPair = VECTORS == 1 ? 1 : 2;
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
  constexpr int kVectors = FittingPower(ROWS, 8);
  static_assert(kVectors >= 2);
  int64_t left = (args.head_dim + Vec::kLanes - 1) / Vec::kLanes, d = 0;
  for (; left >= kVectors; left -= kVectors, d += kVectors * Vec::kLanes) {
    AccumulateChunk<T, ROWS, kVectors, FETCH>(args, d);
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
