#include "tests/kernels/cpu/emulated_amx.h"

#include <immintrin.h>

#include <cstdint>
#include <utility>

namespace incipit::simd {
namespace {

#include "kernels/cpu/simd/isa/avx2.inl"

constexpr const char* kName = "emulated_amx";

using DottedBF16 = BF16;

#include "kernels/cpu/simd/attention/attend_by_tiles.inl"
#include "kernels/cpu/simd/table.inl"

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
  static int64_t NumRowsOf() {
    return registers().rows[TILE];
  }

  static void Configure(int64_t num_rows) {
    for (int tile = 0; tile < 8; ++tile) {
      registers().rows[tile] = tile < kWeightTiles ? num_rows : int64_t{kTileSteps};
    }
  }
  static void Release() { registers() = {}; }

  static void NarrowSixteen(const float* x, uint16_t* out) { NarrowRow(x, 16, out); }

  template <int TILE>
  static void Zero() {
    __builtin_memset(Tile<TILE>(), 0, kTileBytes);
  }
  template <int TILE>
  static void Load(const void* from, int64_t stride = kTileRowBytes) {
    for (int64_t r = 0; r < NumRowsOf<TILE>(); ++r) {
      __builtin_memcpy(Tile<TILE>() + r * kTileRowBytes,
                       static_cast<const char*>(from) + r * stride, kTileRowBytes);
    }
  }
  template <int TILE>
  static void Store(float* to, int64_t stride = kTileRowBytes) {
    for (int64_t r = 0; r < NumRowsOf<TILE>(); ++r) {
      __builtin_memcpy(reinterpret_cast<char*>(to) + r * stride, Tile<TILE>() + r * kTileRowBytes,
                       kTileRowBytes);
    }
  }
  template <int SUMS, int ROWS, int WEIGHTS>
  static void DotBF16() {
    Dot<SUMS, ROWS, WEIGHTS, Floats>([](Floats& sums, const Words& row, const Words& weights) {
      constexpr uint32_t kUpperHalf = 0xFFFF0000;
      sums += reinterpret_cast<Floats>(row << 16) * reinterpret_cast<Floats>(weights << 16);
      sums += reinterpret_cast<Floats>(row & kUpperHalf) *
              reinterpret_cast<Floats>(weights & kUpperHalf);
    });
  }
  template <int SUMS, int ROWS, int WEIGHTS>
  static void DotInt8() {
    Dot<SUMS, ROWS, WEIGHTS, Ints>([](Ints& sums, const Words& row, const Words& weights) {
      for (int shift = 24; shift >= 0; shift -= 8) {
        sums += (reinterpret_cast<Ints>(row << shift) >> 24) *
                (reinterpret_cast<Ints>(weights << shift) >> 24);
      }
    });
  }

 private:
  // A row of a tile register.
  using Words = uint32_t __attribute__((vector_size(64)));
  using Ints = int32_t __attribute__((vector_size(64)));
  using Floats = float __attribute__((vector_size(64)));

  template <int SUMS, int ROWS, int WEIGHTS, class Sums, class Add>
  static void Dot(const Add& add) {
    auto* const sums = reinterpret_cast<Sums*>(Tile<SUMS>());
    const auto* const rows = reinterpret_cast<const uint32_t*>(Tile<ROWS>());
    const auto* const weights = reinterpret_cast<const Words*>(Tile<WEIGHTS>());
    for (int64_t r = 0; r < registers().rows[ROWS]; ++r) {
      for (int64_t step = 0; step < kTileSteps; ++step) {
        const Words row = Words{} + rows[r * kTileSteps + step];
        add(sums[r], row, weights[step]);
      }
    }
  }
};

constexpr Kernels kEmulatedAmx = WithTiles<EmulatedUnit>(kKernels);

}  // namespace

const Kernels* EmulatedAmxKernels() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &kEmulatedAmx : nullptr;
}

}  // namespace incipit::simd
