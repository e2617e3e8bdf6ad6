// The CPU's Backend: inner loops for the best instruction set of the machine, or for one that the
// caller names, so that every path can be tested on any machine that has it.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cpu/cpu_options.h"
#include "kernels/cpu/simd/kernels.h"

namespace incipit {

absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackendWith(const simd::Kernels& kernels,
                                                              const CpuOptions& options);

}  // namespace incipit
