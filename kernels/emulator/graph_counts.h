// Functions for tests that count the kernels and graphs that the emulated device has run.
#pragma once

#include <cstdint>
#include <string_view>

namespace incipit::emulator {

// Numbers of graphs that were recorded, and of graph launches, since the start of the program.
struct GraphCounts {
  int64_t recorded = 0, launched = 0;

  bool operator==(const GraphCounts&) const = default;
};
GraphCounts CountsOfGraphs();

// Returns the number of kernel launches since the start of the program. Counts all kernels whose
// type name contains `kernel`.
int64_t LaunchesOf(std::string_view kernel);

}  // namespace incipit::emulator
