// Declares the operations of a Backend as plain loops over f32 rows. The loops accumulate sums in
// double. tests/conformance compares every backend with these functions.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/tensor.h"

namespace incipit::reference {

// Computes out[i] = x[i] / sqrt(m + epsilon) * weight[i], where m is the mean of the squares of
// `x`. `out` may be `x`. (Zhang, Sennrich: "Root mean square layer normalization", 2019.)
void RmsNorm(std::span<const float> x, std::span<const float> weight, float epsilon,
             std::span<float> out);

// Computes y[n] = sum over k of x[k] * weight[n][k].
void Multiply(std::span<const float> x, const ConstTensorView& weight, std::span<float> y);

// Computes out[i] = weight[row][i].
void Gather(const ConstTensorView& weight, int64_t row, std::span<float> out);

// Computes y[n] = sum over k of x[k] * weight[n][k], with `x` and each row of `weight` rounded to
// eight bits (kernels/quantize.h). Each sum of whole numbers is multiplied by the scale of the
// weight row, then by the scale of `x`.
void MultiplyInt8(std::span<const float> x, const ConstTensorView& weight, std::span<float> y);
void GatherInt8(const ConstTensorView& weight, int64_t row, std::span<float> out);

// Computes y[i] += x[i].
void Add(std::span<const float> x, std::span<float> y);

// Rotates the pair (head[i], head[half + i]) for each i in [0, half), where half = head.size() / 2.
// The angle has the cosine rope[i] and the sine rope[half + i]. (Su et al.: "RoFormer", 2021; Llama
// checkpoints pair the elements i and half + i.)
void Rotate(std::span<const float> rope, std::span<float> head);

// Computes out[i] = SiLU(gate[i]) * up[i], where SiLU(x) = x / (1 + exp(-x)). (Shazeer: "GLU
// variants improve transformer", 2020.)
void SiluMultiply(std::span<const float> gate, std::span<const float> up, std::span<float> out);

// Arguments of Attend, which computes attention for one query. The weights are the softmax of scale
// * dot(query, keys[t]) over all positions t. The result is the sum of values[t], multiplied by
// these weights. `keys` and `values` have the shape [positions, query.size()]. (Vaswani et al.:
// "Attention is all you need", 2017.)
struct AttendArgs {
  std::span<const float> query, keys, values;
  float scale = 0;
};
void Attend(const AttendArgs& args, std::span<float> out);

}  // namespace incipit::reference
