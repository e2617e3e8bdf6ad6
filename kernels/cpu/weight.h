// Weights of the CPU backend.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kernels/backend.h"

namespace incipit {

// A matrix that is multiplied: [rows = outputs, cols = inputs], in some packed form.
class PackedMatrix {
 public:
  virtual ~PackedMatrix() = default;
  virtual size_t byte_size() const = 0;

  // y[r] = W x[r] for rows of x [num_rows, cols] and y [num_rows, rows], both dense.
  // The bits of y[r] depend on x[r] alone.
  virtual void Multiply(const float* x, int64_t num_rows, float* y) = 0;
};

// Either a packed matrix or, for embeddings, the rows where they lie.
class CpuWeight final : public Weight {
 public:
  CpuWeight(std::span<const ConstTensorView> parts, std::unique_ptr<PackedMatrix> matrix)
      : parts_(parts.begin(), parts.end()), matrix_(std::move(matrix)) {
    for (const ConstTensorView& part : parts) rows_ += part.rows;
  }

  int64_t rows() const override { return rows_; }
  int64_t cols() const override { return parts_.front().cols; }
  size_t byte_size() const override { return matrix_ != nullptr ? matrix_->byte_size() : 0; }

  // Null for an embedding.
  PackedMatrix* matrix() const { return matrix_.get(); }
  // Where the rows were when the weight was packed; an embedding's must still be there.
  std::span<const ConstTensorView> parts() const { return parts_; }

 private:
  std::vector<ConstTensorView> parts_;
  std::unique_ptr<PackedMatrix> matrix_;
  int64_t rows_ = 0;
};

// What the parts are stored as together: their type, or f32 where they differ.
inline DType CommonDType(std::span<const ConstTensorView> parts) {
  for (const ConstTensorView& part : parts) {
    if (part.dtype != parts.front().dtype) return DType::kF32;
  }
  return parts.front().dtype;
}

}  // namespace incipit
