// Matrix products by the inner loops of kernels/cpu/simd.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cpu/host_memory.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/weight.h"

namespace incipit {

// The state that the matrices of one backend share. The context must outlive the matrices.
struct SimdMatmulContext {
  const simd::Kernels& kernels;
  const Threads& threads;
  HostMemory& memory;
  Scratch<float> packed_rows, row_scales, row_of_thread;
};

// Packs a matrix for the inner loops. Weights keep their stored type and are widened in registers,
// or are rounded to eight bits if `source` asks for it.
absl::StatusOr<std::unique_ptr<PackedMatrix>> PackSimdMatrix(const MatrixSource& source,
                                                             SimdMatmulContext& context);

}  // namespace incipit
