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

// What the matrices of one backend share. Must outlive them.
struct SimdMatmulContext {
  const simd::Kernels& kernels;
  const Threads& threads;
  HostMemory& memory;
  Scratch<float> packed_rows, row_scales, row_of_thread;
};

// Weights stay in the type they are stored in and are widened in registers, or are rounded to eight
// bits.
absl::StatusOr<std::unique_ptr<PackedMatrix>> PackSimdMatrix(const MatrixSource& source,
                                                             SimdMatmulContext& context);

}  // namespace incipit
