// simulate [FIRST_SEED [COUNT]]: simulates COUNT seeds from FIRST_SEED on. The exit status is 0 if
// no simulation finds an error, and 1 otherwise.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/sim/simulation.h"

int main(int argc, char** argv) {
  const uint64_t first = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  const uint64_t count = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 2000;
  incipit::SimulationCounts counts;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const std::string error = incipit::Simulate(seed, counts);
    if (error.empty()) continue;
    std::printf("seed %lu: %s\n", seed, error.c_str());
    return 1;
  }
  std::printf("%lu seeds: %s\n", count, counts.ToString().c_str());
  return 0;
}
