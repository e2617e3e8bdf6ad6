// Runs the conformance tests also with a CPU backend that emulates bf16 dot instructions. The tests
// therefore need no machine with these instructions.
#include "kernels/cpu/backend.h"
#include "tests/conformance/support.h"
#include "tests/kernels/cpu/emulated_dots.h"

namespace incipit {

std::vector<BackendCase> DeviceBackends() {
  BackendCase dots = {.name = "EmulatedDots"};
  const simd::Kernels* const kernels = simd::EmulatedDotKernels();
  if (kernels == nullptr) {
    dots.unavailable = "this machine has no AVX2, which the emulation of bf16 dots needs";
    return {dots};
  }
  dots.create = [kernels](int32_t num_threads) {
    return *CreateCpuBackendWith(
        {.num_threads = num_threads},
        {.kernels = kernels, .matmul = CpuMatmul::kSimd, .memory_limit_bytes = size_t{1} << 30});
  };
  return {dots};
}

}  // namespace incipit
