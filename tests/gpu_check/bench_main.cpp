// Prints the measurements and results that tools/gpu_check.py reads from a device, one line of JSON
// each. The program is built for a card and for the emulated device. On the emulated device, times
// mean nothing.
#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "tests/gpu_check/device_bench.h"

namespace incipit::cuda {
namespace {

constexpr int kWrongFlags = 2, kNoDevice = 77;

const std::map<std::string, std::function<absl::Status(DeviceBench&)>>& Parts() {
  static const auto* const parts =
      new std::map<std::string, std::function<absl::Status(DeviceBench&)>>{
          {"memory", MeasureMemory},   {"products", MeasureProducts},
          {"library", MeasureLibrary}, {"attention", MeasureAttention},
          {"model", MeasureModel},     {"results", PrintResults}};
  return *parts;
}

int Main(std::span<char*> arguments) {
  bool smoke = false;
  std::string part = "memory";
  for (const std::string_view argument : arguments.subspan(1)) {
    if (argument == "--smoke") {
      smoke = true;
    } else {
      part = argument;
    }
  }
  const auto found = Parts().find(part);
  if (found == Parts().end()) {
    fmt::print(stderr, "{} [--smoke] memory | products | library | attention | model | results\n",
               arguments.front());
    return kWrongFlags;
  }
  // The parts `library` and `model` load cuBLASLt. Loading all kernels of cuBLASLt at the start
  // would need hundreds of megabytes.
  const bool loads_library = part == "library" || part == "model";
  auto bench = DeviceBench::Open(smoke, !loads_library);
  if (!bench.ok()) {
    fmt::print(stderr, "{}\n", MessageOf(bench.status()));
    return kNoDevice;
  }
  PrintDevice(*bench);
  const absl::Status status = found->second(*bench);
  if (status.ok()) return 0;
  fmt::print(stderr, "{}: {}\n", part, MessageOf(status));
  return 1;
}

}  // namespace
}  // namespace incipit::cuda

int main(int argc, char** argv) { return incipit::cuda::Main({argv, static_cast<size_t>(argc)}); }
