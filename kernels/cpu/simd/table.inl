// Defines the table of functions (Kernels) of an instruction set. The source file of the
// instruction set includes this file last, inside its namespace.
#pragma once

#include "kernels/cpu/simd/attention/attend.inl"
#include "kernels/cpu/simd/multiply.inl"
#include "kernels/cpu/simd/pack_rows.inl"
#include "kernels/cpu/simd/rows.inl"

template <class Format>
constexpr Product ProductOf() {
  return {.panel_width = Format::kWidth,
          .tile_rows = Format::kRows,
          .cols_per_step = Format::kColsPerStep,
          .steps_multiple = 1,
          .interleaves_pairs = Format::kInterleavesPairs,
          .offsets_factors = Format::kOffsetsFactors,
          .rounds_activations = Format::kRoundsActivations,
          .num_groups = NumGroups<Format>,
          .pack_rows = PackRows<Format>,
          .multiply = Multiply<Format>};
}

// Computes attention with the dot instruction of T if FitsDots(head_dim), otherwise without it. The
// choice depends only on head_dim, so that the bits of a row do not depend on other rows of the
// batch.
template <class T>
void AttendBF16(const AttendArgs& args) {
  FitsDots(args.kv.head_dim) ? Attend<T>(args) : Attend<BF16>(args);
}
template <class T>
void CombineBF16(const AttendArgs& args) {
  FitsDots(args.kv.head_dim) ? CombineSplits<T>(args) : CombineSplits<BF16>(args);
}
using AttendFunction = void (*)(const AttendArgs& args);
template <class T>
constexpr AttendFunction kAttendBF16 = kHasDots<T> ? AttendBF16<T> : Attend<BF16>;
template <class T>
constexpr AttendFunction kCombineBF16 = kHasDots<T> ? CombineBF16<T> : CombineSplits<BF16>;

using BF16Format =
    std::conditional_t<kHasDots<DottedBF16>, DotFormat<DottedBF16>, FloatFormat<BF16>>;

constexpr Kernels kKernels = {
    .name = kName,
    .pair_lanes = Vec::kLanes,
    .products = {ProductOf<FloatFormat<float>>(), ProductOf<FloatFormat<F16>>(),
                 ProductOf<BF16Format>(), ProductOf<Int8Format>()},
    .quantize_row = QuantizeRow,
    .narrow_row = NarrowRow,
    .attend_scratch_floats = AttendScratchFloats,
    .attend_state_floats = AttendStateFloats,
    .attend = {Attend<float>, nullptr, kAttendBF16<DottedBF16>},
    .attend_combine = {CombineSplits<float>, nullptr, kCombineBF16<DottedBF16>},
    .rms_norm = RmsNorm,
    .rotate = Rotate,
    .exp = ExpOf,
    .exp2 = Exp2Of,
    .chunk_maxima = ChunkMaxima,
    .weigh = Weigh,
};
