// The CPU's Backend with choices that no program makes, so that tests reach every path on any
// machine that has it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cpu/cpu_options.h"
#include "kernels/cpu/simd/kernels.h"

namespace incipit {

// The implementation of the matrix products: oneDNN where it is the fastest, or one of the two
// everywhere.
enum class CpuMatmul : uint8_t { kAuto, kOneDnn, kSimd };

struct CpuChoices {
  const simd::Kernels* kernels = nullptr;  // inner loops; none: those of CpuOptions::isa
  CpuMatmul matmul = CpuMatmul::kAuto;
  size_t memory_limit_bytes = 0;  // 0: what the machine or the cgroup has left
};
absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackendWith(const CpuOptions& options,
                                                              const CpuChoices& choices);

}  // namespace incipit
