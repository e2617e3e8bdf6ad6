// Converts checkpoint matrices to the packed element order (packed_order.h), and back.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/device/product/packed_order.h"
#include "kernels/tensor.h"

namespace incipit::cuda {

// A matrix that consists of several checkpoint matrices, stacked one below the other. All
// checkpoint matrices have the same number of columns and need no alignment.
struct UnpackedWeight {
  std::span<const ConstTensorView> parts;
  RowOrder order = RowOrder::kPlain;
  // Number of matrix rows for each attention head; used only with RowOrder::kRotary. REQUIRES:
  // rows() is a multiple of head_dim.
  int32_t head_dim = 0;

  int64_t rows() const;
  int64_t columns() const;
  int64_t num_units() const { return NumUnits(order, rows()); }
  int64_t unit_elements() const {
    return static_cast<int64_t>(NumTiles(static_cast<int>(columns()))) * kTileElements;
  }
  int64_t packed_bytes() const { return num_units() * unit_elements() * 2; }
};

// Packs matrix rows, rounded to bf16, into units (groups of 16 packed rows). Begins with unit
// `first_unit` and ends when `out` is full. Uses all CPUs of this process.
void PackUnits(const UnpackedWeight& weight, int64_t first_unit, std::span<uint16_t> out);

// Copies row `row` of the original matrix from the packed matrix `packed` to `out`.
void UnpackRow(std::span<const uint16_t> packed, RowOrder order, int64_t rows, int64_t row,
               std::span<uint16_t> out, int64_t head_dim = 0);

}  // namespace incipit::cuda
