#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/sim/simulation.h"

namespace incipit {
namespace {

// Returns the environment variable INCIPIT_SIM_SEED, or 0 if the variable is not set. A build that
// runs regularly sets a new seed each time, to test new simulations.
uint64_t FirstSeed() {
  const char* text = std::getenv("INCIPIT_SIM_SEED");
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 0);
}

TEST(SimulationTest, EveryRequestGetsItsOwnOutputWhateverElseHappens) {
  SimulationCounts counts;
  for (uint64_t seed = FirstSeed() + 1; seed <= FirstSeed() + 2400; ++seed) {
    ASSERT_EQ(Simulate(seed, counts), "") << "replay with: simulate " << seed << " 1";
  }
  std::printf("%s\n", counts.ToString().c_str());
  // Each kind of event must be frequent. Otherwise the simulations would not test this kind.
  EXPECT_GT(counts.preemptions, 1000);
  EXPECT_GT(counts.cancels, 1000);
  EXPECT_GT(counts.expired, 1000);
  EXPECT_GT(counts.failed, 1000);
  EXPECT_GT(counts.aborts, 1000);
  EXPECT_GT(counts.forks, 1000);
  EXPECT_GT(counts.evictions, 1000);
  EXPECT_GT(counts.hit_tokens, 10'000);
  EXPECT_GT(counts.copied_tokens, 10'000);
  EXPECT_GT(counts.low_priority, 1000);
  EXPECT_GT(counts.lives_over, 1000);
  EXPECT_GT(counts.regret, 1000);
  EXPECT_GT(counts.collisions, 1000);
  EXPECT_GT(counts.resets, 100);
  EXPECT_GT(counts.ahead, 10'000);
  EXPECT_GT(counts.fed, 10'000);
  EXPECT_GT(counts.counted, 10'000);
  EXPECT_GT(counts.sat_out, 1000);
  EXPECT_GT(counts.loaded_tokens, 1000);
  EXPECT_GT(counts.failed_loads, 100);
  EXPECT_GT(counts.load_parts, 100);
}

}  // namespace
}  // namespace incipit
