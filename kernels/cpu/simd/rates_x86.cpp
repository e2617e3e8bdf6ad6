// Defines loops that measure the maximum rates of x86 instruction sets. A target attribute compiles
// each function for its own instruction set. Empty asm statements prevent the compiler from moving
// work out of the loops.
#include <immintrin.h>

#include <cstring>

#include "kernels/cpu/simd/rates.h"
#include "kernels/cpu/simd/select.h"
#include "kernels/cpu/simd/x86.h"

namespace incipit::simd {
namespace {

// Number of independent sums in a loop. These sums hide the latency of an instruction and leave
// registers for the factors.
constexpr int kChains = 12;
// Number of address ranges that the loop reads alternately. Reads of a single range do not reach
// the full memory bandwidth.
constexpr size_t kStreams = 4;
// Number of rounds of a vector loop that take about as long as 4 tile instructions.
constexpr int64_t kRoundsPerTileRound = 8;
// Distance in bytes from the data that is read to the data that is prefetched
constexpr size_t kAhead = 1024;

__attribute__((target("avx2,fma"))) int64_t MultiplyAddAvx2(int64_t rounds) {
  __m256 sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm256_set1_ps(static_cast<float>(i));
  const __m256 factor = _mm256_set1_ps(0.999f), term = _mm256_set1_ps(0.001f);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = _mm256_fmadd_ps(sums[i], factor, term);
  }
  for (int i = 0; i < kChains; ++i) asm volatile("" : : "x"(sums[i]));
  return rounds * kChains * 8;
}

// Multiplies bytes and adds the products to 32-bit sums by three instructions, because AVX2 has no
// dot instruction.
__attribute__((target("avx2"))) int64_t DotInt8Avx2(int64_t rounds) {
  __m256i sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm256_setzero_si256();
  __m256i x = _mm256_set1_epi8(3);
  const __m256i w = _mm256_set1_epi8(2), ones = _mm256_set1_epi16(1);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) {
      asm volatile("" : "+x"(x));
      const __m256i pairs = _mm256_madd_epi16(_mm256_maddubs_epi16(x, w), ones);
      sums[i] = _mm256_add_epi32(sums[i], pairs);
    }
  }
  for (int i = 0; i < kChains; ++i) asm volatile("" : : "x"(sums[i]));
  return rounds * kChains * 32;
}

__attribute__((target("avx2"))) void ReadAvx2(const std::byte* data, size_t bytes) {
  constexpr size_t kAtOnce = 128;
  __m256i all[kAtOnce / 32];
  for (__m256i& one : all) one = _mm256_setzero_si256();
  const size_t stream = bytes / kStreams;
  for (size_t i = 0; i < stream; i += kAtOnce) {
    for (size_t s = 0; s < kStreams; ++s) {
      const std::byte* const from = data + s * stream + i;
      _mm_prefetch(reinterpret_cast<const char*>(from + kAhead), _MM_HINT_T0);
      _mm_prefetch(reinterpret_cast<const char*>(from + kAhead + 64), _MM_HINT_T0);
      for (size_t j = 0; j < kAtOnce / 32; ++j) {
        const auto* const vector = reinterpret_cast<const __m256i*>(from) + j;
        all[j] = _mm256_or_si256(all[j], _mm256_load_si256(vector));
      }
    }
  }
  for (const __m256i& one : all) asm volatile("" : : "x"(one));
}

__attribute__((target("avx512f"))) int64_t MultiplyAddAvx512(int64_t rounds) {
  __m512 sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512 factor = _mm512_set1_ps(0.999f), term = _mm512_set1_ps(0.001f);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_fmadd_ps(sums[i], factor, term);
  }
  for (int i = 0; i < kChains; ++i) asm volatile("" : : "v"(sums[i]));
  return rounds * kChains * 16;
}

__attribute__((target("avx512f,avx512bf16"))) int64_t DotBf16Avx512(int64_t rounds) {
  __m512 sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm512_setzero_ps();
  // A vector of bf16 elements, each with the value 1.
  const __m512i bits = _mm512_set1_epi16(0x3F80);
  __m512bh ones;
  std::memcpy(&ones, &bits, sizeof(ones));
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_dpbf16_ps(sums[i], ones, ones);
  }
  for (int i = 0; i < kChains; ++i) asm volatile("" : : "v"(sums[i]));
  return rounds * kChains * 32;
}

__attribute__((target("avx512f,avx512vnni"))) int64_t DotInt8Avx512(int64_t rounds) {
  // The vector has 32-bit elements: with 64-bit elements, gcc 12 inserts an additional copy
  // instruction for each sum, which slows the loop.
  using Ints = int32_t __attribute__((vector_size(64)));
  Ints sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = reinterpret_cast<Ints>(_mm512_set1_epi32(i));
  const __m512i ones = _mm512_set1_epi32(0x01010101);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) {
      const __m512i sum = reinterpret_cast<__m512i>(sums[i]);
      sums[i] = reinterpret_cast<Ints>(_mm512_dpbusd_epi32(sum, ones, ones));
    }
  }
  for (int i = 0; i < kChains; ++i) asm volatile("" : : "v"(sums[i]));
  return rounds * kChains * 64;
}

// Gives all tile registers of the calling thread 16 rows of 64 bytes. The registers are then zero.
void ConfigureTiles() {
  TileConfiguration configuration;
  for (int tile = 0; tile < kNumTiles; ++tile) {
    configuration.row_bytes[tile] = 64;
    configuration.rows[tile] = 16;
  }
  asm volatile("ldtilecfg %0" : : "m"(configuration));
}

// Calls `four_dots`, which executes 4 tile instructions on tiles with `cols` columns, again and
// again. Returns the number of multiply-adds.
template <class FourDots>
int64_t RepeatTiles(int64_t rounds, int64_t cols, const FourDots& four_dots) {
  ConfigureTiles();
  const int64_t count = rounds / kRoundsPerTileRound;
  for (int64_t i = 0; i < count; ++i) four_dots();
  asm volatile("tilerelease");
  return count * 4 * 16 * 16 * cols;
}

int64_t DotBf16Amx(int64_t rounds) {
  return RepeatTiles(rounds, 32, [] {
    asm volatile(
        "tdpbf16ps %tmm6, %tmm4, %tmm0\n\ttdpbf16ps %tmm7, %tmm4, %tmm1\n\t"
        "tdpbf16ps %tmm6, %tmm5, %tmm2\n\ttdpbf16ps %tmm7, %tmm5, %tmm3");
  });
}

int64_t DotInt8Amx(int64_t rounds) {
  return RepeatTiles(rounds, 64, [] {
    asm volatile(
        "tdpbssd %tmm6, %tmm4, %tmm0\n\ttdpbssd %tmm7, %tmm4, %tmm1\n\t"
        "tdpbssd %tmm6, %tmm5, %tmm2\n\ttdpbssd %tmm7, %tmm5, %tmm3");
  });
}

RateLoops AmxLoops(RateLoops loops) {
  loops.bf16 = &DotBf16Amx;
  loops.int8 = &DotInt8Amx;
  return loops;
}

RateLoops Avx512Loops(bool has_vnni) {
  return {.f32 = &MultiplyAddAvx512,
          .bf16 = HasBF16Dots() ? &DotBf16Avx512 : nullptr,
          .int8 = has_vnni ? &DotInt8Avx512 : &DotInt8Avx2,
          .read = &ReadAvx2};
}

}  // namespace

const RateLoops& RateLoopsOf(const Kernels& kernels) {
  static constexpr RateLoops kAvx2 = {
      .f32 = &MultiplyAddAvx2, .bf16 = nullptr, .int8 = &DotInt8Avx2, .read = &ReadAvx2};
  static const RateLoops kAvx512 = Avx512Loops(false), kAvx512Vnni = Avx512Loops(true);
  static const RateLoops kAmx = AmxLoops(kAvx512Vnni);
  if (std::strcmp(kernels.name, "amx") == 0) return kAmx;
  if (std::strcmp(kernels.name, "avx512_bf16") == 0) return kAvx512Vnni;
  if (std::strcmp(kernels.name, "avx512_vnni") == 0) return kAvx512Vnni;
  if (std::strcmp(kernels.name, "avx512") == 0) return kAvx512;
  if (std::strcmp(kernels.name, "avx2") == 0) return kAvx2;
  return PortableRateLoops();
}

}  // namespace incipit::simd
