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

// What Skylake-X brought; oneDNN's fast paths ask for it, too.
bool HasAvx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

bool HasAvx512Bf16() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax >> 5 & 1) != 0;
}

struct Supported {
  std::array<const Kernels*, 5> kernels;
  size_t count = 0;

  // The builtin also asks whether the operating system saves the registers.
  Supported() {
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasF16C();
    if (avx2 && HasAvx512()) {
      if (__builtin_cpu_supports("avx512vnni")) {
        if (HasAvx512Bf16()) kernels[count++] = &Avx512Bf16Kernels();
        kernels[count++] = &Avx512VnniKernels();
      }
      kernels[count++] = &Avx512Kernels();
    }
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
  const bool avx512 = HasAvx512();
  return {.f32 = avx512,
          .bf16 = avx512 && HasAvx512Bf16(),
          .int8 = avx512 && __builtin_cpu_supports("avx512vnni") != 0};
}

}  // namespace incipit::simd
