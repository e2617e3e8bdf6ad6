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

// Rows that are multiplied, normalised first where a weight is given.
struct ProductInput {
  const float* x = nullptr;          // [rows][cols]
  const int32_t* indices = nullptr;  // [num_rows]: which rows of x; null: the first num_rows
  int64_t num_rows = 0;
  const float* norm_weight = nullptr;  // [cols], or null
  float epsilon = 0;

  // Rows begin .. begin + count of these.
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

// What becomes of the products: see simd::Finish.
struct ProductOutput {
  simd::Finish finish = simd::Finish::kStore;
  const float* bias = nullptr;  // [outputs], or null
  float* y = nullptr;           // [num_rows][Width(outputs)]

  int64_t Width(int64_t outputs) const {
    return finish == simd::Finish::kSilu ? outputs / 2 : outputs;
  }
};

// A matrix that is multiplied: [rows = outputs, cols = inputs], in some packed form.
class PackedMatrix {
 public:
  virtual ~PackedMatrix() = default;
  virtual size_t byte_size() const = 0;

  // The bits of a row of the output depend on that row of the input alone.
  virtual void Multiply(const ProductInput& input, const ProductOutput& output) = 0;
};

// Either a packed matrix or, for embeddings, the rows where they lie.
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

  // Null for an embedding.
  PackedMatrix* matrix() const { return matrix_.get(); }
  // Where the rows were when the weight was packed; an embedding's must still be there.
  std::span<const ConstTensorView> parts() const { return parts_; }
  WeightFormat format() const { return format_; }

 private:
  std::vector<ConstTensorView> parts_;
  WeightFormat format_;
  std::unique_ptr<PackedMatrix> matrix_;
  int64_t rows_ = 0;
};

// A matrix to be packed.
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
  // What the parts are stored as together: their type, or f32 where they differ.
  DType dtype() const {
    for (const ConstTensorView& part : parts) {
      if (part.dtype != parts.front().dtype) return DType::kF32;
    }
    return parts.front().dtype;
  }
};

}  // namespace incipit
