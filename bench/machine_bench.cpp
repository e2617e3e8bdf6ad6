// What this machine can do at most, to compare kernels_bench's figures with: fused multiply-adds of
// f32 per second, and bytes read per second from memory that no cache holds.
#include <benchmark/benchmark.h>
#include <immintrin.h>

#include <cstdint>
#include <vector>

namespace incipit {
namespace {

constexpr int64_t kFmaRounds = 20000;
constexpr int kChains = 12;  // enough to hide the latency of one

__attribute__((target("avx2,fma"))) float MultiplyAddAvx2(float factor_value) {
  __m256 sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm256_set1_ps(static_cast<float>(i));
  const __m256 factor = _mm256_set1_ps(factor_value), term = _mm256_set1_ps(0.001f);
  for (int64_t round = 0; round < kFmaRounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = _mm256_fmadd_ps(sums[i], factor, term);
  }
  __m256 sum = sums[0];
  for (int i = 1; i < kChains; ++i) sum = _mm256_add_ps(sum, sums[i]);
  return _mm256_cvtss_f32(sum);
}

__attribute__((target("avx512f"))) float MultiplyAddAvx512(float factor_value) {
  __m512 sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512 factor = _mm512_set1_ps(factor_value), term = _mm512_set1_ps(0.001f);
  for (int64_t round = 0; round < kFmaRounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_fmadd_ps(sums[i], factor, term);
  }
  __m512 sum = sums[0];
  for (int i = 1; i < kChains; ++i) sum = _mm512_add_ps(sum, sums[i]);
  return _mm512_cvtss_f32(sum);
}

void MultiplyAdd(benchmark::State& state) {
  const bool wide = __builtin_cpu_supports("avx512f");
  if (!wide && !__builtin_cpu_supports("fma")) {
    state.SkipWithError("no fused multiply-add");
    return;
  }
  float factor = 0.999f;
  for (auto _ : state) {
    benchmark::DoNotOptimize(factor);  // or the loop would be run once for all iterations
    benchmark::DoNotOptimize(wide ? MultiplyAddAvx512(factor) : MultiplyAddAvx2(factor));
  }
  const double each = 2.0 * (wide ? 16 : 8) * kChains * kFmaRounds;
  state.counters["gflops"] = benchmark::Counter(
      each * static_cast<double>(state.iterations()) * 1e-9, benchmark::Counter::kIsRate);
}
BENCHMARK(MultiplyAdd)->ThreadRange(1, 2)->UseRealTime();

void Read(benchmark::State& state) {
  std::vector<uint64_t> memory(size_t{256} << 17, 1);  // 256 MiB for each thread
  for (auto _ : state) {
    uint64_t sums[8] = {};
    for (size_t i = 0; i < memory.size(); i += 8) {
      for (size_t j = 0; j < 8; ++j) sums[j] += memory[i + j];
    }
    for (const uint64_t sum : sums) benchmark::DoNotOptimize(sum);
  }
  const double bytes = static_cast<double>(memory.size()) * sizeof(uint64_t);
  state.counters["gbytes"] = benchmark::Counter(
      bytes * static_cast<double>(state.iterations()) * 1e-9, benchmark::Counter::kIsRate);
}
BENCHMARK(Read)->ThreadRange(1, 2)->UseRealTime();

}  // namespace
}  // namespace incipit
