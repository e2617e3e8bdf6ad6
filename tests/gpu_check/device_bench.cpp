#include "tests/gpu_check/device_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/status.h"
#include "tests/gpu_check/rate_kernels.h"

namespace incipit::cuda {
namespace {

constexpr int32_t kSamples = 50, kSmokeSamples = 2;
// Target duration of a sample in seconds. A launch and a wait take about 20 us on the host.
constexpr double kSampleSeconds = 0.008;
constexpr int32_t kCallsMax = 4096;
// Minimum total size of the buffers that launches use in turn, divided by the size of the L2 cache.
// When a buffer is used again, little of it is still in the L2 cache.
constexpr double kL2Times = 16;

void PrintTimes(const Work& work, std::vector<double> seconds, int32_t calls) {
  std::ranges::sort(seconds);
  fmt::print(
      "{{\"name\": \"{}\", \"seconds\": {:.9g}, \"shortest\": {:.9g}, \"longest\": {:.9g}, "
      "\"samples\": {}, \"calls\": {}, \"bytes\": {:.0f}, \"flops\": {:.0f}}}\n",
      work.name, seconds[seconds.size() / 2], seconds.front(), seconds.back(), seconds.size(),
      calls, work.bytes, work.flops);
  std::fflush(stdout);
}

}  // namespace

absl::StatusOr<DeviceBench> DeviceBench::Open(bool smoke, bool loads_all) {
  INCIPIT_ASSIGN_OR_RETURN(DeviceProperties device, OpenDevice(0, loads_all));
  INCIPIT_ASSIGN_OR_RETURN(Stream stream, Stream::Create());
  return DeviceBench(std::move(device), std::move(stream), smoke);
}

int32_t DeviceBench::TurnsFor(double bytes) const {
  if (is_smoke_) return 2;
  const double all = kL2Times * static_cast<double>(device_.l2_bytes);
  return std::max(1, static_cast<int32_t>(std::ceil(all / bytes)));
}

absl::StatusOr<Memory> DeviceBench::Random(size_t bytes) {
  INCIPIT_ASSIGN_OR_RETURN(Memory memory, Memory::Allocate(Place::kDevice, bytes));
  const auto count = static_cast<int64_t>(bytes / sizeof(dev::Vec4));
  const int64_t blocks = (count + FillRandom::kThreads - 1) / FillRandom::kThreads;
  Launch<FillRandom>(stream_,
                     {.num_blocks = static_cast<int32_t>(std::clamp<int64_t>(
                          blocks, 1, int64_t{device_.num_sms} * FillRandom::kBlocksPerSm))},
                     {.out = memory.as<dev::Vec4>(), .count = count, .seed = 1});
  INCIPIT_RETURN_IF_ERROR(stream_.Wait());
  return memory;
}

absl::StatusOr<Memory> DeviceBench::Number(int32_t value) {
  INCIPIT_ASSIGN_OR_RETURN(Memory memory, Memory::Allocate(Place::kDevice, sizeof(value)));
  INCIPIT_ASSIGN_OR_RETURN(const Memory pinned, Memory::Allocate(Place::kPinned, sizeof(value)));
  *pinned.as<int32_t>() = value;
  stream_.Copy(memory.data(), pinned.data(), sizeof(value));
  INCIPIT_RETURN_IF_ERROR(stream_.Wait());
  return memory;
}

absl::StatusOr<Graph> DeviceBench::Record(int32_t num_calls, int32_t turns,
                                          const std::function<void(int32_t)>& enqueue) {
  Graph::Begin(stream_);
  // A measured kernel may start before the previous kernel has ended, and therefore needs a
  // previous kernel in the graph. For the first measured kernel, this empty launch is the previous
  // kernel.
  Launch<FillRandom>(stream_, {.num_blocks = 1}, {.out = nullptr, .count = 0, .seed = 0});
  for (int32_t i = 0; i < num_calls; ++i) enqueue(i % turns);
  return Graph::End(stream_);
}

absl::StatusOr<double> DeviceBench::SecondsOf(Graph& graph) {
  const SteadyClock clock;
  const Time begin = clock.Now();
  graph.Launch(stream_);
  INCIPIT_RETURN_IF_ERROR(stream_.Wait());
  return ToSeconds(clock.Now() - begin);
}

absl::Status DeviceBench::Measure(const Work& work, int32_t turns,
                                  const std::function<void(int32_t)>& enqueue) {
  // The first launch of a kernel sets the kernel up, which must not happen while a graph is
  // recorded. Therefore, launch the kernel before the recording.
  enqueue(0);
  INCIPIT_RETURN_IF_ERROR(stream_.Wait());
  INCIPIT_ASSIGN_OR_RETURN(Graph graph, Record(turns, turns, enqueue));
  int32_t calls = turns;
  if (!is_smoke_) {
    INCIPIT_RETURN_IF_ERROR(SecondsOf(graph).status());  // the first launch of a graph is slower
    INCIPIT_ASSIGN_OR_RETURN(const double seconds, SecondsOf(graph));
    const double rounds = std::clamp(kSampleSeconds / seconds, 1.0,
                                     std::max(1.0, static_cast<double>(kCallsMax) / turns));
    calls = turns * static_cast<int32_t>(std::ceil(rounds));
    INCIPIT_ASSIGN_OR_RETURN(graph, Record(calls, turns, enqueue));
    INCIPIT_RETURN_IF_ERROR(SecondsOf(graph).status());
  }
  std::vector<double> seconds;
  for (int32_t i = 0; i < Size(kSamples, kSmokeSamples); ++i) {
    INCIPIT_ASSIGN_OR_RETURN(const double sample, SecondsOf(graph));
    seconds.push_back(sample / calls);
  }
  PrintTimes(work, std::move(seconds), calls);
  return absl::OkStatus();
}

absl::Status DeviceBench::TimeOnHost(const Work& work, int32_t num_samples,
                                     const std::function<absl::StatusOr<double>()>& run) {
  std::vector<double> seconds;
  for (int32_t i = 0; i < Size(num_samples, kSmokeSamples); ++i) {
    INCIPIT_ASSIGN_OR_RETURN(const double sample, run());
    seconds.push_back(sample);
  }
  PrintTimes(work, std::move(seconds), 1);
  return absl::OkStatus();
}

void PrintDevice(const DeviceBench& bench) {
  const DeviceProperties& device = bench.device();
  fmt::print(
      "{{\"device\": \"{}\", \"software\": \"{}\", \"sms\": {}, \"memory_bytes\": {}, "
      "\"l2_bytes\": {}}}\n",
      device.name, device.software, device.num_sms, device.memory_bytes, device.l2_bytes);
  std::fflush(stdout);
}

// ---- memory

absl::Status MeasureMemory(DeviceBench& bench) {
  Stream& stream = bench.stream();
  const auto bytes = static_cast<size_t>(bench.Size(int64_t{1} << 30, int64_t{1} << 16));
  INCIPIT_ASSIGN_OR_RETURN(const Memory from, bench.Random(bytes));
  INCIPIT_ASSIGN_OR_RETURN(const Memory to, Memory::Allocate(Place::kDevice, bytes));
  INCIPIT_ASSIGN_OR_RETURN(const Memory sum, Memory::Allocate(Place::kDevice, sizeof(uint32_t)));

  const Work launch = {.name = "launch", .bytes = 0, .flops = 0};
  INCIPIT_RETURN_IF_ERROR(bench.TimeOnHost(launch, kSamples, [&]() -> absl::StatusOr<double> {
    const SteadyClock clock;
    const Time begin = clock.Now();
    Launch<FillRandom>(stream, {.num_blocks = 1}, {.out = nullptr, .count = 0, .seed = 0});
    INCIPIT_RETURN_IF_ERROR(stream.Wait());
    return ToSeconds(clock.Now() - begin);
  }));
  const auto size = static_cast<double>(bytes);
  INCIPIT_RETURN_IF_ERROR(
      bench.Measure({.name = "copy", .bytes = 2 * size, .flops = 0}, 2, [&](int32_t turn) {
        turn == 0 ? stream.Copy(to.data(), from.data(), bytes)
                  : stream.Copy(from.data(), to.data(), bytes);
      }));
  const auto count = static_cast<int64_t>(bytes / sizeof(dev::Vec4));
  const int64_t blocks = count / (ReadAll::kAtOnce * ReadAll::kThreads);
  return bench.Measure({.name = "read", .bytes = size, .flops = 0}, 2, [&](int32_t turn) {
    Launch<ReadAll>(stream,
                    {.num_blocks = static_cast<int32_t>(std::min<int64_t>(
                         blocks, int64_t{bench.device().num_sms} * ReadAll::kBlocksPerSm))},
                    {.in = (turn == 0 ? from : to).as<dev::Vec4>(),
                     .count = count,
                     .sum = sum.as<uint32_t>(),
                     .wanted = 0x9E3779B9});
  });
}

}  // namespace incipit::cuda
