#include <cpuid.h>

#include <array>

#include "kernels/cpu/simd/select.h"
#include "kernels/cpu/simd/x86.h"

namespace incipit::simd {
namespace {

bool HasF16C() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

bool HasAvx512Bf16() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax >> 5 & 1) != 0;
}

struct Supported {
  std::array<const Kernels*, 3> kernels;
  size_t count = 0;

  // The builtin also asks whether the operating system saves the registers.
  Supported() {
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasF16C();
    if (avx2 && __builtin_cpu_supports("avx512f")) kernels[count++] = &Avx512Kernels();
    if (avx2) kernels[count++] = &Avx2Kernels();
    kernels[count++] = &PortableKernels();
  }
};

}  // namespace

std::span<const Kernels* const> SupportedKernels() {
  static const Supported supported;
  return std::span(supported.kernels).first(supported.count);
}

NativeProducts DetectNativeProducts() {
  // oneDNN's fast paths ask for the whole set that Skylake-X brought.
  const bool core = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return {.f32 = core, .bf16 = core && HasAvx512Bf16()};
}

}  // namespace incipit::simd
