#include <array>

#include "kernels/cpu/simd/rates.h"
#include "kernels/cpu/simd/select.h"

namespace incipit::simd {

std::span<const Kernels* const> SupportedKernels() {
  static const std::array<const Kernels*, 1> kSupported = {&PortableKernels()};
  return kSupported;
}

bool HasBF16Dots() { return false; }

const RateLoops& RateLoopsOf(const Kernels&) { return PortableRateLoops(); }

}  // namespace incipit::simd
