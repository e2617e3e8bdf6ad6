// Packs a matrix into panels, the blocks of weight rows that the inner loops of kernels/cpu/simd
// multiply.
#pragma once

#include <cstdint>

#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/weight.h"

namespace incipit {

// The sizes of a matrix that is packed into panels. The caller owns the memory of the panels.
struct PanelShape {
  // Returns the panel sizes of `source`. `weights` is simd::kInt8 for eight-bit weights, otherwise
  // the index of the stored type.
  static PanelShape Of(const MatrixSource& source, const simd::Kernels& kernels);

  size_t byte_size() const { return static_cast<size_t>(num_panels * panel_bytes); }

  int weights = 0;  // index into Kernels::products
  int64_t num_panels = 0, panel_width = 0, pair_lanes = 0, steps = 0, panel_bytes = 0;
  bool is_gate_up = false;  // panels of gate and panels of up alternate
};

struct PanelMemory {
  char* panels = nullptr;     // size: byte_size()
  float* scales = nullptr;    // shape [num_panels * panel_width], for eight-bit weights only
  int32_t* starts = nullptr;  // shape [num_panels * panel_width], for eight-bit weights only
};

void PackPanels(const MatrixSource& source, const PanelShape& shape, const simd::Kernels& kernels,
                const Threads& threads, const PanelMemory& memory);

}  // namespace incipit
