#include "tests/golden/checkpoint_run.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "gtest/gtest.h"
#include "kernels/cpu/simd/select.h"
#include "kernels/reference/backend.h"

namespace incipit {
namespace {

template <typename T>
T ValueOf(absl::StatusOr<T> value) {
  if (!value.ok()) ADD_FAILURE() << value.status();
  INCIPIT_CHECK(value.ok());
  return *std::move(value);
}

}  // namespace

TransformerRunnerOptions CheckpointRun::OptionsFor(size_t num_tokens) {
  TransformerRunnerOptions options;
  options.block_size = 4;
  options.num_blocks = static_cast<int32_t>(num_tokens / 4) + 30;
  options.step_tokens_max = static_cast<int32_t>(num_tokens);
  return options;
}

std::unique_ptr<Backend> ReferenceOrCpu(bool reference, const CpuChoices& cpu) {
  return reference ? reference::CreateBackend(0) : ValueOf(CreateCpuBackendWith({}, cpu));
}

CpuChoices UnroundedCpu() {
  const auto supported = simd::SupportedKernels();
  const auto found = std::ranges::find_if(supported, [](const simd::Kernels* kernels) {
    return !kernels->products[simd::kBF16Weights].rounds_activations;
  });
  INCIPIT_CHECK(found != supported.end());
  return {.kernels = *found};
}

CheckpointRun::CheckpointRun(const std::filesystem::path& folder, const CpuChoices& cpu,
                             TransformerRunnerOptions options, WeightFormat format)
    : CheckpointRun(ReferenceOrCpu(false, cpu), folder, options, format) {}

CheckpointRun::CheckpointRun(std::unique_ptr<Backend> backend, const std::filesystem::path& folder,
                             const TransformerRunnerOptions& options, WeightFormat format)
    : backend_(std::move(backend)) {
  model_.emplace(ValueOf(LoadModel(folder, *backend_, format)));
  runner_ = ValueOf(TransformerRunner::Create(*backend_, *model_, options));
  const int32_t num_blocks = runner_->options().num_blocks;
  // The stride and `num_blocks` have no common factor, so the loop visits every block once.
  const int32_t stride = num_blocks % 7 != 0 ? 7 : 11;
  for (int32_t i = 0; i < num_blocks; ++i) {
    blocks_.push_back(BlockId{static_cast<int32_t>(int64_t{i} * stride % num_blocks)});
  }
}

StepResult CheckpointRun::Step(std::span<const TokenId> tokens, int32_t first_position,
                               std::span<const StepSample> samples,
                               std::span<const StepScore> scores) {
  const auto count = static_cast<int32_t>(tokens.size());
  std::vector<int32_t> positions;
  for (int32_t i = 0; i < count; ++i) positions.push_back(first_position + i);
  const int32_t block_size = runner_->options().block_size;
  const int32_t num_blocks = (first_position + count + block_size - 1) / block_size;
  const int32_t token_begin[] = {0, count}, block_begin[] = {0, num_blocks};
  const int32_t sample_begin[] = {0, static_cast<int32_t>(samples.size())};
  const int32_t score_begin[] = {0, static_cast<int32_t>(scores.size())};
  const absl::Status launched =
      runner_->Launch({.tokens = tokens,
                       .positions = positions,
                       .token_begin = token_begin,
                       .block_begin = block_begin,
                       .blocks = std::span(blocks_).first(static_cast<size_t>(num_blocks)),
                       .sample_begin = sample_begin,
                       .samples = samples,
                       .score_begin = score_begin,
                       .scores = scores});
  EXPECT_TRUE(launched.ok()) << launched;
  StepResult result;
  const absl::Status waited = runner_->Wait(result);
  EXPECT_TRUE(waited.ok()) << waited;
  return result;
}

std::vector<std::vector<double>> CheckpointRun::AllLogprobs(std::span<const TokenId> tokens,
                                                            int32_t chunk) {
  const int32_t vocab_size = model_->config.vocab_size;
  std::vector<std::vector<double>> all;
  for (size_t begin = 0; begin < tokens.size(); begin += static_cast<size_t>(chunk)) {
    const auto part = tokens.subspan(begin, std::min<size_t>(chunk, tokens.size() - begin));
    std::vector<StepScore> scores;
    for (size_t i = 0; i < part.size(); ++i) {
      const size_t next = begin + i + 1;
      scores.push_back({.row = static_cast<int32_t>(i),
                        .target = next < tokens.size() ? tokens[next] : 0,
                        .num_top = vocab_size});
    }
    const StepResult result = Step(part, static_cast<int32_t>(begin), {}, scores);
    const Logprobs& logprobs = result.prompt_logprobs;
    for (size_t i = 0; i < part.size(); ++i) {
      EXPECT_EQ(result.score_status[i], RowStatus::kOk);
      std::vector<double> row(static_cast<size_t>(vocab_size),
                              std::numeric_limits<double>::quiet_NaN());
      for (int32_t j = logprobs.top_begin[i]; j < logprobs.top_begin[i + 1]; ++j) {
        const TokenLogprob& top = logprobs.top[static_cast<size_t>(j)];
        row[static_cast<size_t>(top.token)] = top.logprob;
      }
      EXPECT_EQ(row[static_cast<size_t>(logprobs.chosen[i].token)], logprobs.chosen[i].logprob);
      all.push_back(std::move(row));
    }
  }
  return all;
}

std::vector<TokenId> CheckpointRun::Greedy(std::span<const TokenId> prompt, int32_t num_tokens) {
  SamplingParams greedy;
  greedy.temperature = 0;
  std::vector<TokenId> input(prompt.begin(), prompt.end()), output;
  int32_t position = 0;
  while (std::ssize(output) < num_tokens) {
    const StepSample sample = {.row = static_cast<int32_t>(input.size()) - 1,
                               .params = &greedy,
                               .position = position + std::ssize(input)};
    const StepResult result = Step(input, position, {&sample, 1}, {});
    position += static_cast<int32_t>(input.size());
    EXPECT_EQ(result.status.at(0), RowStatus::kOk);
    output.push_back(result.tokens.at(0));
    input.assign(1, output.back());
  }
  return output;
}

}  // namespace incipit
