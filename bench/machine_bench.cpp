// Measures how many multiply-adds and how many bytes read from memory this machine can do per
// second. The results of kernels_bench are compared with these maximum rates.
#include <benchmark/benchmark.h>

#include "base/check.h"
#include "kernels/cpu/cpu_options.h"

namespace incipit {
namespace {

void Machine(benchmark::State& state) {
  const auto backend = CreateCpuBackend({.num_threads = static_cast<int32_t>(state.range(0))});
  INCIPIT_CHECK(backend.ok());
  MachineRates rates;
  for (auto _ : state) rates = LargerRates(rates, (*backend)->MeasureRates());
  state.counters["f32_gflops"] = rates.f32 * 1e-9;
  state.counters["bf16_gflops"] = rates.bf16 * 1e-9;
  state.counters["int8_gops"] = rates.int8 * 1e-9;
  state.counters["read_gbytes"] = rates.read_bytes * 1e-9;
}
BENCHMARK(Machine)->Arg(1)->Arg(2)->Iterations(2)->UseRealTime();

}  // namespace
}  // namespace incipit
