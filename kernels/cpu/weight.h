// Weights of the CPU backend.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/simd/kernels.h"

namespace incipit {

// The input rows of a product. If `norm_weight` is set, the rows are normalised before the product.
struct ProductInput {
  const float* x = nullptr;          // shape [rows][cols]
  const int32_t* indices = nullptr;  // shape [num_rows], rows of x to use; null: the first num_rows
  int64_t num_rows = 0;
  const float* norm_weight = nullptr;  // shape [cols], or null
  float epsilon = 0;

  // Returns the input that consists of the rows [begin, begin + count) of this input.
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

// The destination of a product and the operation that is applied to the sums (simd::Finish).
struct ProductOutput {
  simd::Finish finish = simd::Finish::kStore;
  const float* bias = nullptr;  // shape [outputs], or null
  float* y = nullptr;           // shape [num_rows][Width(outputs)]

  int64_t Width(int64_t outputs) const {
    return finish == simd::Finish::kSilu ? outputs / 2 : outputs;
  }
};

// A packed matrix [outputs, inputs] that is multiplied.
class PackedMatrix {
 public:
  virtual ~PackedMatrix() = default;
  virtual size_t byte_size() const = 0;

  // Multiplies the rows of `input`. Each output row depends only on its own input row, bit for bit.
  virtual void Multiply(const ProductInput& input, const ProductOutput& output) = 0;
};

// Either a packed matrix or, for an embedding, views of the rows in their original memory.
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

  // Returns the packed matrix; null for an embedding.
  PackedMatrix* matrix() const { return matrix_.get(); }
  // Returns the original rows of the weight. Only the rows of an embedding are still guaranteed to
  // be valid.
  std::span<const ConstTensorView> parts() const { return parts_; }
  WeightFormat format() const { return format_; }

 private:
  std::vector<ConstTensorView> parts_;
  WeightFormat format_;
  std::unique_ptr<PackedMatrix> matrix_;
  int64_t rows_ = 0;
};

// The description of a matrix to be packed.
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
  // Returns the type in which the matrix is stored: the type of the parts, or f32 if their types
  // differ.
  DType dtype() const {
    for (const ConstTensorView& part : parts) {
      if (part.dtype != parts.front().dtype) return DType::kF32;
    }
    return parts.front().dtype;
  }
};

}  // namespace incipit
