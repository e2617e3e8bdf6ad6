// Creates the CPU backend with options that only tests use.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cpu/cpu_options.h"
#include "kernels/cpu/simd/kernels.h"

namespace incipit {

struct CpuChoices {
  // The inner loops that the backend uses; null: the inner loops that CpuOptions::isa selects.
  const simd::Kernels* kernels = nullptr;
  // Maximum number of bytes of all buffers of the backend together; 0: the memory that this process
  // can allocate when the backend is created.
  size_t memory_limit_bytes = 0;
};
absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackendWith(const CpuOptions& options,
                                                              const CpuChoices& choices);

}  // namespace incipit
