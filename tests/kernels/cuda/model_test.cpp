// Tests whole models with the CUDA backend on a card or on the emulated device. The tests cover
// golden outputs, an engine under pressure, and values that are not finite.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "base/json/json.h"
#include "base/mapped_file.h"
#include "kernels/cuda/cuda_options.h"
#include "tests/exactness/model_engine.h"
#include "tests/golden/checkpoint_run.h"
#include "tests/kernels/cuda/random_checkpoint.h"
#include "tests/support/checkpoint_name.h"
#include "tests/support/source_folder.h"
#include "tests/support/step_builder.h"

namespace incipit {
namespace {

// Maximum difference of two log probabilities for which two tokens may be in either order. Another
// program computed the golden outputs in f32, but this backend uses bf16 for weights, keys and
// activations.
constexpr double kNearTie = 0.1;

// A step of at most this number of tokens adds in the same order on every card.
constexpr int32_t kAddedUpAlike = 64;

std::unique_ptr<Backend> OnDevice(int32_t) {
  auto backend = CreateCudaBackend({});
  INCIPIT_CHECK(backend.ok());
  return *std::move(backend);
}

TransformerRunnerOptions OptionsFor(size_t num_tokens) {
  TransformerRunnerOptions options;
  options.block_size = 16;
  options.num_blocks = static_cast<int32_t>(num_tokens / 16) + 8;
  options.step_tokens_max = static_cast<int32_t>(num_tokens);
  return options;
}

bool IsCard() { return OnDevice(1)->limits().description.find("emulator") == std::string::npos; }

// Skips the test, with the reason, if this machine has no device.
template <class Test>
class OnDeviceOnly : public Test {
 protected:
  void SetUp() override {
    const auto backend = CreateCudaBackend({});
    if (!backend.ok()) GTEST_SKIP() << backend.status().message();
  }
};
using CudaModelTest = OnDeviceOnly<testing::Test>;
using CudaEngineTest = OnDeviceOnly<testing::TestWithParam<std::string>>;

// Expects that each golden output token is the most likely token after the tokens before it, or
// nearly as likely.
void ExpectGoldenButForNearTies(const std::filesystem::path& folder,
                                const std::vector<TokenId>& prompt,
                                const std::vector<TokenId>& output) {
  std::vector<TokenId> tokens = prompt;
  tokens.insert(tokens.end(), output.begin(), output.end());
  CheckpointRun run(OnDevice(1), folder, OptionsFor(tokens.size()));
  const auto logprobs = run.AllLogprobs(tokens, 1 << 20);
  for (size_t i = 0; i < output.size(); ++i) {
    const auto& row = logprobs[prompt.size() + i - 1];
    const double golden_token = row[static_cast<size_t>(output[i])];
    ASSERT_LE(*std::ranges::max_element(row) - golden_token, kNearTie) << "token " << i;
  }
}

// The emulated device adds in the same order as the program that computed the golden output. A card
// may add in another order.
TEST_F(CudaModelTest, StoriesGivesTheGoldenIds) {
  const auto folder = StoriesFolder();
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  const auto golden = ParseJson(*ReadTextFile(folder / "golden.json"));
  ASSERT_TRUE(golden.ok()) << golden.status();
  const auto prompt = (*golden)["prompt_ids"].get<std::vector<TokenId>>();
  const auto output = (*golden)["greedy_ids"].get<std::vector<TokenId>>();
  CheckpointRun run(OnDevice(1), folder, OptionsFor(prompt.size() + output.size()));
  const auto found = run.Greedy(prompt, static_cast<int32_t>(output.size()));
  if (!IsCard()) {
    ASSERT_EQ(found, output);
    return;
  }
  ExpectGoldenButForNearTies(folder, prompt, output);
  if (found != output) {
    std::printf(
        "[ LIMITED  ] output of stories260K differs from the golden ids at token %td, a near tie\n",
        std::ranges::mismatch(found, output).in1 - found.begin());
  }
}

TEST_F(CudaModelTest, TheBundledModelGivesTheGoldenIdsButForNearTies) {
  const auto path = SourceFolder() / "tests/golden/incipit-tiny/golden.json";
  const auto golden = ParseJson(*ReadTextFile(path));
  ASSERT_TRUE(golden.ok()) << golden.status();
  const bool is_card = IsCard();
  // The emulator would take a minute for all cases and tokens.
  const size_t cases_max = is_card ? SIZE_MAX : 3, tokens_max = is_card ? SIZE_MAX : 4;
  size_t num_cases = 0;
  for (const auto& entry : (*golden)["cases"]) {
    if (++num_cases > cases_max) break;
    SCOPED_TRACE(entry["prompt"].dump());
    auto output = entry["greedy_ids"].get<std::vector<TokenId>>();
    output.resize(std::min(output.size(), tokens_max));
    ExpectGoldenButForNearTies(SourceFolder() / "models/incipit-tiny",
                               entry["prompt_ids"].get<std::vector<TokenId>>(), output);
  }
}

// Products of more than 64 rows use other tensor instructions, which may add in another order.
TEST_F(CudaModelTest, StepsOfMoreThan64TokensGiveWhatSmallOnesGiveButForNearTies) {
  const RandomCheckpoint checkpoint(128);
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < 100; ++i) tokens.push_back(3 + 7 * i % (kRandomVocab - 3));
  CheckpointRun run(OnDevice(1), checkpoint.path(), OptionsFor(tokens.size()));
  const bool is_card = IsCard();
  const auto at_once = run.AllLogprobs(tokens, 1 << 20), in_parts = run.AllLogprobs(tokens, 33);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto likeliest = std::ranges::max_element(at_once[i]) - at_once[i].begin();
    ASSERT_LE(std::ranges::max(in_parts[i]) - in_parts[i][static_cast<size_t>(likeliest)], kNearTie)
        << i;
    if (!is_card) {
      ASSERT_EQ(at_once[i], in_parts[i]) << i;
    }
  }
}

// Returns the output tokens of sequences that decode together. If `is_fed` is true, each step is
// launched before the previous step has ended, and reads that step's tokens on the device.
// Otherwise the host waits for each step, and passes its tokens to the next step.
std::vector<std::vector<TokenId>> Decoded(TransformerRunner& runner, bool is_fed,
                                          int32_t num_steps) {
  constexpr int32_t kSequences = 3;
  constexpr int32_t kBlocksEach = 3;
  std::array<StepBuilder, 2> steps;
  std::vector<std::vector<TokenId>> outputs(kSequences);
  std::array<SamplingParams, kSequences> params;
  for (int32_t s = 0; s < kSequences; ++s) params[s].seed = static_cast<uint64_t>(s);
  params[0].temperature = 0;
  const auto wait = [&] {
    StepResult result;
    EXPECT_TRUE(runner.Wait(result).ok());
    for (int32_t s = 0; s < kSequences; ++s) outputs[s].push_back(result.tokens.at(s));
  };
  for (int32_t step = 0; step < num_steps; ++step) {
    StepBuilder& builder = steps[step % 2];
    builder = {};
    for (int32_t s = 0; s < kSequences; ++s) {
      const int32_t prompt = 5 + 9 * s, count = step == 0 ? prompt : 1;
      const int32_t first = step == 0 ? 0 : prompt + step - 1;
      std::vector<TokenId> tokens;
      for (int32_t i = 0; i < count; ++i) {
        tokens.push_back(step == 0 ? 4 + 3 * i + s : is_fed ? -1 - s : outputs[s].back());
      }
      std::array<int32_t, kBlocksEach> blocks;
      std::iota(blocks.begin(), blocks.end(), s * kBlocksEach);
      const int32_t row = builder.AddTokens(tokens, first, blocks);
      builder.AddSample(row + count - 1, params[s], 0, first + count);
    }
    EXPECT_TRUE(runner.Launch(builder.Build()).ok());
    if (!is_fed || step > 0) wait();
  }
  if (is_fed) wait();
  return outputs;
}

TEST_F(CudaModelTest, TokensFedForwardOnTheDeviceGiveWhatTheHostFeeds) {
  const auto folder = SourceFolder() / "tests/golden/hf/llama-bf16";
  CheckpointRun run(OnDevice(1), folder, OptionsFor(160));
  const auto by_host = Decoded(run.runner(), false, 8);
  EXPECT_EQ(Decoded(run.runner(), true, 8), by_host);
}

TEST_F(CudaModelTest, ARequestWhoseValuesTurnNaNEndsAloneAndItsBlocksServeOthers) {
  ExpectNaNStaysWithItsRequest(OnDevice, 16);
}

TEST_P(CudaEngineTest, UnderPressureEveryRequestGetsWhatItGetsAlone) {
  ExpectOutputsAsAlone(GetParam(), OnDevice,
                       {.block_size = 16,
                        .num_blocks = 18,
                        .num_blocks_alone = 32,
                        .num_requests = 8,
                        .num_rounds = 2,
                        .output_tokens = 10,
                        .step_tokens_max_alone = IsCard() ? kAddedUpAlike : 512});
}

// The heads of the bundled model have 64 dimensions, which the kernels with tensor instructions
// support.
TEST_F(CudaModelTest, TheBundledModelUnderPressureGivesEveryRequestWhatItGetsAlone) {
  if (!IsCard())
    GTEST_SKIP() << "the emulator would take minutes; the test e2e_emulated does less work";
  const auto folder = std::filesystem::absolute(SourceFolder() / "models/incipit-tiny");
  ExpectOutputsAsAlone(folder.string(), OnDevice,
                       {.block_size = 16,
                        .num_blocks = 26,
                        .num_blocks_alone = 32,
                        .step_tokens_max_alone = kAddedUpAlike});
}

// The heads have 128 dimensions, as in large models.
TEST_F(CudaModelTest, HeadsOf128DimensionsUnderPressureGiveEveryRequestWhatItGetsAlone) {
  ExpectOutputsAsAlone(RandomCheckpoint(128).path(), OnDevice,
                       {.block_size = 16,
                        .num_blocks = 18,
                        .num_blocks_alone = 32,
                        .num_requests = 8,
                        .num_rounds = 2,
                        .output_tokens = 10,
                        .step_tokens_max_alone = IsCard() ? kAddedUpAlike : 512});
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, CudaEngineTest,
                         testing::Values("llama-bf16", "mistral-window", "qwen2-tied-bf16",
                                         "qwen3-plain"),
                         NameOfCheckpoint);

}  // namespace
}  // namespace incipit
