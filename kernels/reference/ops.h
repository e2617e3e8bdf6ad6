// What each operation of a Backend computes: plain loops over f32 rows, to be read beside the
// papers. Sums are accumulated in double; every backend is held to these by tests/conformance.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/tensor.h"

namespace incipit::reference {

// out[i] = x[i] / sqrt(mean(x^2) + epsilon) * weight[i].
// (Zhang, Sennrich: "Root mean square layer normalization", 2019.) `out` may be `x`.
void RmsNorm(std::span<const float> x, std::span<const float> weight, float epsilon,
             std::span<float> out);

// y[n] = sum over k of x[k] * weight[n][k].
void Multiply(std::span<const float> x, const ConstTensorView& weight, std::span<float> y);

// out[i] = weight[row][i].
void Gather(const ConstTensorView& weight, int64_t row, std::span<float> out);

// The same with x and the rows of the weight rounded to eight bits (kernels/quantize.h): the sum of
// whole numbers times the row's scale, then times that of x.
void MultiplyInt8(std::span<const float> x, const ConstTensorView& weight, std::span<float> y);
void GatherInt8(const ConstTensorView& weight, int64_t row, std::span<float> out);

// y += x.
void Add(std::span<const float> x, std::span<float> y);

// Rotates the pair (head[i], head[i + half]) by the angle whose cosine and sine are rope[i] and
// rope[half + i]. (Su et al.: "RoFormer", 2021; the halves are paired as Llama checkpoints are.)
void Rotate(std::span<const float> rope, std::span<float> head);

// out[i] = SiLU(gate[i]) * up[i], SiLU(x) = x / (1 + exp(-x)).
// (Shazeer: "GLU variants improve transformer", 2020.)
void SiluMultiply(std::span<const float> gate, std::span<const float> up, std::span<float> out);

// out = softmax(scale * query . keys[t]) . values[t], over the rows t of `keys` and `values`, both
// [positions, query.size()]. (Vaswani et al.: "Attention is all you need", 2017.)
struct AttendArgs {
  std::span<const float> query, keys, values;
  float scale = 0;
};
void Attend(const AttendArgs& args, std::span<float> out);

}  // namespace incipit::reference
