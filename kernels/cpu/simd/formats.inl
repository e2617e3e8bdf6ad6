// Defines the weight formats of a matrix product, and how weights of each format are loaded,
// multiplied and summed. The source file of every instruction set includes this file inside its
// namespace, after it defines Vec (a SIMD vector of f32) and IntVec.
#pragma once

#include "kernels/cpu/simd/vector_math.inl"

constexpr int64_t kFactorBytes = 4;

// The format of floating-point weights (f32, f16 or bf16), which are widened to f32 in registers.
template <class T>
struct FloatFormat {
  using Factor = float;
  using Weights = Vec;
  using Sum = Vec;
  // Format of weights that have been converted to f32 in advance, because many input rows are
  // multiplied with them.
  using Wide = FloatFormat<float>;
  // Number of columns that one iteration of the innermost loop multiplies.
  static constexpr int kUnroll = 4;
  // Number of vectors that hold one column of a panel (a group of weight rows).
  static constexpr int kVectors = kPanelVectors;
  // Maximum number of input rows of a tile. The inner loop multiplies one tile with the weights.
  static constexpr int kRows = kTileRows;
  static constexpr int64_t kWidth = kVectors * Vec::kLanes;
  static constexpr int64_t kColsPerStep = 1;
  static constexpr int64_t kStepBytes = kWidth * static_cast<int64_t>(sizeof(T));
  static constexpr bool kInterleavesPairs = kPairsInterleave<T>;
  static constexpr bool kOffsetsFactors = false;
  static constexpr bool kRoundsActivations = false;

  static void LoadWeights(const char* panel, Weights weights[kVectors]) {
    const auto* const from = reinterpret_cast<const T*>(panel);
    // Each iteration loads two vectors. If kVectors is odd, the last vector is loaded alone.
#pragma GCC unroll 4
    for (int v = 0; v + 1 < kVectors; v += 2) {
      WidenPair(from + v * Vec::kLanes, weights[v], weights[v + 1]);
    }
    if constexpr (kVectors % 2 == 1) {
      weights[kVectors - 1] = Widen(from + (kVectors - 1) * Vec::kLanes);
    }
  }
  // Widens `steps` columns of a panel (a group of kWidth weight rows) to f32 and stores the numbers
  // in `wide`, of shape [steps][kWidth].
  static void WidenSteps(const char* panel, int64_t steps, char* wide) {
    auto* to = reinterpret_cast<float*>(wide);
    for (int64_t step = 0; step < steps; ++step) {
      Weights weights[kVectors];
      LoadWeights(panel + step * kStepBytes, weights);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) Store(to + v * Vec::kLanes, weights[v]);
      to += kWidth;
    }
  }
  static Vec BroadcastFactor(const char* x) {
    return Broadcast(*reinterpret_cast<const Factor*>(x));
  }
  static Sum Start(const int32_t*) { return Zero(); }
  static Sum LoadSum(const float* from) { return Load(from); }
  static void StoreSum(float* to, Sum sum) { Store(to, sum); }
  static Sum MultiplyAdd(Vec factor, Weights weights, Sum sum) {
    return simd::MultiplyAdd(factor, weights, sum);
  }
  static Vec Finished(Sum sum, const float*, int64_t, float) { return sum; }
};

// The format of eight-bit weights, whose products are summed in 32-bit whole numbers.
struct Int8Format {
  using Weights = IntWeights;
  using Sum = IntVec;
  using Wide = Int8Format;
  static constexpr int kUnroll = kInt8Unroll;
  static constexpr int kVectors = kInt8PanelVectors;
  static constexpr int kRows = kInt8TileRows;
  static constexpr int64_t kWidth = kVectors * Vec::kLanes;
  static constexpr int64_t kColsPerStep = kColsPerFactor;
  static constexpr int64_t kStepBytes = kWidth * kColsPerFactor;
  static constexpr bool kInterleavesPairs = false;
  static constexpr bool kOffsetsFactors = kFactorOffset != 0;
  static constexpr bool kRoundsActivations = false;

  static void LoadWeights(const char* panel, Weights weights[kVectors]) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      weights[v] = WidenInt8(panel + v * Vec::kLanes * kColsPerFactor);
    }
  }
  static IntVec BroadcastFactor(const char* x) { return BroadcastInts(x); }
  static Sum Start(const int32_t* starts) {
    return starts != nullptr ? LoadInts(starts) : LoadInts(kNoInts);
  }
  static Sum LoadSum(const float* from) { return LoadInts(from); }
  static void StoreSum(float* to, Sum sum) { StoreInts(to, sum); }
  static Sum MultiplyAdd(IntVec factor, Weights weights, Sum sum) {
    return MultiplyAddInts(factor, weights, sum);
  }
  // Converts the lanes of `sum` to f32. Multiplies lane i by output_scales[lane + i], then by
  // `row_scale`.
  static Vec Finished(Sum sum, const float* output_scales, int64_t lane, float row_scale) {
    return Mul(Mul(ToFloats(sum), Load(output_scales + lane)), Broadcast(row_scale));
  }

 private:
  static constexpr int32_t kNoInts[Vec::kLanes] = {};
};

// The format of bf16 weights on a CPU with a fast bf16 dot instruction. T::Dot executes the
// instruction. The input rows are rounded to bf16. An element of a panel (a group of weight rows)
// and of a packed input row holds two consecutive columns.
template <class T>
struct DotFormat : FloatFormat<BF16> {
  using Weights = IntVec;
  using Wide = DotFormat;
  static constexpr int64_t kColsPerStep = 2;
  static constexpr int64_t kStepBytes = kWidth * kFactorBytes;
  static constexpr bool kInterleavesPairs = false;
  static constexpr bool kRoundsActivations = true;

  static void LoadWeights(const char* panel, Weights weights[kVectors]) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      weights[v] = LoadInts(panel + v * Vec::kLanes * kFactorBytes);
    }
  }
  static IntVec BroadcastFactor(const char* x) { return BroadcastInts(x); }
  static Sum MultiplyAdd(IntVec factor, Weights weights, Sum sum) {
    return T::Dot(factor, weights, sum);
  }
};
