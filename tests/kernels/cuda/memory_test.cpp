// Tests the work before the first step of a model: the backend allocates all memory and records
// graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/transformer_runner.h"
#include "kernels/cuda/cuda_options.h"
#include "kernels/emulator/runtime/device_memory.h"
#include "kernels/emulator/runtime/graph_counts.h"
#include "tests/conformance/support.h"
#include "tests/support/checkpoint_name.h"
#include "tests/support/step_builder.h"
#include "transformer/model.h"

namespace incipit {
namespace {

using ::testing::HasSubstr;

constexpr int32_t kStepTokens = 80, kBlocks = 600, kPositions = 112, kSamples = 200;

std::filesystem::path Folder(const std::string& name) {
  return std::filesystem::path(INCIPIT_SOURCE_DIR) / "tests/golden/hf" / name;
}

TransformerRunnerOptions Options() {
  TransformerRunnerOptions options;
  options.num_blocks = kBlocks;
  options.step_tokens_max = kStepTokens;
  options.samples_max = kSamples;
  options.max_model_len = kPositions;
  return options;
}

// A step with several sequences of random tokens. Each sequence has its own cache blocks. The
// samples use every option of sampling.
class RandomStep {
 public:
  RandomStep(RandomNumbers& numbers, int32_t vocab_size, int32_t num_tokens)
      : numbers_(numbers), vocab_size_(vocab_size) {
    params_.temperature = 0.8f;
    params_.num_logprobs = 3;
    params_.repetition_penalty = 1.2f;
    counts_ = {{.token = 5, .in_prompt = 1}, {.token = 9, .in_prompt = 0, .in_output = 2}};
    while (step_.num_tokens() < num_tokens) {
      const int32_t left = num_tokens - step_.num_tokens();
      AddSequence(numbers.Below(2) == 0 ? 1 : std::min(left, 1 + numbers.Below(50)));
    }
    for (int32_t i = numbers.Below(12); i > 0; --i) {
      step_.AddCopy({BlockId{i}, BlockId{i + 20}, 1 + numbers.Below(16)});
    }
  }
  RandomStep(const RandomStep&) = delete;
  RandomStep& operator=(const RandomStep&) = delete;

  Step step() const { return step_.Build(); }

 private:
  void AddSequence(int32_t count) {
    const int32_t first = numbers_.Below(kPositions - count), row = step_.num_tokens();
    std::vector<TokenId> tokens;
    for (int32_t i = 0; i < count; ++i) {
      if (count > 1 && i % 8 == 0) {
        step_.AddScore({.row = row + i, .target = numbers_.Below(vocab_size_), .num_top = i % 5});
      }
      tokens.push_back(numbers_.Below(vocab_size_));
    }
    std::vector<int32_t> blocks(static_cast<size_t>((first + count - 1) / 16 + 1));
    std::iota(blocks.begin(), blocks.end(), step_.num_blocks() + 20);
    step_.AddTokens(tokens, first, blocks);
    const int32_t num_choices = count > 1 ? 2 : 1;
    for (int32_t choice = 0; choice < num_choices; ++choice) {
      step_.AddSample(row + count - 1, params_, choice, first + count).counts = counts_;
    }
  }

  RandomNumbers& numbers_;
  const int32_t vocab_size_;
  SamplingParams params_;
  std::vector<TokenCount> counts_;
  StepBuilder step_;
};

class MemoryTest : public testing::TestWithParam<std::string> {};

TEST_P(MemoryTest, NoStepWithinTheBoundsAllocates) {
  const auto backend = *CreateCudaBackend({});
  const auto model = LoadModel(Folder(GetParam()), *backend);
  ASSERT_TRUE(model.ok()) << model.status();
  const auto runner = TransformerRunner::Create(*backend, *model, Options());
  ASSERT_TRUE(runner.ok()) << runner.status();

  const int64_t before = emulator::NumAllocations(), appends = emulator::LaunchesOf("Append<");
  RandomNumbers numbers(8);
  std::array<std::unique_ptr<RandomStep>, 2> in_flight;
  StepResult result;
  for (int32_t step = 0; step < 6; ++step) {
    const int32_t num_tokens = step == 2 ? kStepTokens : 1 + numbers.Below(kStepTokens / 3);
    auto& at = in_flight[step % 2];
    if (at != nullptr) {
      const absl::Status status = (*runner)->Wait(result);
      ASSERT_TRUE(status.ok()) << status;
    }
    at = std::make_unique<RandomStep>(numbers, model->config.vocab_size, num_tokens);
    ASSERT_TRUE((*runner)->Launch(at->step()).ok());
  }
  ASSERT_TRUE((*runner)->Wait(result).ok());
  ASSERT_TRUE((*runner)->Wait(result).ok());
  EXPECT_EQ(emulator::NumAllocations(), before);
  // The product itself appends keys and values if the heads have no norms and their size is a
  // multiple of 16.
  const ModelConfig& config = model->config;
  EXPECT_EQ(emulator::LaunchesOf("Append<") > appends, config.qk_norm || config.head_dim % 16 != 0);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, MemoryTest,
                         testing::Values("llama-bf16", "mistral-window", "qwen3-plain"),
                         NameOfCheckpoint);

// The graph contains all work from the copy of the step's inputs to sampling, with any sampling
// parameters. Only the copy of the sampled tokens is enqueued separately.
TEST(GraphsTest, ServeTheFirstStepsThatOnlyDecode) {
  const auto backend = *CreateCudaBackend({});
  const auto model = LoadModel(Folder("llama-bf16"), *backend);
  ASSERT_TRUE(model.ok()) << model.status();
  const auto runner = TransformerRunner::Create(*backend, *model, Options());
  ASSERT_TRUE(runner.ok()) << runner.status();
  std::vector<SamplingParams> params(3);
  params[0].temperature = 0;
  params[1].top_p = 0.9f;
  params[2].num_logprobs = 5;
  params[2].logit_bias = {{.token = 7, .bias = 2}};
  const emulator::GraphCounts at_start = emulator::CountsOfGraphs();
  for (const int32_t num_tokens : {1, 9, 40, 80}) {
    const emulator::GraphCounts before = emulator::CountsOfGraphs();
    const int64_t copies = emulator::NumCopies();
    StepBuilder step;
    for (int32_t i = 0; i < num_tokens; ++i) {
      const int32_t blocks[] = {2 * i, 2 * i + 1};
      step.AddTokens({&i, 1}, 20, blocks);
      step.AddSample(i, params[static_cast<size_t>(i) % params.size()], 0, 21);
    }
    ASSERT_TRUE((*runner)->Launch(step.Build()).ok());
    StepResult result;
    const absl::Status status = (*runner)->Wait(result);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(emulator::CountsOfGraphs().launched, before.launched + 1);
    EXPECT_EQ(emulator::NumCopies(), copies + 2);
    ASSERT_EQ(std::ssize(result.tokens), num_tokens);
    EXPECT_EQ(std::ranges::count(result.tokens, -1), 0);
    EXPECT_EQ(result.logprobs.num_rows(), num_tokens / 3);
  }
  EXPECT_EQ(emulator::CountsOfGraphs().recorded, at_start.recorded);
}

// In steps of at most 64 tokens, a product that adds to the hidden state also prepares the next
// norm. Then only two norms have a kernel of their own.
TEST(GraphsTest, AStepThatOnlyDecodesHasTwoNormsOfItsOwn) {
  const auto backend = *CreateCudaBackend({});
  const auto model = LoadModel(Folder("llama-bf16"), *backend);
  ASSERT_TRUE(model.ok()) << model.status();
  const auto runner = TransformerRunner::Create(*backend, *model, Options());
  ASSERT_TRUE(runner.ok()) << runner.status();
  const int32_t num_layers = model->config.num_layers;
  ASSERT_GE(num_layers, 2);
  const SamplingParams params;
  for (const int32_t num_tokens : {1, 30, 64, 80}) {
    SCOPED_TRACE(testing::Message() << num_tokens << " tokens");
    StepBuilder step;
    for (int32_t i = 0; i < num_tokens; ++i) step.AddTokens({&i, 1}, 3, {&i, 1});
    step.AddSample(0, params, 0, 4);
    const int64_t norms = emulator::LaunchesOf("Norm<");
    ASSERT_TRUE((*runner)->Launch(step.Build()).ok());
    StepResult result;
    const absl::Status status = (*runner)->Wait(result);
    ASSERT_TRUE(status.ok()) << status;
    const int32_t of_layers = num_tokens <= 64 ? 1 : 2 * num_layers;
    EXPECT_EQ(emulator::LaunchesOf("Norm<") - norms, of_layers + 1);
  }
}

// Limits the memory of the emulated device to `bytes` bytes.
class SmallDevice {
 public:
  explicit SmallDevice(size_t bytes) { emulator::SetDeviceBytes(bytes); }
  ~SmallDevice() { emulator::SetDeviceBytes(bytes_before_); }
  SmallDevice(const SmallDevice&) = delete;
  SmallDevice& operator=(const SmallDevice&) = delete;

 private:
  const size_t bytes_before_ = emulator::DeviceBytes();
};

TEST(OutOfMemoryTest, SaysWhatIsMissingForWhat) {
  const auto backend = *CreateCudaBackend({});
  const size_t all = emulator::DeviceBytes();
  {
    const SmallDevice small(all - backend->FreeBytes() + 10'000);
    const auto model = LoadModel(Folder("llama-bf16"), *backend);
    EXPECT_EQ(model.status().code(), absl::StatusCode::kResourceExhausted) << model.status();
    EXPECT_THAT(MessageOf(model.status()), HasSubstr("no room for the weights: the weights take "));
  }
  const auto model = LoadModel(Folder("llama-bf16"), *backend);
  ASSERT_TRUE(model.ok()) << model.status();
  const size_t used = all - backend->FreeBytes();
  {
    const SmallDevice small(used + 1'000'000);
    const auto runner = TransformerRunner::Create(*backend, *model, Options());
    EXPECT_EQ(runner.status().code(), absl::StatusCode::kResourceExhausted) << runner.status();
    EXPECT_THAT(MessageOf(runner.status()), HasSubstr("not enough memory for steps of 80 tokens"));
    EXPECT_THAT(MessageOf(runner.status()), HasSubstr("are missing"));
  }
  TransformerRunnerOptions options = Options();
  options.num_blocks = 1'000'000;
  const auto runner = TransformerRunner::Create(*backend, *model, options);
  EXPECT_EQ(runner.status().code(), absl::StatusCode::kResourceExhausted) << runner.status();
  EXPECT_THAT(MessageOf(runner.status()),
              HasSubstr("no room for keys and values of 1000000 blocks of 16 tokens"));
}

}  // namespace
}  // namespace incipit
