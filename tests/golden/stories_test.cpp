// Tests a trained model of the Llama architecture. An independent program computed the expected
// greedy continuation from the original weights.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/json/json.h"
#include "base/mapped_file.h"
#include "base/types.h"
#include "gtest/gtest.h"
#include "tests/golden/checkpoint_run.h"
#include "tests/support/source_folder.h"

namespace incipit {
namespace {

const std::filesystem::path kFolder = StoriesFolder();

class StoriesTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    const auto golden = ParseJson(*ReadTextFile(kFolder / "golden.json"));
    ASSERT_TRUE(golden.ok()) << golden.status();
    prompt_ = (*golden)["prompt_ids"].get<std::vector<TokenId>>();
    output_ = (*golden)["greedy_ids"].get<std::vector<TokenId>>();
    options_ = CheckpointRun::OptionsFor(prompt_.size() + output_.size());
  }

  std::vector<TokenId> prompt_, output_;
  TransformerRunnerOptions options_;
};

TEST_P(StoriesTest, GreedyIdsAreTheGoldenOnes) {
  CheckpointRun run(ReferenceOrCpu(GetParam()), kFolder, options_);
  EXPECT_EQ(run.Greedy(prompt_, static_cast<int32_t>(output_.size())), output_);
}

TEST_P(StoriesTest, EveryTokenOfTheOutputIsTheLikeliestWhenTheWholeTextIsOnePrompt) {
  std::vector<TokenId> text = prompt_;
  text.insert(text.end(), output_.begin(), output_.end());
  CheckpointRun run(ReferenceOrCpu(GetParam()), kFolder, options_);
  for (const int32_t chunk : {1000, 16, 5}) {
    const auto logprobs = run.AllLogprobs(text, chunk);
    for (size_t i = prompt_.size(); i < text.size(); ++i) {
      const std::vector<double>& row = logprobs[i - 1];
      EXPECT_EQ(std::ranges::max_element(row) - row.begin(), text[i]) << chunk << " " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, StoriesTest, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Reference" : "Fast"; });

}  // namespace
}  // namespace incipit
