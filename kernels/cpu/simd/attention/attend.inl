// Computes paged attention with an online softmax (Milakov, Gimelshein: "Online normalizer
// calculation for softmax", 2018; Dao: "FlashAttention-2", 2023). The source file of every
// instruction set includes this file.
//
// A call computes several rows (pairs of a token and a query head) that share a KV head. It
// processes 64 positions at a time. Several threads may compute ranges of kSplit positions of a
// sequence. Sums are combined in ascending order of positions, so that the bits of a row depend
// only on the positions that it attends to.
#pragma once

#include "kernels/cpu/simd/attention/attend_dots.inl"
#include "kernels/cpu/simd/attention/attend_tile.inl"
#include "kernels/cpu/simd/attention/attend_weights.inl"
#include "kernels/cpu/simd/pack_rows.inl"
#include "kernels/cpu/simd/tiles.inl"
#include "kernels/cpu/simd/vector_math.inl"

constexpr int64_t kRowPad = 16;
constexpr float kLog2OfE = 1.44269504f;  // log2(e), because e^x is equal to 2^(x * log2(e))

// True if a matrix unit multiplies elements of type T (attend_by_tiles.inl).
template <class T>
concept HasTiles = requires {
  typename T::Unit;
};

// The intermediate sums of a softmax, for several rows (pairs of a token and a query head) over a
// range of positions. Arrays with one element per row are padded to whole vectors.
struct AttendState {
  int64_t sums_stride;
  // Sums of values multiplied by softmax weights, of shape [row][sums_stride]. For some element
  // types, each pair of vectors holds the even dimensions first, then the odd dimensions.
  float* sums;
  // Element i of `max` is the largest score of row i. Element i of `denominator` is the sum of the
  // softmax weights of row i.
  float *max, *denominator;

  static int64_t Floats(int64_t num_rows, int64_t head_dim) {
    return RoundUpTo(num_rows, kRowPad) * (RoundUpTo(head_dim, kRowPad) + 2);
  }
  static AttendState In(float* memory, int64_t num_rows, int64_t head_dim) {
    const int64_t rows = RoundUpTo(num_rows, kRowPad), stride = RoundUpTo(head_dim, kRowPad);
    return {stride, memory, memory + rows * stride, memory + rows * (stride + 1)};
  }
  void Clear(int64_t num_rows) const {
    const int64_t rows = RoundUpTo(num_rows, kRowPad);
    for (int64_t row = 0; row < rows; ++row) {
      max[row] = -__builtin_inff();
      denominator[row] = 0;
    }
    for (int64_t i = 0; i < rows * sums_stride; i += Vec::kLanes) Store(sums + i, Zero());
  }
};

// Working memory of an attention call for one KV head. All KV heads of the call share this memory,
// except `query` and `states`.
struct AttendScratch {
  // queries multiplied by the attention scale, of shape [tiles (groups of rows)][head_dim][rows of
  // the tile]
  float* query;
  float* scores;  // scores, which softmax weights later replace; shape [rows][kStep]
  // `new_max`: maximum score of each row, including the current positions. `rescale`: factor of
  // each row by which the sums over earlier positions must be multiplied.
  float *new_max, *rescale;
  // Copies of the keys and values of kStep positions, used if cache blocks have fewer than 16
  // positions (kBlock).
  void *keys, *values;
  float* states[2];  // memory for two objects of type AttendState

  // Returns the number of floats of working memory for `num_rows` rows of all KV heads together.
  // REQUIRES: the number of rows of each KV head is a multiple of kRowPad.
  static int64_t Floats(int64_t num_rows, int64_t head_dim) {
    return num_rows * (head_dim + kStep + 2) + 2 * (kStep * head_dim + 2 * kRowPad) +
           2 * AttendState::Floats(num_rows, head_dim);
  }
  static AttendScratch In(float* memory, int64_t num_rows, int64_t head_dim, int64_t group) {
    const int64_t rows = RoundUpTo(num_rows, kRowPad);
    AttendScratch s;
    const auto take = [&memory](int64_t floats) {
      float* const begin = memory;
      memory += floats;
      return begin;
    };
    s.scores = take(rows * kStep);
    s.new_max = take(rows);
    s.rescale = take(rows);
    s.keys = take(kStep * head_dim + 2 * kRowPad);
    // The arrays `keys` and `values` have 2 * kRowPad additional elements, because a vector load
    // may read past their end.
    s.values = take(kStep * head_dim + 2 * kRowPad);
    memory += group * (rows * head_dim + 2 * AttendState::Floats(num_rows, head_dim));
    for (float*& state : s.states) state = take(AttendState::Floats(num_rows, head_dim));
    s.query = take(rows * head_dim);
    return s;
  }
};

int64_t AttendScratchFloats(int64_t num_rows, int64_t head_dim) {
  return AttendScratch::Floats(RoundUpTo(num_rows, kRowPad), head_dim);
}

int64_t AttendStateFloats(int64_t num_rows, int64_t head_dim) {
  return AttendState::Floats(num_rows, head_dim);
}

int64_t NumRows(const AttendArgs& args) { return int64_t{args.num_tokens} * args.num_heads; }

SeenRange SeenPositions(const AttendArgs& args, int64_t token) {
  const int64_t after = args.first_position + token + 1;
  return {args.window > 0 && after > args.window ? after - args.window : 0, after};
}

// Returns the range of offsets i, within [0, size), for which token `token` attends to position
// first + i.
SeenRange SeenSlots(const AttendArgs& args, int64_t token, int64_t first, int64_t size) {
  const SeenRange seen = SeenPositions(args, token);
  return {seen.begin > first ? seen.begin - first : 0,
          seen.end - first < size ? seen.end - first : size};
}

// Calls f(row, seen) for each row (a pair of token and query head). The row attends to the
// positions first + i for all i in `seen`, a part of [0, size).
template <class F>
void ForEachRow(const AttendArgs& args, int64_t first, int64_t size, F f) {
  int64_t row = 0;
  for (int64_t token = 0; token < args.num_tokens; ++token) {
    const SeenRange seen = SeenSlots(args, token, first, size);
    for (int64_t head = 0; head < args.num_heads; ++head, ++row) f(row, seen);
  }
}

// Copies the keys and values of up to kStep positions, starting with position `first`, into
// contiguous memory. Used if cache blocks have fewer than 16 positions (kBlock).
template <class T>
void GatherStep(const KvView& kv, int64_t first, SeenRange range, const AttendScratch& scratch,
                StepBlocks<T>& out) {
  const auto* data = static_cast<const T*>(kv.data);
  const int64_t head_dim = kv.head_dim, size = kv.block_size;
  for (int64_t b = out.begin; b < out.end; ++b) {
    T* const keys = static_cast<T*>(scratch.keys) + b * kBlock * head_dim;
    T* const values = static_cast<T*>(scratch.values) + b * kBlock * head_dim;
    const int64_t begin = first + b * kBlock;
    for (int64_t slot = 0; slot < kBlock; slot += size) {
      if (begin + slot + size <= range.begin || begin + slot >= range.end) continue;
      const T* block = data + kv.blocks[(begin + slot) / size] * kv.block_stride;
      for (int64_t d = 0; d < head_dim; ++d) {
        for (int64_t i = 0; i < size; ++i) keys[d * kBlock + slot + i] = block[d * size + i];
      }
      __builtin_memcpy(values + slot * head_dim, block + size * head_dim,
                       static_cast<uint64_t>(size * head_dim) * sizeof(T));
    }
    out.keys[b] = out.next_keys[b] = keys;
    out.values[b] = values;
  }
}

// Where to prefetch keys. If the current keys belong to position p, the prefetch address is:
// address of the keys of position p + `positions`, plus `elements` elements.
struct NextKeys {
  int64_t positions, elements;
};

// An iterator over the keys of a sequence, in groups of kBlock positions.
// REQUIRES: the pool's block_size is a multiple of kBlock.
template <class T>
class BlockWalk {
 public:
  BlockWalk(const KvView& kv, int64_t position)
      : kv_(kv), index_(position / kv.block_size), slot_(position % kv.block_size) {}

  const T* Keys() const {
    return static_cast<const T*>(kv_.data) + kv_.blocks[index_] * kv_.block_stride +
           slot_ * kv_.head_dim;
  }
  void Next() {
    slot_ += kBlock;
    if (slot_ < kv_.block_size) return;
    slot_ = 0;
    ++index_;
  }

 private:
  const KvView& kv_;
  int64_t index_, slot_;
};

// Returns the addresses of the keys and values of the positions in [first, first + kStep), one for
// each block of kBlock positions. Blocks that lie outside `range` get no address. In the other
// blocks, numbers of positions outside `range` are undefined.
template <class T>
StepBlocks<T> LocateStep(const KvView& kv, int64_t first, SeenRange range, NextKeys next,
                         const AttendScratch& scratch) {
  StepBlocks<T> out = {};
  out.begin = range.begin > first ? (range.begin - first) / kBlock : 0;
  out.end = range.end - first < kStep ? (range.end - first + kBlock - 1) / kBlock : kStepBlocks;
  const int64_t head_dim = kv.head_dim, size = kv.block_size;
  if (size < kBlock) {
    GatherStep<T>(kv, first, range, scratch, out);
    return out;
  }
  BlockWalk<T> own(kv, first + out.begin * kBlock);
  BlockWalk<T> ahead(kv, first + out.begin * kBlock + next.positions);
  for (int64_t b = out.begin; b < out.end; ++b) {
    out.keys[b] = out.next_keys[b] = own.Keys();
    if (first + b * kBlock + next.positions < range.end) {
      out.next_keys[b] = ahead.Keys() + next.elements;
    }
    out.values[b] = out.keys[b] + size * head_dim;
    own.Next();
    ahead.Next();
  }
  return out;
}

template <class T>
void LoadQuery(const AttendArgs& args, const Tiles& tiles, const AttendScratch& scratch) {
  const int64_t head_dim = args.kv.head_dim;
  const Vec scale = Broadcast(args.scale * kLog2OfE);
  int64_t token = 0, head = 0;
  for (int64_t tile = 0; tile < tiles.count; ++tile) {
    const int64_t begin = tiles.Begin(tile), rows = tiles.Begin(tile + 1) - begin;
    const float* queries[kAttendRows];
    for (int64_t r = 0; r < rows; ++r) {
      queries[r] = args.query + token * args.token_stride + head * head_dim;
      if (++head < args.num_heads) continue;
      head = 0;
      ++token;
    }
    float* const out = scratch.query + begin * head_dim;
    if constexpr (kHasDots<T>) {
      InterleavePairs<T>(queries, rows, head_dim, scale, scratch.scores, out);
    } else {
      InterleaveFactors(queries, rows, head_dim, out);
      ForEachVector(rows * head_dim, [&](int64_t i, int64_t lanes) {
        StoreSome(out + i, lanes, Mul(LoadSome(out + i, lanes), scale));
      });
    }
  }
}

// Replaces the scores of kStep positions by softmax weights. Updates, for each row (a token and a
// query head), the maximum score and the sum of weights. Stores in s.rescale[row] the factor by
// which the caller must multiply earlier sums of the row.
template <class T>
void WeighStep(const AttendArgs& args, int64_t first, const AttendScratch& s,
               const AttendState& state) {
  ForEachRow(args, first, kStep, [&](int64_t row, SeenRange seen) {
    float* const scores = s.scores + row * kStep;
    s.new_max[row] = seen.size() == kStep ? MaximumOfAll(scores, state.max[row])
                     : !seen.empty()      ? MaximumOf(seen, scores, state.max[row])
                                          : state.max[row];
  });
  const int64_t num_rows = NumRows(args);
  for (int64_t row = 0; row < num_rows; row += Vec::kLanes) {
    Store(s.rescale + row, Exp2(Sub(Load(state.max + row), Load(s.new_max + row))));
  }
  ForEachRow(args, first, kStep, [&](int64_t row, SeenRange seen) {
    if (seen.empty()) return;
    float* const scores = s.scores + row * kStep;
    const float sum = seen.size() == kStep ? WeighAll<T>(scores, s.new_max[row])
                                           : WeighSome<T>(seen, scores, s.new_max[row]);
    state.denominator[row] = state.denominator[row] * s.rescale[row] + sum;
    state.max[row] = s.new_max[row];
  });
}

// Adds the values (V) of kStep positions, multiplied by softmax weights, to the sums of the rows
// [begin, begin + rows). `is_whole`: all rows attend to all kStep positions. `ahead` describes the
// memory to prefetch, or is null.
template <class T>
void AccumulateRows(const AttendArgs& args, const StepBlocks<T>& blocks, int64_t first,
                    int64_t begin, int64_t rows, bool is_whole, FetchAhead* ahead,
                    const AttendScratch& s, const AttendState& state) {
  const float one = 1;
  AccumulateArgs<T> part = {.weights = s.scores + begin * kStep,
                            .rescale = s.rescale + begin,
                            .blocks = &blocks,
                            .begin = 0,
                            .end = kStep,
                            .sums = state.sums + begin * state.sums_stride,
                            .sums_stride = state.sums_stride,
                            .head_dim = args.kv.head_dim,
                            .ahead = ahead};
  const bool fetches = ahead != nullptr;
  if (is_whole) return TileFunctionsOf<T>(rows, fetches).accumulate(part);
  // The rows are in ascending order of position. The first row therefore attends to the lowest
  // range of positions, and the last row to the highest range.
  const auto slots_of = [&](int64_t row) {
    return SeenSlots(args, row / args.num_heads, first, kStep);
  };
  const SeenRange earliest = slots_of(begin), latest = slots_of(begin + rows - 1);
  const bool are_alike = earliest.end == latest.end;
  // The positions before `common_end` are computed for all rows together, the later positions for
  // each row alone. A dot instruction adds the products of two positions. If T has a dot
  // instruction and the rows end at different positions, `common_end` is therefore even.
  const int64_t common_end = kHasDots<T> && !are_alike ? earliest.end / 2 * 2 : earliest.end;
  const bool together = earliest.begin < common_end && earliest.begin == latest.begin;
  if (together) {
    part.begin = earliest.begin;
    part.end = common_end;
    TileFunctionsOf<T>(rows, fetches).accumulate(part);
    if (are_alike) return;
  }
  for (int64_t r = 0; r < rows; ++r) {
    const SeenRange seen = slots_of(begin + r);
    part.begin = together ? common_end : seen.begin;
    part.end = seen.end;
    if (part.begin >= part.end) continue;
    part.weights = s.scores + (begin + r) * kStep;
    part.rescale = together ? &one : s.rescale + begin + r;
    part.sums = state.sums + (begin + r) * state.sums_stride;
    AccumulateTile<T, 1, false>(part);
  }
}

// The KV heads that one attention call computes. Each KV head has its own arguments and working
// memory.
struct AttendGroups {
  int64_t count;
  Tiles tiles;
  AttendArgs args[kAttendGroupsMax];
  AttendScratch scratch[kAttendGroupsMax];
};

template <class T>
AttendGroups GroupsOf(const AttendArgs& args) {
  const int64_t num_rows = NumRows(args), head_dim = args.kv.head_dim;
  AttendGroups groups = {};
  groups.count = args.num_groups;
  groups.tiles = Tiles::Of(num_rows, kAttendRows);
  for (int64_t g = 0; g < groups.count; ++g) {
    AttendArgs& own = groups.args[g];
    own = args;
    own.kv.data = static_cast<const T*>(args.kv.data) + g * args.kv.head_stride;
    own.query += g * args.num_heads * head_dim;
    own.out += g * args.num_heads * head_dim;
    groups.scratch[g] = AttendScratch::In(args.scratch, num_rows, head_dim, g);
  }
  return groups;
}

// These two functions are defined in attend_by_tiles.inl.
template <HasTiles T>
void LoadQueryTiles(const AttendArgs& args, const AttendScratch& s);
template <HasTiles T>
void AttendStepByTiles(const AttendArgs& args, int64_t first, const StepBlocks<T>& blocks,
                       const AttendScratch& s, const AttendState& state);

template <class T>
void AttendStep(const AttendArgs& args, int64_t first, const StepBlocks<T>& blocks,
                const Tiles& tiles, const AttendScratch& s, const AttendState& state) {
  // True if all tokens attend to all kStep positions. Only the first and the last token are
  // checked, because the positions of the tokens ascend.
  const bool is_whole = SeenSlots(args, 0, first, kStep).end == kStep &&
                        SeenSlots(args, args.num_tokens - 1, first, kStep).begin == 0;
  FetchAhead values(blocks, blocks.values, tiles.count);
  for (int64_t tile = 0; tile < tiles.count; ++tile) {
    const int64_t begin = tiles.Begin(tile), rows = tiles.Begin(tile + 1) - begin;
    TileFunctionsOf<T>(rows, values.IsFor(tile))
        .score({.query = s.query + begin * args.kv.head_dim,
                .blocks = &blocks,
                .head_dim = args.kv.head_dim,
                .scores = s.scores + begin * kStep,
                .ahead = &values});
  }
  WeighStep<Arithmetic<T>>(args, first, s, state);
  FetchAhead keys(blocks, blocks.next_keys, tiles.count);
  for (int64_t tile = 0; tile < tiles.count; ++tile) {
    const int64_t begin = tiles.Begin(tile), rows = tiles.Begin(tile + 1) - begin;
    AccumulateRows<T>(args, blocks, first, begin, rows, is_whole,
                      keys.IsFor(tile) ? &keys : nullptr, s, state);
  }
}

// Computes the attention sums of all KV heads over split `split`, which is a range of kSplit
// positions.
template <class T>
void AttendSplit(const AttendGroups& groups, int64_t split, const AttendState* states) {
  const AttendArgs& args = groups.args[0];
  const SeenRange range = {SeenPositions(args, 0).begin, args.first_position + args.num_tokens};
  const int64_t split_end = (split + 1) * kSplit < range.end ? (split + 1) * kSplit : range.end;
  int64_t first = split * kSplit;
  if (range.begin > first) first = range.begin / kStep * kStep;
  for (int64_t g = 0; g < groups.count; ++g) states[g].Clear(groups.tiles.num_rows);
  for (; first < split_end; first += kStep) {
    for (int64_t g = 0; g < groups.count; ++g) {
      const bool is_last = g + 1 == groups.count;
      const int64_t stride = args.kv.head_stride;
      const NextKeys next = {is_last ? kStep : 0, is_last ? -g * stride : stride};
      const KvView& kv = groups.args[g].kv;
      const StepBlocks<T> blocks = LocateStep<T>(kv, first, range, next, groups.scratch[g]);
      if constexpr (HasTiles<T>) {
        AttendStepByTiles<T>(groups.args[g], first, blocks, groups.scratch[g], states[g]);
      } else {
        AttendStep<T>(groups.args[g], first, blocks, groups.tiles, groups.scratch[g], states[g]);
      }
    }
  }
}

// Adds the sums `part` to the sums `total`. `part` covers the kSplit positions of split `split`,
// and `total` covers all earlier positions.
void FoldSplit(const AttendArgs& args, int64_t split, const AttendState& total,
               const AttendState& part) {
  const int64_t stride = total.sums_stride;
  ForEachRow(args, split * kSplit, kSplit, [&](int64_t row, SeenRange seen) {
    if (seen.empty()) return;
    float* const sums = total.sums + row * stride;
    const float* const more = part.sums + row * stride;
    // If `total` has no sums of this row yet, copies the sums of `part` to `total`.
    if (SeenPositions(args, row / args.num_heads).begin >= split * kSplit) {
      total.max[row] = part.max[row];
      total.denominator[row] = part.denominator[row];
      for (int64_t i = 0; i < stride; i += Vec::kLanes) Store(sums + i, Load(more + i));
      return;
    }
    const Vec before = Broadcast(total.max[row]), now = Broadcast(part.max[row]);
    const Vec max = Max(before, now);
    const Vec rescale = Exp2(Sub(before, max)), weight = Exp2(Sub(now, max));
    total.max[row] = ReduceMax(max);
    total.denominator[row] = ReduceMax(MultiplyAdd(
        weight, Broadcast(part.denominator[row]), Mul(rescale, Broadcast(total.denominator[row]))));
    for (int64_t i = 0; i < stride; i += Vec::kLanes) {
      Store(sums + i, MultiplyAdd(weight, Load(more + i), Mul(rescale, Load(sums + i))));
    }
  });
}

template <class T>
void WriteRows(const AttendArgs& args, const AttendState& state) {
  const int64_t num_rows = NumRows(args), head_dim = args.kv.head_dim;
  for (int64_t row = 0; row < num_rows; ++row) {
    const Vec inverse = Broadcast(1 / state.denominator[row]);
    const float* const sums = state.sums + row * state.sums_stride;
    float* const out =
        args.out + row / args.num_heads * args.token_stride + row % args.num_heads * head_dim;
    int64_t d = 0;
    for (; d + Vec::kLanes < head_dim; d += 2 * Vec::kLanes) {
      Vec a = Mul(Load(sums + d), inverse), b = Mul(Load(sums + d + Vec::kLanes), inverse);
      PutInOrder(static_cast<const T*>(nullptr), a, b);
      Store(out + d, a);
      const int64_t left = head_dim - d - Vec::kLanes;
      StoreSome(out + d + Vec::kLanes, left < Vec::kLanes ? left : Vec::kLanes, b);
    }
    if (d < head_dim) StoreSome(out + d, head_dim - d, Mul(Load(sums + d), inverse));
  }
}

template <class T>
void Attend(const AttendArgs& args) {
  const int64_t num_rows = NumRows(args), head_dim = args.kv.head_dim;
  const int64_t size = AttendState::Floats(num_rows, head_dim);
  const AttendGroups groups = GroupsOf<T>(args);
  AttendState totals[kAttendGroupsMax], parts[kAttendGroupsMax];
  for (int64_t g = 0; g < groups.count; ++g) {
    const AttendScratch& s = groups.scratch[g];
    if constexpr (HasTiles<T>) {
      LoadQueryTiles<T>(groups.args[g], s);
    } else {
      LoadQuery<Arithmetic<T>>(groups.args[g], groups.tiles, s);
    }
    totals[g] = AttendState::In(s.states[0], num_rows, head_dim);
    parts[g] = AttendState::In(s.states[1], num_rows, head_dim);
  }
  float* memory = args.states;
  for (int64_t split = args.split_begin; split < args.split_end; ++split) {
    if (args.states != nullptr) {
      for (int64_t g = 0; g < groups.count; ++g, memory += size) {
        parts[g] = AttendState::In(memory, num_rows, head_dim);
      }
    }
    const bool is_first = args.states == nullptr && split == args.split_begin;
    AttendSplit<T>(groups, split, is_first ? totals : parts);
    if (args.states != nullptr || is_first) continue;
    for (int64_t g = 0; g < groups.count; ++g) {
      FoldSplit(groups.args[g], split, totals[g], parts[g]);
    }
  }
  if (args.states != nullptr) return;
  for (int64_t g = 0; g < groups.count; ++g) WriteRows<T>(groups.args[g], totals[g]);
}

template <class T>
void CombineSplits(const AttendArgs& args) {
  const int64_t num_rows = NumRows(args), head_dim = args.kv.head_dim;
  const int64_t size = AttendState::Floats(num_rows, head_dim);
  const AttendGroups groups = GroupsOf<T>(args);
  const auto state_of = [&](int64_t split, int64_t group) {
    const int64_t index = (split - args.split_begin) * groups.count + group;
    return AttendState::In(args.states + index * size, num_rows, head_dim);
  };
  for (int64_t g = 0; g < groups.count; ++g) {
    const AttendState total = state_of(args.split_begin, g);
    for (int64_t split = args.split_begin + 1; split < args.split_end; ++split) {
      FoldSplit(groups.args[g], split, total, state_of(split, g));
    }
    WriteRows<T>(groups.args[g], total);
  }
}
