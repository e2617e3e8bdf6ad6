// Tests that the fake runner reads and writes blocks, and that wrong writes change its output.
#include "tests/support/fake_runner.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "tests/support/step_builder.h"

namespace incipit {
namespace {

constexpr int32_t kTokensPerBlock = 4;

class FakeRunnerTest : public testing::TestWithParam<bool> {
 protected:
  FakeRunnerTest()
      : runner_({.num_blocks = 8,
                 .block_size = kTokensPerBlock,
                 .vocab = 1'000'000,
                 .asynchronous = GetParam()}) {
    for (TokenId i = 0; i < 3 * kTokensPerBlock; ++i) tokens_.push_back(i * 13 + 5);
  }

  TokenId Run(const StepBuilder& step) {
    EXPECT_TRUE(runner_.Launch(step.Build()).ok());
    StepResult result;
    EXPECT_TRUE(runner_.Wait(result).ok());
    return result.tokens.empty() ? -1 : result.tokens.front();
  }
  // Computes the first two blocks of the sequence, and returns their bytes.
  std::vector<std::byte> ComputedBytes() {
    StepBuilder step;
    const int32_t blocks[] = {2, 0};
    step.AddTokens(std::span(tokens_).first(2 * kTokensPerBlock), 0, blocks);
    Run(step);
    std::vector<std::byte> bytes(2 * runner_.block_bytes());
    const BlockId read[] = {BlockId{2}, BlockId{0}};
    EXPECT_TRUE(runner_.ReadBlocks(read, bytes).ok());
    return bytes;
  }
  // Writes two blocks of bytes to the blocks 5 and 6, and computes the rest of the sequence.
  TokenId Continue(const std::byte* first, const std::byte* second) {
    StepBuilder step;
    step.AddWrite({BlockId{5}, first});
    step.AddWrite({BlockId{6}, second});
    const int32_t blocks[] = {5, 6, 7};
    step.AddTokens(std::span(tokens_).subspan(2 * kTokensPerBlock), 2 * kTokensPerBlock, blocks);
    step.AddSample(kTokensPerBlock - 1, params_, 0, 3 * kTokensPerBlock);
    return Run(step);
  }

  TokenId Expected() const {
    const StepSample sample = {.params = &params_, .position = 3 * kTokensPerBlock};
    return runner_.model().Sample(FakeModel::Row(tokens_), sample);
  }

  FakeRunner runner_;
  SamplingParams params_;
  std::vector<TokenId> tokens_;
};

TEST_P(FakeRunnerTest, WrittenBlocksAreUsedAsComputedBlocks) {
  const std::vector<std::byte> bytes = ComputedBytes();
  EXPECT_EQ(Continue(bytes.data(), bytes.data() + runner_.block_bytes()), Expected());
}

TEST_P(FakeRunnerTest, WrongWritesChangeTheOutput) {
  const std::vector<std::byte> bytes = ComputedBytes();
  const std::byte* const second = bytes.data() + runner_.block_bytes();
  EXPECT_NE(Continue(second, bytes.data()), Expected());
  EXPECT_NE(Continue(bytes.data(), bytes.data()), Expected());
  for (size_t i = 0; i < bytes.size(); i += 7) {
    std::vector<std::byte> changed = bytes;
    changed[i] ^= std::byte{1};
    EXPECT_NE(Continue(changed.data(), changed.data() + runner_.block_bytes()), Expected()) << i;
  }
}

TEST_P(FakeRunnerTest, ValuesThatAreNotFiniteAreFoundInTheBytes) {
  EXPECT_TRUE(FakeRunner::AllFinite(ComputedBytes()));
  runner_.PoisonNextStep(3);
  EXPECT_FALSE(FakeRunner::AllFinite(ComputedBytes()));
}

INSTANTIATE_TEST_SUITE_P(Threads, FakeRunnerTest, testing::Bool());

}  // namespace
}  // namespace incipit
