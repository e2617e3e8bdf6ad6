// Declares functions with which tests count kernel launches and CUDA graphs.
#pragma once

#include <cstdint>
#include <string_view>

namespace incipit::emulator {

// Numbers of recorded CUDA graphs and of launches of CUDA graphs since the program started.
struct GraphCounts {
  int64_t recorded = 0, launched = 0;

  bool operator==(const GraphCounts&) const = default;
};
GraphCounts CountsOfGraphs();

// Returns how many times kernels whose type name contains `kernel` were launched since the program
// started.
int64_t LaunchesOf(std::string_view kernel);

}  // namespace incipit::emulator
