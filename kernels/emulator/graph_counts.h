// Counts of kernels and graphs that the emulated device has run, for tests.
#pragma once

#include <cstdint>
#include <string_view>

namespace incipit::emulator {

// Counts of graphs since the start of the program.
struct GraphCounts {
  int64_t recorded = 0, launched = 0;

  bool operator==(const GraphCounts&) const = default;
};
GraphCounts CountsOfGraphs();

// Returns the number of launches since the start of the program of all kernels whose type name
// contains `kernel`.
int64_t LaunchesOf(std::string_view kernel);

}  // namespace incipit::emulator
