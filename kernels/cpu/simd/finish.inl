// Applies an operation, for example the addition of a bias, to the sums of a matrix product while
// these sums are in the CPU caches. The source file of every instruction set includes this file
// inside its namespace.
#pragma once

#include "kernels/cpu/simd/formats.inl"
#include "kernels/cpu/simd/vector_math.inl"

struct PanelSums {
  const float* sums;  // shape [num_rows][sums_stride]
  int64_t sums_stride, up_offset;
  int64_t row, num_rows;
  int64_t panel;
};

inline Vec AddBias(Vec value, const float* bias, int64_t output, int64_t lanes) {
  return bias == nullptr ? value : Add(value, LoadSome(bias + output, lanes));
}

// Applies args.finish to the sums of panel `panel.panel` (a group of weight rows). With kSilu, the
// panel holds rows of the gate matrix. The sums of the matching rows of the up matrix are stored
// `panel.up_offset` elements later.
template <class Format>
void FinishPanel(const MultiplyArgs& args, const PanelSums& panel) {
  const bool is_silu = args.finish == Finish::kSilu;
  const int64_t num_outputs = is_silu ? args.num_outputs / 2 : args.num_outputs;
  const int64_t first = (is_silu ? panel.panel / 2 : panel.panel) * Format::kWidth;
  const float* const scales =
      args.output_scales == nullptr ? nullptr : args.output_scales + panel.panel * Format::kWidth;
  for (int64_t r = 0; r < panel.num_rows; ++r) {
    const float* const sums = panel.sums + r * panel.sums_stride;
    const float row_scale = args.row_scales == nullptr ? 1 : args.row_scales[panel.row + r];
    float* const y = args.y + (panel.row + r) * args.y_stride;
    for (int64_t lane = 0; lane < Format::kWidth && first + lane < num_outputs;
         lane += Vec::kLanes) {
      const int64_t output = first + lane, left = num_outputs - output;
      const int64_t lanes = left < Vec::kLanes ? left : int64_t{Vec::kLanes};
      const Vec value = Format::Finished(Format::LoadSum(sums + lane), scales, lane, row_scale);
      Vec result = AddBias(value, args.bias, output, lanes);
      if (is_silu) {
        const auto up_sum = Format::LoadSum(sums + panel.up_offset + lane);
        const Vec up = Format::Finished(up_sum, scales, Format::kWidth + lane, row_scale);
        result = Mul(Silu(result), AddBias(up, args.bias, num_outputs + output, lanes));
      } else if (args.finish == Finish::kAdd) {
        result = Add(LoadSome(y + output, lanes), result);
      }
      StoreSome(y + output, lanes, result);
    }
  }
}
