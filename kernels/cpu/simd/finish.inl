// What is done with the sums of a product before they leave the processor's caches. Included by
// every instruction set's file, inside its namespace.
#pragma once

#include "kernels/cpu/simd/formats.inl"
#include "kernels/cpu/simd/vector_math.inl"

struct PanelSums {
  const float* sums;  // [num_rows][sums_stride]
  int64_t sums_stride;
  int64_t row, num_rows;
  int64_t panel;
};

inline Vec AddBias(Vec value, const float* bias, int64_t output, int64_t lanes) {
  return bias == nullptr ? value : Add(value, LoadSome(bias + output, lanes));
}

template <class Format>
void FinishPanel(const MultiplyArgs& args, const PanelSums& panel) {
  const float* const scales =
      args.output_scales == nullptr ? nullptr : args.output_scales + panel.panel * kPanelWidth;
  const bool is_silu = args.finish == Finish::kSilu;
  const int64_t num_outputs = is_silu ? args.num_outputs / 2 : args.num_outputs;
  const int64_t first = panel.panel * (is_silu ? kPanelWidth / 2 : kPanelWidth);
  const auto lanes_at = [&](int64_t output) {
    return num_outputs - output < Vec::kLanes ? num_outputs - output : int64_t{Vec::kLanes};
  };
  for (int64_t r = 0; r < panel.num_rows; ++r) {
    const float* const sums = panel.sums + r * panel.sums_stride;
    const float row_scale = args.row_scales == nullptr ? 1 : args.row_scales[panel.row + r];
    float* const y = args.y + (panel.row + r) * args.y_stride;
    const auto value = [&](int v) {
      const int64_t lane = v * Vec::kLanes;
      return Format::Finished(Format::LoadSum(sums + lane), scales + lane, row_scale);
    };
    constexpr int kHalf = kPanelVectors / 2;
    for (int v = 0; v < (is_silu ? kHalf : kPanelVectors); ++v) {
      const int64_t output = first + v * Vec::kLanes, lanes = lanes_at(output);
      if (lanes <= 0) break;
      Vec result = AddBias(value(v), args.bias, output, lanes);
      if (is_silu) {
        const Vec up = AddBias(value(v + kHalf), args.bias, num_outputs + output, lanes);
        result = Mul(Silu(result), up);
      } else if (args.finish == Finish::kAdd) {
        result = Add(LoadSome(y + output, lanes), result);
      }
      StoreSome(y + output, lanes, result);
    }
  }
}

void FinishRow(const FinishRowArgs& args) {
  const bool is_silu = args.finish == Finish::kSilu;
  const int64_t num_outputs = is_silu ? args.num_outputs / 2 : args.num_outputs;
  const auto value = [&](int64_t output, int64_t lanes) {
    const Vec raw = LoadSome(static_cast<const float*>(args.sums) + output, lanes);
    if (args.output_scales == nullptr) return AddBias(raw, args.bias, output, lanes);
    const Vec scale = LoadSome(args.output_scales + output, lanes);
    const Vec scaled = Mul(Mul(ToFloats(IntsIn(raw)), scale), Broadcast(args.row_scale));
    return AddBias(scaled, args.bias, output, lanes);
  };
  ForEachVector(num_outputs, [&](int64_t i, int64_t lanes) {
    Vec result = value(i, lanes);
    if (is_silu) {
      result = Mul(Silu(result), value(num_outputs + i, lanes));
    } else if (args.finish == Finish::kAdd) {
      result = Add(LoadSome(args.y + i, lanes), result);
    }
    StoreSome(args.y + i, lanes, result);
  });
}
