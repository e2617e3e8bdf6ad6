// Computes matrix products by the inner loops of kernels/cpu/simd.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cpu/host_memory.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/weight.h"

namespace incipit {

// The objects that all packed matrices of one backend share. The context must outlive these
// matrices.
struct SimdMatmulContext {
  const simd::Kernels& kernels;
  const Threads& threads;
  HostMemory& memory;
  Scratch<float> packed_rows, row_scales, row_of_thread;
};

// Packs a matrix for the inner loops of kernels/cpu/simd. Weights are rounded to eight bits if
// `source.format` is kInt8. Other weights keep their stored type, and the inner loops convert these
// weights to f32 in registers.
absl::StatusOr<std::unique_ptr<PackedMatrix>> PackSimdMatrix(const MatrixSource& source,
                                                             SimdMatmulContext& context);

}  // namespace incipit
