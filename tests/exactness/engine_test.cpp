// Tests exactness with a whole engine under pressure. A request that hits the cache, copies blocks,
// waits, is preempted or loads its prefix from a disk must get the same tokens and log
// probabilities as it gets alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>

#include "kernels/cpu/cpu_options.h"
#include "tests/exactness/disk_tiers.h"
#include "tests/exactness/model_engine.h"
#include "tests/exactness/overlap_outputs.h"

namespace incipit {
namespace {

std::unique_ptr<Backend> Cpu(int32_t num_threads) {
  auto backend = CreateCpuBackend({.num_threads = num_threads});
  INCIPIT_CHECK(backend.ok());
  return *std::move(backend);
}

std::string NameOfTier(TestTier tier) {
  switch (tier) {
    case TestTier::kNone:
      return "NoTier";
    case TestTier::kDisk:
      return "Disk";
    case TestTier::kSmallStaging:
      return "SmallStaging";
  }
  return {};
}

constexpr TestTier kTiers[] = {TestTier::kNone, TestTier::kDisk, TestTier::kSmallStaging};

class EngineNaNTest : public testing::TestWithParam<TestTier> {};

TEST_P(EngineNaNTest, ARequestWhoseValuesTurnNaNEndsAloneAndItsBlocksServeOthers) {
  DiskTiers tiers(GetParam());
  ExpectNaNStaysWithItsRequest(Cpu, 8, tiers.opener());
}

INSTANTIATE_TEST_SUITE_P(Tiers, EngineNaNTest, testing::ValuesIn(kTiers),
                         [](const auto& info) { return NameOfTier(info.param); });

using EngineCase = std::tuple<std::string, TestTier>;  // a checkpoint and a tier

std::string NameOfCase(const testing::TestParamInfo<EngineCase>& info) {
  std::string name = std::get<0>(info.param) + "_" + NameOfTier(std::get<1>(info.param));
  std::ranges::replace(name, '-', '_');
  return name;
}

class EngineExactnessTest : public testing::TestWithParam<EngineCase> {
 protected:
  const std::string& checkpoint() const { return std::get<0>(GetParam()); }
  DiskTiers tiers_{std::get<1>(GetParam())};
};

TEST_P(EngineExactnessTest, UnderPressureEveryRequestGetsWhatItGetsAlone) {
  ExpectOutputsAsAlone(checkpoint(), Cpu, {}, tiers_.opener());
}

TEST_P(EngineExactnessTest, PenaltiesHaveTheSameEffectWithTwoStepsInFlight) {
  ExpectSameOutputsWithOverlap(checkpoint(), Cpu, 15, 24, tiers_.opener());
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, EngineExactnessTest,
                         testing::Combine(testing::Values("llama-bf16", "llama-llama3",
                                                          "mistral-window", "qwen2-tied-bf16",
                                                          "qwen3-plain"),
                                          testing::ValuesIn(kTiers)),
                         NameOfCase);

}  // namespace
}  // namespace incipit
