// The table of an instruction set's functions. Included by its file, inside its namespace, last.
#pragma once

#include "kernels/cpu/simd/attend.inl"
#include "kernels/cpu/simd/multiply.inl"
#include "kernels/cpu/simd/pack_rows.inl"
#include "kernels/cpu/simd/rows.inl"

template <class Format>
constexpr Product ProductOf() {
  return {.panel_width = Format::kWidth,
          .tile_rows = Format::kRows,
          .cols_per_step = Format::kColsPerStep,
          .interleaves_pairs = Format::kInterleavesPairs,
          .offsets_factors = Format::kOffsetsFactors,
          .num_groups = NumGroups<Format>,
          .pack_rows = PackRows<Format>,
          .multiply = Multiply<Format>};
}

constexpr Kernels kKernels = {
    .name = kName,
    .pair_lanes = Vec::kLanes,
    .products = {ProductOf<FloatFormat<float>>(), ProductOf<FloatFormat<F16>>(),
                 ProductOf<FloatFormat<BF16>>(), ProductOf<Int8Format>()},
    .finish_row = FinishRow,
    .quantize_row = QuantizeRow,
    .attend_scratch_floats = AttendScratchFloats,
    .attend_state_floats = AttendStateFloats,
    .attend = {Attend<float>, nullptr, Attend<BF16>},
    .attend_combine = {CombineSplits<float>, nullptr, CombineSplits<BF16>},
    .rms_norm = RmsNorm,
    .rotate = Rotate,
    .exp = ExpOf,
    .exp2 = Exp2Of,
    .chunk_maxima = ChunkMaxima,
    .weigh = Weigh,
};
