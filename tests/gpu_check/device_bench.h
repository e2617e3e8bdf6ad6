// Takes the time of kernels: launches in a graph, so that what a launch costs the host is not in
// it, over memory that takes turns, so that nothing is found in L2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/runtime/runtime.h"

namespace incipit::cuda {

// What a launch moves and computes, by the formula that its share of a limit is given of.
struct Work {
  std::string name;
  double bytes = 0, flops = 0;
};

class DeviceBench {
 public:
  // `smoke`: tiny sizes and few samples, to see that it runs. `loads_all`: as OpenDevice has it.
  static absl::StatusOr<DeviceBench> Open(bool smoke, bool loads_all);

  Stream& stream() { return stream_; }
  const DeviceProperties& device() const { return device_; }
  bool is_smoke() const { return is_smoke_; }
  int64_t Size(int64_t real, int64_t smoke) const { return is_smoke_ ? smoke : real; }
  // So many pieces of `bytes`, read in turn, are out of L2 before their next turn.
  int32_t TurnsFor(double bytes) const;

  absl::StatusOr<Memory> Random(size_t bytes);
  // int32_t, on the device.
  absl::StatusOr<Memory> Number(int32_t value);

  // Prints the time of one call of `enqueue`, which takes the number of its turn, 0 .. `turns` - 1:
  // the median of the samples, each of one graph with as many calls as take long beside a launch.
  absl::Status Measure(const Work& work, int32_t turns,
                       const std::function<void(int32_t)>& enqueue);
  // Prints what `run` gives: seconds of one thing as the host sees it.
  absl::Status TimeOnHost(const Work& work, int32_t num_samples,
                          const std::function<absl::StatusOr<double>()>& run);

 private:
  DeviceBench(DeviceProperties device, Stream stream, bool smoke)
      : device_(std::move(device)), stream_(std::move(stream)), is_smoke_(smoke) {}

  absl::StatusOr<Graph> Record(int32_t num_calls, int32_t turns,
                               const std::function<void(int32_t)>& enqueue);
  absl::StatusOr<double> SecondsOf(Graph& graph);

  DeviceProperties device_;
  Stream stream_;
  bool is_smoke_;
};

void PrintDevice(const DeviceBench& bench);

// The parts of the program.
absl::Status MeasureMemory(DeviceBench& bench);
absl::Status MeasureProducts(DeviceBench& bench);
absl::Status MeasureLibrary(DeviceBench& bench);
absl::Status MeasureAttention(DeviceBench& bench);
absl::Status MeasureModel(DeviceBench& bench);
// Prints results of operations, each with how near another machine's must be.
absl::Status PrintResults(DeviceBench& bench);

}  // namespace incipit::cuda
