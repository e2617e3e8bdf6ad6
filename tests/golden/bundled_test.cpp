// Tests the bundled model of the repository against outputs that an independent program computed
// once.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/json/json.h"
#include "base/mapped_file.h"
#include "base/types.h"
#include "gtest/gtest.h"
#include "tests/golden/checkpoint_run.h"

namespace incipit {
namespace {

const std::filesystem::path kSource = INCIPIT_SOURCE_DIR;

class BundledTest : public testing::TestWithParam<bool> {};

TEST_P(BundledTest, GreedyIdsAreTheGoldenOnes) {
  const auto golden = ParseJson(*ReadTextFile(kSource / "tests/golden/incipit-tiny/golden.json"));
  ASSERT_TRUE(golden.ok()) << golden.status();
  const auto ends = (*golden)["end_ids"].get<std::vector<TokenId>>();
  const auto& cases = (*golden)["cases"];
  ASSERT_GE(cases.size(), 4U);
  for (const auto& entry : cases) {
    const auto prompt = entry["prompt_ids"].get<std::vector<TokenId>>();
    const auto output = entry["greedy_ids"].get<std::vector<TokenId>>();
    const bool stops = entry["finish_reason"] == "stop";
    auto options = CheckpointRun::OptionsFor(prompt.size() + output.size() + 1);
    options.kv_dtype = DType::kF32;
    CheckpointRun run(ReferenceOrCpu(GetParam(), UnroundedCpu()), kSource / "models/incipit-tiny",
                      options);
    auto ids = run.Greedy(prompt, static_cast<int32_t>(output.size()) + (stops ? 1 : 0));
    if (stops) {
      EXPECT_NE(std::ranges::find(ends, ids.back()), ends.end()) << entry["prompt"];
      ids.pop_back();
    }
    EXPECT_EQ(ids, output) << entry["prompt"];
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, BundledTest, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Reference" : "Fast"; });

}  // namespace
}  // namespace incipit
