// Compares any sequence of calls to the KV cache with a naive cache that keeps whole prefixes in a
// map.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <random>

#include "tests/kvcache/model_run.h"
#include "tests/kvcache/policies/policy_kinds.h"

namespace incipit {
namespace {

class ModelTest : public testing::TestWithParam<EvictionPolicyKind> {};

INSTANTIATE_TEST_SUITE_P(Policies, ModelTest, testing::ValuesIn(kPolicyKinds), PolicyTestName);

// Returns the number of seeds: the value of INCIPIT_MODEL_SEEDS or, if it is not set, 100.
uint64_t NumSeeds() {
  const char* text = std::getenv("INCIPIT_MODEL_SEEDS");
  return text == nullptr ? 100 : std::strtoull(text, nullptr, 0);
}

TEST_P(ModelTest, AnySequenceOfCallsEqualsANaiveCache) {
  int64_t num_victims = 0, num_retained_victims = 0, num_expired = 0, num_copies = 0;
  int64_t num_shared = 0, num_aborts = 0, num_forks = 0, num_resets = 0;
  for (uint64_t seed = 1; seed <= NumSeeds(); ++seed) {
    std::mt19937_64 random(seed);
    ModelRun run([&](uint32_t) { return random(); }, GetParam());
    ASSERT_EQ(run.Run(400), "") << "seed " << seed;
    num_victims += run.num_victims();
    num_retained_victims += run.num_retained_victims();
    num_expired += run.num_expired();
    num_copies += run.num_copies;
    num_shared += run.num_shared_pending;
    num_aborts += run.num_aborts;
    num_forks += run.num_forks;
    num_resets += run.num_resets;
  }
  // What never happens proves nothing.
  EXPECT_GT(num_victims, 3000);
  EXPECT_GT(num_retained_victims, 500);
  EXPECT_GT(num_expired, 50);
  EXPECT_GT(num_copies, 300);
  EXPECT_GT(num_shared, 200);
  EXPECT_GT(num_aborts, 500);
  EXPECT_GT(num_forks, 300);
  EXPECT_GT(num_resets, 10);
}

}  // namespace
}  // namespace incipit
