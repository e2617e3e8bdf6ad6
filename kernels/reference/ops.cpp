#include "kernels/reference/ops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"
#include "kernels/numeric.h"
#include "kernels/quantize.h"

namespace incipit::reference {

void RmsNorm(std::span<const float> x, std::span<const float> weight, float epsilon,
             std::span<float> out) {
  INCIPIT_CHECK(x.size() == weight.size() && x.size() == out.size());
  double sum = 0;
  for (const float value : x) sum += double{value} * value;
  const double scale = 1 / std::sqrt(sum / static_cast<double>(x.size()) + epsilon);
  for (size_t i = 0; i < x.size(); ++i) {
    out[i] = static_cast<float>(x[i] * scale) * weight[i];
  }
}

void Multiply(std::span<const float> x, const ConstTensorView& weight, std::span<float> y) {
  INCIPIT_CHECK(std::ssize(x) == weight.cols && std::ssize(y) == weight.rows);
  for (int64_t n = 0; n < weight.rows; ++n) {
    double sum = 0;
    for (int64_t k = 0; k < weight.cols; ++k) {
      sum += double{x[k]} * LoadF32(weight.data, weight.dtype, n * weight.cols + k);
    }
    y[n] = static_cast<float>(sum);
  }
}

void Gather(const ConstTensorView& weight, int64_t row, std::span<float> out) {
  INCIPIT_CHECK(row >= 0 && row < weight.rows && std::ssize(out) == weight.cols);
  for (int64_t i = 0; i < weight.cols; ++i) {
    out[i] = LoadF32(weight.data, weight.dtype, row * weight.cols + i);
  }
}

namespace {

struct RoundedRow {
  std::vector<int8_t> numbers;
  float scale = 0;
};

RoundedRow Rounded(std::span<const float> x) {
  RoundedRow row = {.numbers = std::vector<int8_t>(x.size())};
  row.scale = QuantizeRow(x, row.numbers);
  return row;
}

RoundedRow RoundedRowOf(const ConstTensorView& weight, int64_t row) {
  std::vector<float> values(static_cast<size_t>(weight.cols));
  Gather(weight, row, values);
  return Rounded(values);
}

}  // namespace

void MultiplyInt8(std::span<const float> x, const ConstTensorView& weight, std::span<float> y) {
  INCIPIT_CHECK(std::ssize(x) == weight.cols && std::ssize(y) == weight.rows);
  const RoundedRow factors = Rounded(x);
  for (int64_t n = 0; n < weight.rows; ++n) {
    const RoundedRow row = RoundedRowOf(weight, n);
    int32_t sum = 0;
    for (size_t k = 0; k < x.size(); ++k) sum += factors.numbers[k] * row.numbers[k];
    y[n] = static_cast<float>(sum) * row.scale * factors.scale;
  }
}

void GatherInt8(const ConstTensorView& weight, int64_t row, std::span<float> out) {
  const RoundedRow rounded = RoundedRowOf(weight, row);
  INCIPIT_CHECK(out.size() == rounded.numbers.size());
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(rounded.numbers[i]) * rounded.scale;
  }
}

void Add(std::span<const float> x, std::span<float> y) {
  INCIPIT_CHECK(x.size() == y.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] += x[i];
}

void Rotate(std::span<const float> rope, std::span<float> head) {
  INCIPIT_CHECK(rope.size() == head.size() && head.size() % 2 == 0);
  const size_t half = head.size() / 2;
  for (size_t i = 0; i < half; ++i) {
    const float cosine = rope[i], sine = rope[half + i];
    const float first = head[i], second = head[half + i];
    head[i] = first * cosine - second * sine;
    head[half + i] = second * cosine + first * sine;
  }
}

void SiluMultiply(std::span<const float> gate, std::span<const float> up, std::span<float> out) {
  INCIPIT_CHECK(gate.size() == up.size() && gate.size() == out.size());
  for (size_t i = 0; i < gate.size(); ++i) {
    out[i] = static_cast<float>(gate[i] / (1 + std::exp(-double{gate[i]})) * up[i]);
  }
}

void Attend(const AttendArgs& args, std::span<float> out) {
  const size_t head_dim = args.query.size();
  const size_t num_positions = args.keys.size() / head_dim;
  INCIPIT_CHECK(num_positions > 0 && args.keys.size() == args.values.size());
  INCIPIT_CHECK(args.keys.size() % head_dim == 0 && out.size() == head_dim);

  std::vector<double> scores(num_positions);
  for (size_t t = 0; t < num_positions; ++t) {
    double dot = 0;
    for (size_t i = 0; i < head_dim; ++i) {
      dot += double{args.query[i]} * args.keys[t * head_dim + i];
    }
    scores[t] = dot * args.scale;
  }
  const double max = *std::max_element(scores.begin(), scores.end());
  std::vector<double> sums(head_dim, 0);
  double denominator = 0;
  for (size_t t = 0; t < num_positions; ++t) {
    const double weight = std::exp(scores[t] - max);
    denominator += weight;
    for (size_t i = 0; i < head_dim; ++i) sums[i] += weight * args.values[t * head_dim + i];
  }
  for (size_t i = 0; i < head_dim; ++i) out[i] = static_cast<float>(sums[i] / denominator);
}

}  // namespace incipit::reference
