// Measures the time of kernels. A graph launches many calls of a kernel, which excludes the cost of
// a launch on the host. Calls use several buffers in turn, so that they find no data in the L2
// cache.
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

// The name of a measurement, and the bytes moved and operations computed by one call. gpu_check
// compares both numbers with the limits of the device.
struct Work {
  std::string name;
  double bytes = 0, flops = 0;
};

class DeviceBench {
 public:
  // Opens the first device. If `smoke` is true, sizes are tiny and samples few, only to check that
  // the program runs. For `loads_all`, see OpenDevice.
  static absl::StatusOr<DeviceBench> Open(bool smoke, bool loads_all);

  Stream& stream() { return stream_; }
  const DeviceProperties& device() const { return device_; }
  bool is_smoke() const { return is_smoke_; }
  int64_t Size(int64_t real, int64_t smoke) const { return is_smoke_ ? smoke : real; }
  // Returns how many buffers of `bytes` bytes must be used in turn, so that a buffer has left the
  // L2 cache before its next use.
  int32_t TurnsFor(double bytes) const;

  absl::StatusOr<Memory> Random(size_t bytes);
  // Returns device memory that holds the int32_t `value`.
  absl::StatusOr<Memory> Number(int32_t value);

  // Prints the time of one call of `enqueue`, the median of several samples. Each call receives the
  // index of the buffer to use, in [0, `turns`). Each sample runs a graph with so many calls that
  // the cost of the launch is small.
  absl::Status Measure(const Work& work, int32_t turns,
                       const std::function<void(int32_t)>& enqueue);
  // Prints the seconds that `run` returns, as measured on the host.
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

// The parts of the benchmark program.
absl::Status MeasureMemory(DeviceBench& bench);
absl::Status MeasureProducts(DeviceBench& bench);
absl::Status MeasureLibrary(DeviceBench& bench);
absl::Status MeasureAttention(DeviceBench& bench);
absl::Status MeasureModel(DeviceBench& bench);
// Prints results of operations. Each result states its tolerance for a comparison with another
// machine.
absl::Status PrintResults(DeviceBench& bench);

}  // namespace incipit::cuda
