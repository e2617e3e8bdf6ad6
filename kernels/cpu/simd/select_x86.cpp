#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/clock.h"
#include "kernels/cpu/simd/rates.h"
#include "kernels/cpu/simd/select.h"
#include "kernels/cpu/simd/x86.h"

namespace incipit::simd {
namespace {

bool HasF16C() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

// Returns true if the machine has the AVX-512 extensions of Intel Skylake-X.
bool HasAvx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

bool HasAvx512Bf16() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax >> 5 & 1) != 0;
}

// Returns true if the machine has the matrix unit AMX with bf16 and eight-bit products, and Linux
// lets this process use its registers. Linux refuses a process that has installed a small stack for
// signal handlers. (Linux documentation, arch/x86/xstate.rst.)
bool HasAmx() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM of asm/prctl.h
  constexpr long kTileData = 18;               // number of the register state that holds the tiles
  constexpr unsigned kBits = 1U << 22 | 1U << 24 | 1U << 25;  // AMX-BF16, AMX-TILE, AMX-INT8
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & kBits) == kBits &&
         syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// Returns the time in seconds that `loop` needs for one multiply-add. If another program interrupts
// the loop, the result is too large.
double TimeOf(int64_t (*loop)(int64_t rounds)) {
  constexpr int64_t kRounds = 4096;  // number of iterations; all together take about 20 us
  const Time begin = std::chrono::steady_clock::now();
  const auto units = static_cast<double>(loop(kRounds));
  return ToSeconds(std::chrono::steady_clock::now() - begin) / units;
}

// Measures the time per product of the bf16 dot instruction and of the f32 multiply-add. Returns
// true if the bf16 time is less than 0.75 of the f32 time. The measured ratio of these times is
// about 0.5 on AMD Zen 4, and about 2 on Intel Sapphire Rapids and Emerald Rapids.
bool DotsAreFaster() {
  constexpr int kRepeats = 12;
  const RateLoops& loops = RateLoopsOf(Avx512Bf16Kernels());
  double dot = 1, multiply_add = 1;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    dot = std::min(dot, TimeOf(loops.bf16));
    multiply_add = std::min(multiply_add, TimeOf(loops.f32));
  }
  return dot < 0.75 * multiply_add;
}

struct Supported {
  std::array<const Kernels*, 6> kernels;
  size_t count = 0;

  // __builtin_cpu_supports also checks that the operating system saves the vector registers when it
  // switches threads.
  Supported() {
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasF16C();
    if (avx2 && HasAvx512()) {
      if (__builtin_cpu_supports("avx512vnni")) {
        if (HasAvx512Bf16() && HasAmx()) kernels[count++] = &AmxKernels();
        kernels[count++] = &Avx512VnniKernels();
        if (HasAvx512Bf16()) kernels[count++] = &Avx512Bf16Kernels();
        if (HasAvx512Bf16() && DotsAreFaster()) std::swap(kernels[count - 2], kernels[count - 1]);
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

bool HasBF16Dots() { return HasAvx512() && HasAvx512Bf16(); }

}  // namespace incipit::simd
