// Runs the conformance tests also with CPU backends that emulate instructions: bf16 dot
// instructions, and the matrix unit AMX. The tests therefore need no machine with these
// instructions.
#include "kernels/cpu/backend.h"
#include "tests/conformance/support.h"
#include "tests/kernels/cpu/emulated_amx.h"
#include "tests/kernels/cpu/emulated_dots.h"

namespace incipit {
namespace {

BackendCase EmulatedCase(const std::string& name, const simd::Kernels* kernels) {
  BackendCase result = {.name = name};
  if (kernels == nullptr) {
    result.unavailable = "this machine has no AVX2, which the emulation needs";
    return result;
  }
  result.rounds_activations = kernels->products[simd::kBF16Weights].rounds_activations;
  result.create = [kernels](int32_t num_threads) {
    return *CreateCpuBackendWith({.num_threads = num_threads},
                                 {.kernels = kernels, .memory_limit_bytes = size_t{1} << 30});
  };
  return result;
}

}  // namespace

std::vector<BackendCase> DeviceBackends() {
  return {EmulatedCase("EmulatedDots", simd::EmulatedDotKernels()),
          EmulatedCase("EmulatedAmx", simd::EmulatedAmxKernels())};
}

}  // namespace incipit
