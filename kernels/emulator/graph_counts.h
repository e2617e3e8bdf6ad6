// What the emulated device has run, and done with graphs, as tests want to know.
#pragma once

#include <cstdint>
#include <string_view>

namespace incipit::emulator {

// Since the program began.
struct GraphCounts {
  int64_t recorded = 0, launched = 0;

  bool operator==(const GraphCounts&) const = default;
};
GraphCounts CountsOfGraphs();

// Launches that have run since the program began, of kernels whose type has this in its name.
int64_t LaunchesOf(std::string_view kernel);

}  // namespace incipit::emulator
