// Converts matrices of a checkpoint to and from the packed order
// (kernels/cuda/device/product/packed_order.h).
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/device/product/packed_order.h"
#include "kernels/tensor.h"

namespace incipit::cuda {

// A matrix that consists of several matrices of the checkpoint (parts), one below the other. All
// parts have the same number of columns, and may begin at any address.
struct UnpackedWeight {
  std::span<const ConstTensorView> parts;
  RowOrder order = RowOrder::kPlain;
  // Number of matrix rows of one attention head; used only with RowOrder::kRotary. The matrix has a
  // multiple of head_dim rows.
  int32_t head_dim = 0;

  int64_t rows() const;
  int64_t columns() const;
  int64_t num_units() const { return NumUnits(order, rows()); }
  int64_t unit_elements() const {
    return static_cast<int64_t>(NumTiles(static_cast<int>(columns()))) * kTileElements;
  }
  int64_t packed_bytes() const { return num_units() * unit_elements() * 2; }
};

// Packs the rows of a matrix, rounded to bf16, into units (16 packed rows each). Starts with unit
// `first_unit` and continues until `out` is full. Uses all CPUs of this process.
void PackUnits(const UnpackedWeight& weight, int64_t first_unit, std::span<uint16_t> out);

// Copies row `row` of the matrix from the packed matrix `packed` to `out`.
void UnpackRow(std::span<const uint16_t> packed, RowOrder order, int64_t rows, int64_t row,
               std::span<uint16_t> out, int64_t head_dim = 0);

}  // namespace incipit::cuda
