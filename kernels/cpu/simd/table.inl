// The table of an instruction set's functions. Included by its file, inside its namespace, last.
#pragma once

#include "kernels/cpu/simd/attend.inl"
#include "kernels/cpu/simd/multiply.inl"
#include "kernels/cpu/simd/rows.inl"

constexpr Kernels kKernels = {
    .name = kName,
    .panel_width = kPanelWidth,
    .tile_rows = kTileRows,
    .pack_rows = PackRows,
    .multiply = {Multiply<float>, Multiply<F16>, Multiply<BF16>},
    .attend_scratch_floats = AttendScratchFloats,
    .attend_state_floats = AttendStateFloats,
    .attend = {Attend<float>, Attend<F16>, Attend<BF16>},
    .attend_combine = {CombineSplits<float>, CombineSplits<F16>, CombineSplits<BF16>},
    .rms_norm = RmsNorm,
    .rotate = Rotate,
    .silu_multiply = SiluMultiply,
    .add = AddTo,
    .exp = ExpOf,
    .chunk_maxima = ChunkMaxima,
    .weigh = Weigh,
};
