#include "tests/kernels/cpu/emulated_amx.h"

#include <immintrin.h>

#include <cstdint>
#include <utility>

namespace incipit::simd {
namespace {

#include "kernels/cpu/simd/avx2.inl"

constexpr const char* kName = "emulated_amx";

using DottedBF16 = BF16;

#include "kernels/cpu/simd/table.inl"
#include "kernels/cpu/simd/tile_product.inl"

// Tile registers in memory. A register that is not configured has no rows, and its use ends the
// program, as on a CPU.
struct EmulatedUnit {
  struct Registers {
    int64_t rows[8];
    alignas(64) char bytes[8][kTileBytes];
  };
  static Registers& registers() {
    static thread_local Registers registers = {};
    return registers;
  }
  template <int TILE>
  static char* Tile() {
    if (registers().rows[TILE] == 0) __builtin_trap();
    return registers().bytes[TILE];
  }
  template <int TILE>
  static uint64_t SizeOf() {
    return static_cast<uint64_t>(registers().rows[TILE] * kTileRowBytes);
  }

  static void Configure(int64_t num_rows) {
    for (int tile = 0; tile < 8; ++tile) {
      registers().rows[tile] = tile < kWeightTiles ? num_rows : int64_t{kTileSteps};
    }
  }
  static void Release() { registers() = {}; }

  template <int TILE>
  static void Zero() {
    __builtin_memset(Tile<TILE>(), 0, kTileBytes);
  }
  template <int TILE>
  static void Load(const void* from) {
    __builtin_memcpy(Tile<TILE>(), from, SizeOf<TILE>());
  }
  template <int TILE>
  static void Store(float* to) {
    __builtin_memcpy(to, Tile<TILE>(), SizeOf<TILE>());
  }
  template <int SUMS, int ROWS, int WEIGHTS>
  static void DotBF16() {
    const auto widened = [](const char* from) {
      uint16_t half;
      __builtin_memcpy(&half, from, sizeof(half));
      const uint32_t bits = uint32_t{half} << 16;
      return __builtin_bit_cast(float, bits);
    };
    Dot<SUMS, ROWS, WEIGHTS, float>([&](float& sum, const char* row, const char* weight) {
      sum = __builtin_fmaf(widened(row), widened(weight), sum);
      sum = __builtin_fmaf(widened(row + 2), widened(weight + 2), sum);
    });
  }
  template <int SUMS, int ROWS, int WEIGHTS>
  static void DotInt8() {
    Dot<SUMS, ROWS, WEIGHTS, int32_t>([](int32_t& sum, const char* row, const char* weight) {
      for (int i = 0; i < 4; ++i) {
        sum += static_cast<signed char>(row[i]) * static_cast<signed char>(weight[i]);
      }
    });
  }

 private:
  template <int SUMS, int ROWS, int WEIGHTS, class Sum, class Add>
  static void Dot(const Add& add) {
    auto* const sums = reinterpret_cast<Sum*>(Tile<SUMS>());
    const char *const rows = Tile<ROWS>(), *const weights = Tile<WEIGHTS>();
    for (int64_t r = 0; r < registers().rows[ROWS]; ++r) {
      for (int64_t step = 0; step < kTileSteps; ++step) {
        for (int64_t n = 0; n < kUnitOutputs; ++n) {
          add(sums[r * kUnitOutputs + n], rows + r * kTileRowBytes + step * 4,
              weights + step * kTileRowBytes + n * 4);
        }
      }
    }
  }
};

constexpr Kernels kEmulatedAmx = WithTileProducts<EmulatedUnit>(kKernels);

}  // namespace

const Kernels* EmulatedAmxKernels() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &kEmulatedAmx : nullptr;
}

}  // namespace incipit::simd
