// What the emulated device has done with graphs, as tests want to know.
#pragma once

#include <cstdint>

namespace incipit::emulator {

// Since the program began.
struct GraphCounts {
  int64_t recorded = 0, launched = 0;

  bool operator==(const GraphCounts&) const = default;
};
GraphCounts CountsOfGraphs();

}  // namespace incipit::emulator
