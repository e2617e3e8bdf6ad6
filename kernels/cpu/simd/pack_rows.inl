// Converts rows of activations to the layout that the matrix product reads. The source file of
// every instruction set includes this file inside its namespace.
#pragma once

#include "kernels/cpu/simd/formats.inl"
#include "kernels/cpu/simd/rows.inl"
#include "kernels/cpu/simd/tiles.inl"

// Rounds a row to eight-bit numbers like QuantizeRow of kernels/quantize.h, and returns the scale
// of the row. Calls store(column, lanes, numbers) for each vector of the row. `numbers` is zero in
// lanes past the end of the row.
template <class Store>
float RoundRow(const float* x, int64_t size, const Store& store) {
  constexpr float kLeastMagnitude = 1e-30f;
  const Vec infinity = Broadcast(__builtin_inff());
  Vec largest = Zero();
  Mask bad = NotLess(Zero(), infinity);
  ForEachVector(size, [&](int64_t i, int64_t lanes) {
    const Vec value = LoadSome(x + i, lanes);
    const Vec magnitude = Max(value, Sub(Zero(), value));
    bad = Or(bad, NotLess(magnitude, infinity));
    largest = Max(magnitude, largest);
  });
  const float max = ReduceMax(largest);
  const bool is_finite = !Any(bad), is_zero = !is_finite || max < kLeastMagnitude;
  const Vec inverse = Broadcast(is_zero ? 0 : 127 / max);
  ForEachVector(size, [&](int64_t i, int64_t lanes) {
    const Vec value = is_zero ? Zero() : LoadSome(x + i, lanes);
    store(i, lanes, RoundToInts(Mul(value, inverse)));
  });
  return !is_finite ? __builtin_nanf("") : is_zero ? 0 : max / 127;
}

float QuantizeRow(const float* x, int64_t size, int8_t* numbers) {
  using Ints = int32_t __attribute__((vector_size(4 * Vec::kLanes)));
  using Bytes = int8_t __attribute__((vector_size(Vec::kLanes)));
  return RoundRow(x, size, [&](int64_t i, int64_t lanes, IntVec rounded) {
    Ints whole;
    StoreInts(&whole, rounded);
    const Bytes narrow = __builtin_convertvector(whole, Bytes);
    __builtin_memcpy(numbers + i, &narrow, static_cast<uint64_t>(lanes));
  });
}

using Factors4 = float __attribute__((vector_size(16)));

// Copies from[r][step + i] to out[i * stride + r], for r in [0, 4) and i in [0, 4). An element has
// four bytes.
inline void InterleaveFour(const float* const* from, int64_t step, int64_t stride, float* out) {
  Factors4 rows[4];
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r) __builtin_memcpy(&rows[r], from[r] + step, sizeof(rows[r]));
  const Factors4 low01 = __builtin_shufflevector(rows[0], rows[1], 0, 4, 1, 5);
  const Factors4 high01 = __builtin_shufflevector(rows[0], rows[1], 2, 6, 3, 7);
  const Factors4 low23 = __builtin_shufflevector(rows[2], rows[3], 0, 4, 1, 5);
  const Factors4 high23 = __builtin_shufflevector(rows[2], rows[3], 2, 6, 3, 7);
  const Factors4 steps[4] = {__builtin_shufflevector(low01, low23, 0, 1, 4, 5),
                             __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
                             __builtin_shufflevector(high01, high23, 0, 1, 4, 5),
                             __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) __builtin_memcpy(out + i * stride, &steps[i], sizeof(steps[i]));
}

// Copies from[r][step + i] to out[i * stride + r], for r in [0, 2) and i in [0, 4). An element has
// four bytes.
inline void InterleaveTwo(const float* const* from, int64_t step, int64_t stride, float* out) {
  Factors4 rows[2];
#pragma GCC unroll 2
  for (int r = 0; r < 2; ++r) __builtin_memcpy(&rows[r], from[r] + step, sizeof(rows[r]));
  const Factors4 low = __builtin_shufflevector(rows[0], rows[1], 0, 4, 1, 5);
  const Factors4 high = __builtin_shufflevector(rows[0], rows[1], 2, 6, 3, 7);
  __builtin_memcpy(out, &low, 8);
  __builtin_memcpy(out + stride, reinterpret_cast<const char*>(&low) + 8, 8);
  __builtin_memcpy(out + 2 * stride, &high, 8);
  __builtin_memcpy(out + 3 * stride, reinterpret_cast<const char*>(&high) + 8, 8);
}

// Copies from[r][s] to out[s * rows + r], for r in [0, rows) and s in [0, steps). An element has
// four bytes.
inline void InterleaveFactors(const float* const* from, int64_t rows, int64_t steps, float* out) {
  if (rows == 1) {
    __builtin_memcpy(out, from[0], static_cast<uint64_t>(steps * kFactorBytes));
    return;
  }
  const int64_t whole_rows = rows / 4 * 4, whole_steps = steps / 4 * 4;
  for (int64_t r = 0; r < whole_rows; r += 4) {
    for (int64_t step = 0; step < whole_steps; step += 4) {
      InterleaveFour(from + r, step, rows, out + step * rows + r);
    }
    for (int64_t step = whole_steps; step < steps; ++step) {
      for (int64_t i = r; i < r + 4; ++i) out[step * rows + i] = from[i][step];
    }
  }
  int64_t r = whole_rows;
  if (r + 2 <= rows) {
    for (int64_t step = 0; step < whole_steps; step += 4) {
      InterleaveTwo(from + r, step, rows, out + step * rows + r);
    }
    for (int64_t step = whole_steps; step < steps; ++step) {
      for (int64_t i = r; i < r + 2; ++i) out[step * rows + i] = from[i][step];
    }
    r += 2;
  }
  for (; r < rows; ++r) {
    for (int64_t step = 0; step < steps; ++step) out[step * rows + r] = from[r][step];
  }
}

template <class Format>
void PackRows(const PackRowsArgs& args) {
  const int64_t steps = (args.cols + Format::kColsPerStep - 1) / Format::kColsPerStep;
  const int64_t row_floats = PackedRowFloats(args.cols);
  const Tiles tiles = Tiles::Of(args.num_rows, Format::kRows);
  for (int64_t tile = args.tile_begin; tile < args.tile_end; ++tile) {
    const int64_t begin = tiles.Begin(tile), rows = tiles.Begin(tile + 1) - begin;
    const float* factors[Format::kRows];
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t index = args.indices == nullptr ? begin + r : args.indices[begin + r];
      const float* x = args.x + index * args.cols;
      float* const own = args.row + r * row_floats;
      if (args.norm_weight != nullptr) {
        RmsNorm(x, args.norm_weight, args.epsilon, args.cols, own);
        x = own;
      }
      if constexpr (Format::kRoundsActivations) {
        auto* const numbers = reinterpret_cast<uint16_t*>(own);
        NarrowRow(x, args.cols, numbers);
        // The last factor of a row with an odd number of columns holds a zero.
        __builtin_memset(numbers + args.cols, 0, sizeof(uint16_t));
        x = own;
      } else if constexpr (Format::kColsPerStep > 1) {
        // The rounded numbers overwrite the f32 row. Each f32 number is read before it is
        // overwritten.
        auto* const numbers = reinterpret_cast<char*>(own);
        args.scales[begin + r] = RoundRow(x, args.cols, [&](int64_t i, int64_t, IntVec rounded) {
          StoreNumbers(numbers + i * kFactorBytes / Format::kColsPerStep, rounded);
        });
        x = own;
      }
      factors[r] = x;
    }
    InterleaveFactors(factors, rows, steps, static_cast<float*>(args.packed) + begin * steps);
  }
}
