// Paged attention with an online softmax (Milakov, Gimelshein: "Online normalizer calculation for
// softmax", 2018; Dao: "FlashAttention-2", 2023). Included by every instruction set's file, inside
// its namespace.
//
// A call handles a tile of rows, one for each token and query head, that share a KV head. For each
// absolute block of 16 positions, in order: scores of all rows, the rows' new maxima, the weights,
// the weighted values added position by position. What a row adds up, and in which order, follows
// from its own range of positions alone. Positions that a row must not see are left out, not
// multiplied by zero: their slots may hold anything.
#pragma once

#include "kernels/cpu/simd/tiles.inl"
#include "kernels/cpu/simd/vector_math.inl"

constexpr int64_t kBlock = 16;  // absolute positions in one step of the softmax
constexpr int kScoreVectors = kBlock / Vec::kLanes;
constexpr int64_t kRowPad = 16;

constexpr int64_t RoundUpTo(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// The rows' state. Arrays over rows are padded to whole vectors.
struct AttendScratch {
  int64_t sums_stride;
  float* query;   // [tile][head_dim][rows of the tile], times the scale
  float* scores;  // [row][kBlock], then the weights
  float* sums;    // [row][sums_stride]: weighted values so far
  float *max, *new_max, *rescale, *denominator;  // [row]
  void *keys, *values;  // one block, gathered where blocks are smaller than kBlock

  static int64_t Floats(int64_t num_rows, int64_t head_dim) {
    const int64_t rows = RoundUpTo(num_rows, kRowPad);
    return rows * (head_dim + kBlock + RoundUpTo(head_dim, kRowPad) + 4) + 2 * kBlock * head_dim +
           2 * kRowPad;
  }
  static AttendScratch In(float* memory, int64_t num_rows, int64_t head_dim) {
    const int64_t rows = RoundUpTo(num_rows, kRowPad);
    AttendScratch s;
    const auto take = [&memory](int64_t floats) {
      float* const begin = memory;
      memory += floats;
      return begin;
    };
    s.sums_stride = RoundUpTo(head_dim, kRowPad);
    s.scores = take(rows * kBlock);
    s.sums = take(rows * s.sums_stride);
    s.max = take(rows);
    s.new_max = take(rows);
    s.rescale = take(rows);
    s.denominator = take(rows);
    s.keys = take(kBlock * head_dim + kRowPad);
    s.values = take(kBlock * head_dim + kRowPad);  // a vector load may pass its end
    s.query = take(rows * head_dim);
    return s;
  }
};

int64_t AttendScratchFloats(int64_t num_rows, int64_t head_dim) {
  return AttendScratch::Floats(num_rows, head_dim);
}

// One block, and where the next one is: fetched from memory while this one is worked on, since
// blocks lie anywhere and the processor cannot guess.
template <class T>
struct KvBlock {
  const T* keys;    // [head_dim][kBlock]
  const T* values;  // [kBlock][head_dim]
  const T *next_keys, *next_values;
};

// Where a block of the cache that is at least as large as kBlock has position `begin` and after.
template <class T>
KvBlock<T> BlockAt(const KvView& kv, int64_t begin) {
  const int64_t head_dim = kv.head_dim, size = kv.block_size;
  const T* block = static_cast<const T*>(kv.data) + kv.blocks[begin / size] * kv.block_stride;
  const T* keys = block + begin % size * head_dim;
  return {keys, keys + size * head_dim, keys, keys + size * head_dim};
}

// Positions kBlock * index and after, up to `end`. Slots at or after `end` may hold anything.
template <class T>
KvBlock<T> LocateBlock(const KvView& kv, int64_t index, int64_t end, const AttendScratch& scratch) {
  const auto* data = static_cast<const T*>(kv.data);
  const int64_t head_dim = kv.head_dim, size = kv.block_size;
  const int64_t begin = index * kBlock;
  if (size >= kBlock) {
    KvBlock<T> block = BlockAt<T>(kv, begin);
    if (begin + kBlock < end) {
      const KvBlock<T> next = BlockAt<T>(kv, begin + kBlock);
      block.next_keys = next.keys;
      block.next_values = next.values;
    }
    return block;
  }
  auto* keys = static_cast<T*>(scratch.keys);
  auto* values = static_cast<T*>(scratch.values);
  for (int64_t slot = 0; slot < kBlock && begin + slot < end; slot += size) {
    const T* block = data + kv.blocks[(begin + slot) / size] * kv.block_stride;
    for (int64_t d = 0; d < head_dim; ++d) {
      for (int64_t i = 0; i < size; ++i) keys[d * kBlock + slot + i] = block[d * size + i];
    }
    __builtin_memcpy(values + slot * head_dim, block + size * head_dim,
                     static_cast<uint64_t>(size * head_dim) * sizeof(T));
  }
  return {keys, values, keys, values};
}

// scores[r][t] = sum over d of query[r][d] * keys[t][d].
template <class T, int ROWS>
void ScoreTile(const float* query, const KvBlock<T>& kv, int64_t head_dim, float* scores) {
  Vec sums[ROWS][kScoreVectors];
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kScoreVectors; ++v) sums[r][v] = Zero();
  }
  for (int64_t d = 0; d < head_dim; ++d) {
    __builtin_prefetch(kv.next_keys + d * kBlock);
    Vec key[kScoreVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kScoreVectors; ++v) key[v] = Widen(kv.keys + d * kBlock + v * Vec::kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r) {
      const Vec factor = Broadcast(query[d * ROWS + r]);
#pragma GCC unroll 16
      for (int v = 0; v < kScoreVectors; ++v) sums[r][v] = MultiplyAdd(factor, key[v], sums[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kScoreVectors; ++v) {
      Store(scores + r * kBlock + v * Vec::kLanes, sums[r][v]);
    }
  }
}

struct AccumulateArgs {
  const float* weights;  // [row][kBlock]
  const float* rescale;  // [row]: the sums so far are multiplied by it first
  int64_t begin, end;    // slots
  float* sums;           // [row][sums_stride]
  int64_t sums_stride, head_dim;
};

// VECTORS vectors of head_dim at a time.
template <class T, int ROWS, int VECTORS>
void AccumulateChunk(const AccumulateArgs& args, const KvBlock<T>& kv, int64_t d) {
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
  for (int64_t t = args.begin; t < args.end; ++t) {
    __builtin_prefetch(kv.next_values + t * args.head_dim + d);
    Vec value[VECTORS];
#pragma GCC unroll 16
    for (int v = 0; v < VECTORS; ++v) {
      value[v] = Widen(kv.values + t * args.head_dim + d + v * Vec::kLanes);
    }
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r) {
      const Vec weight = Broadcast(args.weights[r * kBlock + t]);
#pragma GCC unroll 16
      for (int v = 0; v < VECTORS; ++v) sums[r][v] = MultiplyAdd(weight, value[v], sums[r][v]);
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

// The last vector of a row may reach into the next one: those lanes are never read.
template <class T, int ROWS>
void AccumulateTile(const AccumulateArgs& args, const KvBlock<T>& kv) {
  int64_t d = 0;
  for (; d + Vec::kLanes < args.head_dim; d += 2 * Vec::kLanes) {
    AccumulateChunk<T, ROWS, 2>(args, kv, d);
  }
  if (d < args.head_dim) AccumulateChunk<T, ROWS, 1>(args, kv, d);
}

template <class T>
struct TileFunctions {
  void (*score)(const float* query, const KvBlock<T>& kv, int64_t head_dim, float* scores);
  void (*accumulate)(const AccumulateArgs& args, const KvBlock<T>& kv);
};

template <class T, int... INDICES>
const TileFunctions<T>& TileFunctionsOf(int64_t rows, std::integer_sequence<int, INDICES...>) {
  static constexpr TileFunctions<T> kFunctions[] = {
      {ScoreTile<T, INDICES + 1>, AccumulateTile<T, INDICES + 1>}...};
  return kFunctions[rows - 1];
}

template <class T>
const TileFunctions<T>& TileFunctionsOf(int64_t rows) {
  return TileFunctionsOf<T>(rows, std::make_integer_sequence<int, kAttendRows>());
}

// Which slots of a block a row sees; begin >= end: none.
struct SlotRange {
  int64_t begin, end;
  bool empty() const { return begin >= end; }
  bool whole() const { return begin == 0 && end == kBlock; }
};

SlotRange SeenSlots(const AttendArgs& args, int64_t row, int64_t block) {
  const int64_t position = args.first_position + row / args.num_heads;
  const int64_t after = position + 1 - block * kBlock;
  const int64_t first = args.window > 0 ? after - args.window : 0;
  return {first > 0 ? first : 0, after < kBlock ? after : kBlock};
}

void LoadQuery(const AttendArgs& args, const Tiles& tiles, const AttendScratch& scratch) {
  const int64_t head_dim = args.kv.head_dim;
  for (int64_t tile = 0; tile < tiles.count; ++tile) {
    const int64_t begin = tiles.Begin(tile), rows = tiles.Begin(tile + 1) - begin;
    float* out = scratch.query + begin * head_dim;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t token = (begin + r) / args.num_heads, head = (begin + r) % args.num_heads;
      const float* query = args.query + token * args.token_stride + head * head_dim;
      for (int64_t d = 0; d < head_dim; ++d) out[d * rows + r] = query[d] * args.scale;
    }
  }
}

// The scores of a row become weights, its maximum and denominator move on.
void NewMaximum(SlotRange seen, int64_t row, const AttendScratch& s) {
  float* scores = s.scores + row * kBlock;
  Vec max = Broadcast(s.max[row]);
  for (int v = 0; v < kScoreVectors; ++v) {
    Vec score = Load(scores + v * Vec::kLanes);
    if (!seen.whole()) {
      score = SelectLanes(seen.begin - v * Vec::kLanes, seen.end - v * Vec::kLanes, score,
                          Broadcast(-__builtin_inff()));
      Store(scores + v * Vec::kLanes, score);
    }
    max = Max(score, max);
  }
  s.new_max[row] = ReduceMax(max);
}

void NewWeights(SlotRange seen, int64_t row, const AttendScratch& s) {
  float* scores = s.scores + row * kBlock;
  const Vec max = Broadcast(s.new_max[row]);
  Vec sum = Zero();
  for (int v = 0; v < kScoreVectors; ++v) {
    Vec weight = Exp(Sub(Load(scores + v * Vec::kLanes), max));
    if (!seen.whole()) {
      weight =
          SelectLanes(seen.begin - v * Vec::kLanes, seen.end - v * Vec::kLanes, weight, Zero());
    }
    Store(scores + v * Vec::kLanes, weight);
    sum = Add(sum, weight);
  }
  s.denominator[row] = s.denominator[row] * s.rescale[row] + ReduceAdd(sum);
  s.max[row] = s.new_max[row];
}

// Adds a block's values to the rows begin .. begin + rows. Slots that all of them see go first,
// together, if they are the first that each sees; the rest row by row.
template <class T>
void AccumulateRows(const AttendArgs& args, int64_t block, int64_t begin, int64_t rows,
                    const KvBlock<T>& kv, const AttendScratch& s) {
  const float one = 1;
  AccumulateArgs part = {.weights = s.scores + begin * kBlock,
                         .rescale = s.rescale + begin,
                         .begin = 0,
                         .end = 0,
                         .sums = s.sums + begin * s.sums_stride,
                         .sums_stride = s.sums_stride,
                         .head_dim = args.kv.head_dim};
  // Positions rise with the rows: the first row sees the earliest slots, the last the latest.
  const SlotRange first = SeenSlots(args, begin, block);
  const SlotRange last = SeenSlots(args, begin + rows - 1, block);
  const bool together = !first.empty() && first.begin == last.begin;
  if (together) {
    part.begin = first.begin;
    part.end = first.end;
    TileFunctionsOf<T>(rows).accumulate(part, kv);
  }
  for (int64_t r = 0; r < rows; ++r) {
    const SlotRange seen = SeenSlots(args, begin + r, block);
    part.begin = together ? first.end : seen.begin;
    part.end = seen.end;
    if (part.begin >= part.end) continue;
    part.weights = s.scores + (begin + r) * kBlock;
    part.rescale = together ? &one : s.rescale + begin + r;
    part.sums = s.sums + (begin + r) * s.sums_stride;
    AccumulateTile<T, 1>(part, kv);
  }
}

template <class T>
void AttendBlock(const AttendArgs& args, int64_t block, const Tiles& tiles,
                 const AttendScratch& s) {
  const int64_t num_rows = tiles.num_rows;
  const int64_t end = args.first_position + args.num_tokens;
  const KvBlock<T> kv = LocateBlock<T>(args.kv, block, end, s);
  for (int64_t tile = 0; tile < tiles.count; ++tile) {
    const int64_t begin = tiles.Begin(tile), rows = tiles.Begin(tile + 1) - begin;
    TileFunctionsOf<T>(rows).score(s.query + begin * args.kv.head_dim, kv, args.kv.head_dim,
                                   s.scores + begin * kBlock);
  }
  for (int64_t row = 0; row < num_rows; ++row) {
    const SlotRange seen = SeenSlots(args, row, block);
    s.new_max[row] = s.max[row];
    if (!seen.empty()) NewMaximum(seen, row, s);
  }
  for (int64_t row = 0; row < num_rows; row += Vec::kLanes) {
    Store(s.rescale + row, Exp(Sub(Load(s.max + row), Load(s.new_max + row))));
  }
  for (int64_t row = 0; row < num_rows; ++row) {
    const SlotRange seen = SeenSlots(args, row, block);
    if (!seen.empty()) NewWeights(seen, row, s);
  }
  for (int64_t tile = 0; tile < tiles.count; ++tile) {
    const int64_t begin = tiles.Begin(tile), rows = tiles.Begin(tile + 1) - begin;
    AccumulateRows<T>(args, block, begin, rows, kv, s);
  }
}

template <class T>
void Attend(const AttendArgs& args) {
  const int64_t num_rows = int64_t{args.num_tokens} * args.num_heads;
  const int64_t head_dim = args.kv.head_dim;
  const AttendScratch s = AttendScratch::In(args.scratch, num_rows, head_dim);
  const Tiles tiles = Tiles::Of(num_rows, kAttendRows);
  for (int64_t row = 0; row < RoundUpTo(num_rows, kRowPad); ++row) {
    s.max[row] = s.new_max[row] = -__builtin_inff();
    s.denominator[row] = 0;
    for (int64_t d = 0; d < s.sums_stride; ++d) s.sums[row * s.sums_stride + d] = 0;
  }
  LoadQuery(args, tiles, s);

  const int64_t oldest = args.window > 0 ? args.first_position + 1 - args.window : 0;
  const int64_t last_position = args.first_position + args.num_tokens - 1;
  for (int64_t block = oldest > 0 ? oldest / kBlock : 0; block <= last_position / kBlock; ++block) {
    AttendBlock<T>(args, block, tiles, s);
  }
  for (int64_t row = 0; row < num_rows; ++row) {
    const float inverse = 1 / s.denominator[row];
    float* out =
        args.out + row / args.num_heads * args.token_stride + row % args.num_heads * head_dim;
    ForEachVector(head_dim, [&](int64_t d, int64_t lanes) {
      const Vec sum = Load(s.sums + row * s.sums_stride + d);
      StoreSome(out + d, lanes, Mul(sum, Broadcast(inverse)));
    });
  }
}
