// Tests exactness with a whole engine under pressure. A request that hits the cache, copies blocks,
// waits or is preempted must get the same tokens and log probabilities as it gets alone.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_options.h"
#include "tests/exactness/model_engine.h"
#include "tests/exactness/overlap_outputs.h"
#include "tests/support/checkpoint_name.h"

namespace incipit {
namespace {

std::unique_ptr<Backend> Cpu(int32_t num_threads) {
  auto backend = CreateCpuBackend({.num_threads = num_threads});
  INCIPIT_CHECK(backend.ok());
  return *std::move(backend);
}

TEST(EngineNaNTest, ARequestWhoseValuesTurnNaNEndsAloneAndItsBlocksServeOthers) {
  ExpectNaNStaysWithItsRequest(Cpu, 8);
}

class EngineExactnessTest : public testing::TestWithParam<std::string> {};

TEST_P(EngineExactnessTest, UnderPressureEveryRequestGetsWhatItGetsAlone) {
  ExpectOutputsAsAlone(GetParam(), Cpu, {});
}

TEST_P(EngineExactnessTest, PenaltiesHaveTheSameEffectWithTwoStepsInFlight) {
  ExpectSameOutputsWithOverlap(GetParam(), Cpu, 15, 24);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, EngineExactnessTest,
                         testing::Values("llama-bf16", "llama-llama3", "mistral-window",
                                         "qwen2-tied-bf16", "qwen3-plain"),
                         NameOfCheckpoint);

}  // namespace
}  // namespace incipit
