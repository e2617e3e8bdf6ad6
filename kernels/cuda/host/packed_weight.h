// Converts a checkpoint's matrices into the packed order
// (kernels/cuda/device/product/packed_order.h) and back.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/device/product/packed_order.h"
#include "kernels/tensor.h"

namespace incipit::cuda {

// Matrices that are multiplied together as one matrix: the rows of one part after those of the
// other. All parts have the same number of columns. A part may start at any address.
struct UnpackedWeight {
  std::span<const ConstTensorView> parts;
  RowOrder order = RowOrder::kPlain;
  int32_t head_dim = 0;  // used with kRotary; the rows are whole heads

  int64_t rows() const;
  int64_t columns() const;
  int64_t num_units() const { return NumUnits(order, rows()); }
  int64_t unit_elements() const {
    return static_cast<int64_t>(NumTiles(static_cast<int>(columns()))) * kTileElements;
  }
  int64_t packed_bytes() const { return num_units() * unit_elements() * 2; }
};

// Packs units from `first_unit` on, as many whole units as `out` can hold. Rounds to bf16. Uses all
// CPUs of this process.
void PackUnits(const UnpackedWeight& weight, int64_t first_unit, std::span<uint16_t> out);

// Copies row `row` of the matrix out of the whole packed weight.
void UnpackRow(std::span<const uint16_t> packed, RowOrder order, int64_t rows, int64_t row,
               std::span<uint16_t> out, int64_t head_dim = 0);

}  // namespace incipit::cuda
