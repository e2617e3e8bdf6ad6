// Declares the weights of the CPU backend.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/packed_matrix.h"

namespace incipit {

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

}  // namespace incipit
