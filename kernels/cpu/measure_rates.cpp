#include "kernels/cpu/measure_rates.h"

#include <algorithm>
#include <fstream>

#include "base/clock.h"
#include "base/table.h"
#include "kernels/cpu/simd/rates.h"

namespace incipit {
namespace {

constexpr int kRepeats = 6;  // number of measurements; the highest rate is the result
// Number of iterations of a measured loop of multiplications. A loop takes some milliseconds.
constexpr int64_t kRounds = 2'000'000;
// Number of bytes that all threads together read in a measurement. These bytes do not fit into the
// CPU caches.
constexpr size_t kReadBytes = 256 << 20;

// Runs `work(thread)` on all threads simultaneously, kRepeats times. `work` returns the number of
// its operations or bytes. Returns the highest rate: the sum of these numbers over all threads,
// divided by the time in seconds.
template <class F>
double BestRate(const Threads& threads, const F& work) {
  double best = 0;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    double units = 0;
    Time begin = Time::max(), end = Time::min();
#pragma omp parallel num_threads(threads.count())
    {
#pragma omp barrier
      const Time own_begin = std::chrono::steady_clock::now();
      const auto own_units = static_cast<double>(work(omp_get_thread_num()));
      const Time own_end = std::chrono::steady_clock::now();
#pragma omp critical
      {
        units += own_units;
        begin = std::min(begin, own_begin);
        end = std::max(end, own_end);
      }
    }
    best = std::max(best, units / ToSeconds(end - begin));
  }
  return best;
}

double OperationRate(const Threads& threads, int64_t (*loop)(int64_t rounds)) {
  if (loop == nullptr) return 0;
  return 2 * BestRate(threads, [loop](int) { return loop(kRounds); });
}

double ReadRate(const Threads& threads, void (*read)(const std::byte* data, size_t bytes)) {
  const auto count = static_cast<size_t>(threads.count());
  const size_t part = kReadBytes / count / simd::kReadMultiple * simd::kReadMultiple;
  Table<std::byte> memory(part * count);
  const auto part_of = [&](int thread) {
    return memory.data() + static_cast<size_t>(thread) * part;
  };
  return BestRate(threads, [&](int thread) {
    read(part_of(thread), part);
    return part;
  });
}

std::string CpuName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "";
}

}  // namespace

MachineRates MeasureCpuRates(const simd::Kernels& kernels, const Threads& threads) {
  const simd::RateLoops& loops = simd::RateLoopsOf(kernels);
  return {.cpu = CpuName(),
          .isa = kernels.name,
          .num_threads = threads.count(),
          .f32 = OperationRate(threads, loops.f32),
          .bf16 = OperationRate(threads, loops.bf16),
          .int8 = OperationRate(threads, loops.int8),
          .read_bytes = ReadRate(threads, loops.read)};
}

}  // namespace incipit
