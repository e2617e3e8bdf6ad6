// Packs a matrix into panels. A panel is a group of panel_width weight rows, stored column by
// column for the inner loops of kernels/cpu/simd.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/backend.h"
#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/threads.h"

namespace incipit {

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

// The sizes of a matrix that is packed into panels (groups of panel_width weight rows).
struct PanelShape {
  // Returns the sizes of the matrix `source` after it is packed into panels (groups of weight rows)
  // for the inner loops `kernels`.
  static PanelShape Of(const MatrixSource& source, const simd::Kernels& kernels);

  size_t byte_size() const { return static_cast<size_t>(num_panels * panel_bytes); }

  int weights = 0;  // index of the weight format in the array Kernels::products
  int64_t num_panels = 0, panel_width = 0, pair_lanes = 0, steps = 0, panel_bytes = 0;
  // True: rows of the gate matrix and rows of the up matrix alternate, in groups of panel_width
  // rows
  bool is_gate_up = false;
};

struct PanelMemory {
  char* panels = nullptr;  // the packed rows of the weight, PanelShape::byte_size() bytes
  // For eight-bit weights only: scale of each weight row, of shape [num_panels * panel_width].
  float* scales = nullptr;
  // For eight-bit weights only: number with which the sum of each output begins, of shape
  // [num_panels * panel_width].
  int32_t* starts = nullptr;
};

void PackPanels(const MatrixSource& source, const PanelShape& shape, const simd::Kernels& kernels,
                const Threads& threads, const PanelMemory& memory);

}  // namespace incipit
