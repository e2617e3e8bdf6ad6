// Declares functions for tests that count the kernels and CUDA graphs that the emulated device has
// launched.
#pragma once

#include <cstdint>
#include <string_view>

namespace incipit::emulator {

// Number of CUDA graphs that were recorded, and number of graph launches, since the program
// started.
struct GraphCounts {
  int64_t recorded = 0, launched = 0;

  bool operator==(const GraphCounts&) const = default;
};
GraphCounts CountsOfGraphs();

// Returns the number of kernel launches since the program started. Only kernels whose type name
// contains the text `kernel` are counted.
int64_t LaunchesOf(std::string_view kernel);

}  // namespace incipit::emulator
