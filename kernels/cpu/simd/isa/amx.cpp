// Compiles the inner loops for AVX-512 with VNNI, and the matrix products for the matrix unit AMX
// (bf16 and eight-bit products): Intel Sapphire Rapids and later.
#include <immintrin.h>

#include <cstdint>
#include <utility>

#include "kernels/cpu/simd/x86.h"

namespace incipit::simd {
namespace {

#include "kernels/cpu/simd/isa/avx512.inl"
#include "kernels/cpu/simd/isa/avx512_vnni.inl"

constexpr const char* kName = "amx";

// The bf16 dot instruction is not used, because an Intel core starts one only every second cycle.
using DottedBF16 = BF16;

#include "kernels/cpu/simd/attention/attend_by_tiles.inl"
#include "kernels/cpu/simd/table.inl"

// Executes the tile instructions. Inline assembly takes the number of a tile register as a template
// argument; the intrinsics of gcc 12 need a literal.
struct AmxUnit {
  // Prepares the tile registers of the calling thread. Tiles of input rows and tiles of sums have
  // `num_rows` rows.
  static void Configure(int64_t num_rows) {
    TileConfiguration configuration;
    for (int tile = 0; tile < kNumTiles; ++tile) {
      configuration.row_bytes[tile] = kTileRowBytes;
      configuration.rows[tile] =
          static_cast<uint8_t>(tile < kWeightTiles ? num_rows : int64_t{kTileSteps});
    }
    asm volatile("ldtilecfg %0" : : "m"(configuration));
  }
  // Ends the use of the tile registers, so that a thread switch need not save them.
  static void Release() { asm volatile("tilerelease"); }

  // Rounds 16 numbers to bf16.
  static void NarrowSixteen(const float* x, uint16_t* out) {
    const __m256bh narrow = _mm512_cvtneps_pbh(_mm512_loadu_ps(x));
    __builtin_memcpy(out, &narrow, sizeof(narrow));
  }

  template <int TILE>
  static void Zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(TILE));
  }
  template <int TILE>
  static void Load(const void* from, int64_t stride = kTileRowBytes) {
    asm volatile("tileloadd (%1,%2), %%tmm%c0" : : "i"(TILE), "r"(from), "r"(stride) : "memory");
  }
  template <int TILE>
  static void Store(float* to, int64_t stride = kTileRowBytes) {
    asm volatile("tilestored %%tmm%c0, (%1,%2)" : : "i"(TILE), "r"(to), "r"(stride) : "memory");
  }
  template <int SUMS, int ROWS, int WEIGHTS>
  static void DotBF16() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(SUMS), "i"(ROWS), "i"(WEIGHTS));
  }
  template <int SUMS, int ROWS, int WEIGHTS>
  static void DotInt8() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(SUMS), "i"(ROWS), "i"(WEIGHTS));
  }
};

constexpr Kernels kAmxKernels = WithTiles<AmxUnit>(kKernels);

}  // namespace

const Kernels& AmxKernels() { return kAmxKernels; }

}  // namespace incipit::simd
