// Puts a matrix into the panels that the inner loops of kernels/cpu/simd multiply fastest.
#pragma once

#include <cstdint>

#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/weight.h"

namespace incipit {

// The panels of a matrix, whose memory the caller owns.
struct PanelShape {
  // For eight-bit weights `weights` is simd::kInt8, or else the index of the type.
  static PanelShape Of(const MatrixSource& source, const simd::Kernels& kernels);

  size_t byte_size() const { return static_cast<size_t>(num_panels * panel_bytes); }

  int weights = 0;  // index into Kernels::products
  int64_t num_panels = 0, panel_width = 0, pair_lanes = 0, steps = 0, panel_bytes = 0;
  bool is_gate_up = false;  // panels of gate and of up take turns
};

struct PanelMemory {
  char* panels = nullptr;     // [byte_size()]
  float* scales = nullptr;    // [num_panels * panel_width], for eight-bit weights
  int32_t* starts = nullptr;  // likewise
};

void PackPanels(const MatrixSource& source, const PanelShape& shape, const simd::Kernels& kernels,
                const Threads& threads, const PanelMemory& memory);

}  // namespace incipit
