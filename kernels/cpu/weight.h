// Declares the weights of the CPU backend, and the inputs and outputs of matrix products.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/simd/kernels.h"

namespace incipit {

// The input rows of a matrix product. If `norm_weight` is not null, the product applies the RMS
// norm to each row before the multiplication.
struct ProductInput {
  const float* x = nullptr;  // shape [rows][cols]
  // Indices of the rows of `x` to multiply, of shape [num_rows]; null: the first num_rows rows.
  const int32_t* indices = nullptr;
  int64_t num_rows = 0;
  const float* norm_weight = nullptr;  // weight of the RMS norm, of shape [cols]; null: no norm
  float epsilon = 0;

  // Returns an input with the rows [begin, begin + count) of this input.
  ProductInput Part(int64_t begin, int64_t count, int64_t cols) const {
    ProductInput part = *this;
    part.num_rows = count;
    if (indices != nullptr) {
      part.indices += begin;
    } else {
      part.x += begin * cols;
    }
    return part;
  }
};

// The output rows of a matrix product, and the operation (simd::Finish) that is applied to the sums
// of products.
struct ProductOutput {
  simd::Finish finish = simd::Finish::kStore;
  const float* bias = nullptr;  // bias, shape [outputs]; null: no bias
  float* y = nullptr;           // shape [num_rows][Width(outputs)]

  int64_t Width(int64_t outputs) const {
    return finish == simd::Finish::kSilu ? outputs / 2 : outputs;
  }
};

// A weight matrix of shape [outputs][inputs], packed for the matrix product.
class PackedMatrix {
 public:
  virtual ~PackedMatrix() = default;
  virtual size_t byte_size() const = 0;

  // Multiplies the rows of `input` by this matrix. The bits of each output row depend only on its
  // own input row.
  virtual void Multiply(const ProductInput& input, const ProductOutput& output) = 0;
};

// A weight of the CPU backend. Most weights hold a packed matrix. The weight of an embedding holds
// views of the original rows instead.
class CpuWeight final : public Weight {
 public:
  CpuWeight(std::span<const ConstTensorView> parts, WeightFormat format,
            std::unique_ptr<PackedMatrix> matrix)
      : parts_(parts.begin(), parts.end()), format_(format), matrix_(std::move(matrix)) {
    for (const ConstTensorView& part : parts) rows_ += part.rows;
  }

  int64_t rows() const override { return rows_; }
  int64_t cols() const override { return parts_.front().cols; }
  size_t byte_size() const override { return matrix_ != nullptr ? matrix_->byte_size() : 0; }

  // Returns the packed matrix, or null for an embedding.
  PackedMatrix* matrix() const { return matrix_.get(); }
  // Returns views of the original rows of the weight. The memory of the rows is guaranteed to stay
  // valid only if the weight is an embedding.
  std::span<const ConstTensorView> parts() const { return parts_; }
  WeightFormat format() const { return format_; }

 private:
  std::vector<ConstTensorView> parts_;
  WeightFormat format_;
  std::unique_ptr<PackedMatrix> matrix_;
  int64_t rows_ = 0;
};

// Describes a matrix that will be packed. The matrix consists of the matrices in `parts`, stacked
// one below the other.
struct MatrixSource {
  std::span<const ConstTensorView> parts;
  WeightRole role = WeightRole::kOutput;
  WeightFormat format = WeightFormat::kAsStored;

  int64_t rows() const {
    int64_t sum = 0;
    for (const ConstTensorView& part : parts) sum += part.rows;
    return sum;
  }
  int64_t cols() const { return parts.front().cols; }
  // Returns the type of the packed matrix: the type of the matrices in `parts`, or f32 if these
  // matrices have different types.
  DType dtype() const {
    for (const ConstTensorView& part : parts) {
      if (part.dtype != parts.front().dtype) return DType::kF32;
    }
    return parts.front().dtype;
  }
};

}  // namespace incipit
