// Creates the CPU backend with options that no program uses. Tests use these options to reach every
// code path that the machine supports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cpu/cpu_options.h"
#include "kernels/cpu/simd/kernels.h"

namespace incipit {

// The implementation of the matrix products. kAuto chooses oneDNN for each matrix for which oneDNN
// is the faster one.
enum class CpuMatmul : uint8_t { kAuto, kOneDnn, kSimd };

struct CpuChoices {
  const simd::Kernels* kernels = nullptr;  // inner loops to use; null: those of CpuOptions::isa
  CpuMatmul matmul = CpuMatmul::kAuto;
  size_t memory_limit_bytes = 0;  // 0: the memory that the machine and the cgroup have left
};
absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackendWith(const CpuOptions& options,
                                                              const CpuChoices& choices);

}  // namespace incipit
