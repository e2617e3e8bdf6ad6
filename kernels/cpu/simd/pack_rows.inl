// Activations in the form that a product reads. Included by every instruction set's file, inside its
// namespace.
#pragma once

#include "kernels/cpu/simd/formats.inl"
#include "kernels/cpu/simd/rows.inl"
#include "kernels/cpu/simd/tiles.inl"

// QuantizeRow of kernels/quantize.h, bit for bit: calls store(column, lanes, numbers) for one vector
// after the other and returns the scale. Numbers past the end of the row are zeros.
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
  return RoundRow(x, size, [&](int64_t i, int64_t lanes, IntVec rounded) {
    int32_t whole[Vec::kLanes];
    StoreInts(whole, rounded);
    for (int64_t lane = 0; lane < lanes; ++lane) {
      numbers[i + lane] = static_cast<int8_t>(whole[lane]);
    }
  });
}

// [rows][steps] factors to [steps][rows].
inline void InterleaveFactors(const float* const* from, int64_t rows, int64_t steps, float* out) {
  if (rows == 1) {
    __builtin_memcpy(out, from[0], static_cast<uint64_t>(steps * kFactorBytes));
    return;
  }
  for (int64_t step = 0; step < steps; ++step) {
    for (int64_t r = 0; r < rows; ++r) *out++ = from[r][step];
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
      if constexpr (Format::kColsPerStep > 1) {
        // Numbers are no wider than what they are made of: those ahead are still unread.
        auto* const numbers = reinterpret_cast<char*>(own);
        args.scales[begin + r] =
            RoundRow(x, args.cols, [&](int64_t i, int64_t, IntVec rounded) {
              StoreNumbers(numbers + i * kFactorBytes / Format::kColsPerStep, rounded);
            });
        x = own;
      }
      factors[r] = x;
    }
    InterleaveFactors(factors, rows, steps,
                      static_cast<float*>(args.packed) + begin * steps);
  }
}
