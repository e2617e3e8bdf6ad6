#include "engine/transformer_runner.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/backend.h"
#include "kernels/forwarding_backend.h"
#include "tests/support/step_builder.h"

namespace incipit {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

const std::filesystem::path kFolder =
    std::filesystem::path(INCIPIT_SOURCE_DIR) / "tests/golden/hf/llama-plain";

// Forwards calls to `backend`, and counts the steps that were uploaded and not ended.
class StepCountingBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  int num_in_flight() const { return num_in_flight_; }

  void Upload(const Step& step, const StepLogits& logits) override {
    ++num_in_flight_;
    ForwardingBackend::Upload(step, logits);
  }
  absl::Status Synchronize() override {
    if (num_in_flight_ > 0) --num_in_flight_;
    return ForwardingBackend::Synchronize();
  }

 private:
  int num_in_flight_ = 0;
};

class TransformerRunnerTest : public testing::Test {
 protected:
  TransformerRunnerTest() {
    backend_ = *CreateCpuBackend({});
    auto model = LoadModel(kFolder, *backend_);
    EXPECT_TRUE(model.ok()) << model.status();
    model_.emplace(*std::move(model));
    for (int32_t i = 0; i < 100; ++i) tokens_.push_back(i * 37 % 97);
    greedy_.temperature = 0;
  }

  static TransformerRunnerOptions Options() {
    TransformerRunnerOptions options;
    options.num_blocks = 32;
    options.block_size = 8;
    options.step_tokens_max = 128;
    return options;
  }

  std::unique_ptr<TransformerRunner> Create(const TransformerRunnerOptions& options) {
    auto runner = TransformerRunner::Create(*backend_, *model_, options);
    EXPECT_TRUE(runner.ok()) << runner.status();
    return *std::move(runner);
  }
  void ExpectRefused(absl::StatusCode code, const TransformerRunnerOptions& options,
                     const testing::Matcher<std::string>& message) {
    const auto runner = TransformerRunner::Create(*backend_, *model_, options);
    EXPECT_EQ(runner.status().code(), code) << runner.status();
    EXPECT_THAT(MessageOf(runner.status()), message);
  }

  static StepResult Run(TransformerRunner& runner, const StepBuilder& step) {
    EXPECT_TRUE(runner.Launch(step.Build()).ok());
    StepResult result;
    EXPECT_TRUE(runner.Wait(result).ok());
    return result;
  }

  std::span<const TokenId> Tokens(size_t begin, size_t count) const {
    return std::span(tokens_).subspan(begin, count);
  }

  // Returns the greedy token after the first `count` tokens of `tokens_`, computed by a new runner.
  TokenId Next(size_t count) {
    const auto runner = Create(Options());
    StepBuilder step;
    const std::vector<int32_t> blocks = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    step.AddTokens(Tokens(0, count), 0, blocks);
    step.AddSample(static_cast<int32_t>(count) - 1, greedy_, 0, static_cast<int64_t>(count));
    return Run(*runner, step).tokens.at(0);
  }

  std::unique_ptr<Backend> backend_;
  std::optional<Model> model_;
  std::vector<TokenId> tokens_;
  SamplingParams greedy_;
};

TEST_F(TransformerRunnerTest, SequencesOfOneStepDoNotSeeEachOther) {
  const auto runner = Create(Options());
  StepBuilder step;
  const int32_t blocks_a[] = {5, 1}, blocks_b[] = {9, 2, 30};
  step.AddTokens(Tokens(0, 10), 0, blocks_a);
  const int32_t row_b = step.AddTokens(Tokens(0, 20), 0, blocks_b);
  step.AddSample(9, greedy_, 0, 10);
  step.AddSample(row_b + 19, greedy_, 0, 20);
  EXPECT_THAT(Run(*runner, step).tokens, ElementsAre(Next(10), Next(20)));
}

TEST_F(TransformerRunnerTest, AStepFillsABlockThatAnotherSequenceOfItReads) {
  const auto runner = Create(Options());
  StepBuilder step;
  // Sequence b does not compute its first 8 tokens. It reads them from block 3, which sequence a
  // fills in the same step.
  const int32_t blocks_a[] = {3, 4}, blocks_b[] = {3, 7};
  step.AddTokens(Tokens(0, 8), 0, blocks_a);
  const int32_t row = step.AddTokens(Tokens(8, 5), 8, blocks_b);
  step.AddSample(row + 4, greedy_, 0, 13);
  EXPECT_THAT(Run(*runner, step).tokens, ElementsAre(Next(13)));
}

TEST_F(TransformerRunnerTest, CopiesAreDoneBeforeTheFirstLayer) {
  const auto runner = Create(Options());
  StepBuilder first;
  const int32_t block[] = {3};
  first.AddTokens(Tokens(0, 8), 0, block);
  Run(*runner, first);
  StepBuilder second;  // continues after 5 copied tokens
  const int32_t copied[] = {11, 12};
  second.AddCopy({BlockId{3}, BlockId{11}, 5});
  second.AddTokens(Tokens(5, 6), 5, copied);
  second.AddSample(5, greedy_, 0, 11);
  EXPECT_THAT(Run(*runner, second).tokens, ElementsAre(Next(11)));
}

TEST_F(TransformerRunnerTest, AStepOfCopiesAloneIsAStep) {
  const auto runner = Create(Options());
  StepBuilder step;
  const int32_t block[] = {3};
  step.AddTokens(Tokens(0, 8), 0, block);
  Run(*runner, step);
  StepBuilder copies;
  copies.AddCopy({BlockId{3}, BlockId{4}, 8});
  EXPECT_THAT(Run(*runner, copies).tokens, SizeIs(0));
  StepBuilder next;
  const int32_t blocks[] = {4, 5};
  next.AddTokens(Tokens(8, 1), 8, blocks);
  next.AddSample(0, greedy_, 0, 9);
  EXPECT_THAT(Run(*runner, next).tokens, ElementsAre(Next(9)));
}

TEST_F(TransformerRunnerTest, AStepWithoutTokensMayWriteBlocks) {
  const auto first = Create(Options()), second = Create(Options());
  StepBuilder step;
  const int32_t blocks[] = {3, 9};
  step.AddTokens(Tokens(0, 16), 0, blocks);
  Run(*first, step);
  const BlockId read[] = {BlockId{3}, BlockId{9}};
  std::vector<std::byte> bytes(2 * first->block_bytes());
  ASSERT_TRUE(first->ReadBlocks(read, bytes).ok());

  StepBuilder writes;
  writes.AddWrite({BlockId{20}, bytes.data()});
  writes.AddWrite({BlockId{4}, bytes.data() + first->block_bytes()});
  EXPECT_THAT(Run(*second, writes).tokens, SizeIs(0));
  std::ranges::fill(bytes, std::byte{0x55});
  StepBuilder next;
  const int32_t loaded[] = {20, 4, 5};
  next.AddTokens(Tokens(16, 1), 16, loaded);
  next.AddSample(0, greedy_, 0, 17);
  EXPECT_THAT(Run(*second, next).tokens, ElementsAre(Next(17)));
}

// The step writes block 20, copies block 20 to block 21, and attends to both blocks.
TEST_F(TransformerRunnerTest, WritesAreDoneBeforeTheCopiesAndTheFirstLayer) {
  const auto first = Create(Options()), second = Create(Options());
  StepBuilder step;
  const int32_t block[] = {3};
  step.AddTokens(Tokens(0, 8), 0, block);
  Run(*first, step);
  const BlockId read[] = {BlockId{3}};
  std::vector<std::byte> bytes(first->block_bytes());
  ASSERT_TRUE(first->ReadBlocks(read, bytes).ok());

  StepBuilder both;
  both.AddWrite({BlockId{20}, bytes.data()});
  both.AddCopy({BlockId{20}, BlockId{21}, 5});
  const int32_t written[] = {20, 6}, copied[] = {21, 7};
  both.AddTokens(Tokens(8, 1), 8, written);
  both.AddSample(0, greedy_, 0, 9);
  const int32_t row = both.AddTokens(Tokens(5, 6), 5, copied);
  both.AddSample(row + 5, greedy_, 0, 11);
  EXPECT_THAT(Run(*second, both).tokens, ElementsAre(Next(9), Next(11)));
}

TEST_F(TransformerRunnerTest, ManySamplesAndScoresAreComputedInChunksAsIfAtOnce) {
  const auto runner = Create(Options());
  const std::vector<int32_t> blocks = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  SamplingParams warm;
  warm.seed = 7;
  warm.num_logprobs = 1;
  StepBuilder step;
  step.AddTokens(Tokens(0, 100), 0, blocks);
  ASSERT_LT(backend_->limits().logits_rows, 100);
  for (int32_t row = 0; row < 100; ++row) {
    step.AddScore({.row = row, .target = tokens_[(row + 1) % 100], .num_top = 1});
    if (row % 3 != 0) continue;
    step.AddSample(row, greedy_, 0, row + 1);
    for (int32_t choice = 0; choice < 2; ++choice) step.AddSample(row, warm, choice, row + 1);
  }
  const StepResult result = Run(*runner, step);
  ASSERT_THAT(result.tokens, SizeIs(3 * 34));
  ASSERT_EQ(result.prompt_logprobs.num_rows(), 100);
  ASSERT_EQ(result.logprobs.num_rows(), 2 * 34);
  bool choices_differ = false;
  for (int32_t row = 0; row < 100; ++row) {
    const TokenLogprob& best = result.prompt_logprobs.top.at(row);
    EXPECT_EQ(result.prompt_logprobs.chosen.at(row).token, tokens_[(row + 1) % 100]);
    if (row % 3 != 0) continue;
    const int32_t sample = row / 3 * 3;
    EXPECT_EQ(result.tokens.at(sample), best.token);
    EXPECT_EQ(result.logprobs.chosen.at(sample / 3 * 2).token, result.tokens.at(sample + 1));
    EXPECT_EQ(result.logprobs.top.at(sample / 3 * 2).logprob, best.logprob);
    choices_differ |= result.tokens.at(sample + 1) != result.tokens.at(sample + 2);
  }
  EXPECT_TRUE(choices_differ);

  for (const int32_t row : {0, 63, 99}) {  // computes the same sample in a step of its own
    StepBuilder alone;
    alone.AddTokens(Tokens(0, static_cast<size_t>(row) + 1), 0, blocks);
    alone.AddSample(row, warm, 1, row + 1);
    EXPECT_EQ(Run(*runner, alone).tokens.at(0), result.tokens.at(row + 2)) << row;
  }
}

TEST_F(TransformerRunnerTest, TwoStepsMayBeInFlight) {
  const auto runner = Create(Options());
  const int32_t blocks[] = {0, 1};
  StepBuilder first, second;
  first.AddTokens(Tokens(0, 8), 0, blocks);
  first.AddSample(7, greedy_, 0, 8);
  second.AddTokens(Tokens(8, 1), 8, blocks);
  second.AddSample(0, greedy_, 0, 9);
  ASSERT_TRUE(runner->Launch(first.Build()).ok());
  ASSERT_TRUE(runner->Launch(second.Build()).ok());
  StepResult result;
  ASSERT_TRUE(runner->Wait(result).ok());
  EXPECT_THAT(result.tokens, ElementsAre(Next(8)));
  ASSERT_TRUE(runner->Wait(result).ok());
  EXPECT_THAT(result.tokens, ElementsAre(Next(9)));
}

// A step without tokens is launched after, and before, a step with tokens. Synchronize ends the
// oldest step that was uploaded, so it must not end a step that is launched later.
TEST_F(TransformerRunnerTest, AStepWithoutTokensEndsNoOtherStep) {
  StepCountingBackend counting(*backend_);
  const auto runner = *TransformerRunner::Create(counting, *model_, Options());
  const int32_t blocks[] = {0, 1};
  const std::vector<std::byte> bytes(runner->block_bytes());
  StepBuilder first, writes, second;
  first.AddTokens(Tokens(0, 8), 0, blocks);
  first.AddSample(7, greedy_, 0, 8);
  writes.AddWrite({BlockId{20}, bytes.data()});
  second.AddTokens(Tokens(8, 1), 8, blocks);
  second.AddSample(0, greedy_, 0, 9);
  StepResult result;
  ASSERT_TRUE(runner->Launch(first.Build()).ok());
  ASSERT_TRUE(runner->Launch(writes.Build()).ok());
  ASSERT_TRUE(runner->Wait(result).ok());
  EXPECT_THAT(result.tokens, ElementsAre(Next(8)));
  EXPECT_EQ(counting.num_in_flight(), 0);
  ASSERT_TRUE(runner->Launch(second.Build()).ok());
  ASSERT_TRUE(runner->Wait(result).ok());
  EXPECT_THAT(result.tokens, SizeIs(0));
  EXPECT_EQ(counting.num_in_flight(), 1);
  ASSERT_TRUE(runner->Wait(result).ok());
  EXPECT_THAT(result.tokens, ElementsAre(Next(9)));
  EXPECT_EQ(counting.num_in_flight(), 0);
}

TEST_F(TransformerRunnerTest, ASequenceReadsNothingThatAnotherLeftInItsBlocks) {
  const auto runner = Create(Options());
  const int32_t blocks[] = {0, 1};
  StepBuilder first;
  first.AddTokens(Tokens(40, 16), 0, blocks);
  Run(*runner, first);
  StepBuilder second;
  second.AddTokens(Tokens(0, 9), 0, blocks);
  second.AddSample(8, greedy_, 0, 9);
  EXPECT_THAT(Run(*runner, second).tokens, ElementsAre(Next(9)));
}

TEST_F(TransformerRunnerTest, WhatIsNotGivenFollowsFromTheModel) {
  const auto runner = Create(Options());
  EXPECT_EQ(runner->options().max_model_len, 128);
  EXPECT_EQ(runner->options().kv_dtype, DType::kF32);
  EXPECT_EQ(runner->kv_bytes(), size_t{32} * 8 * 2 * 2 * 2 * 8 * 4);

  const auto bf16 = LoadModel(kFolder.parent_path() / "llama-bf16", *backend_);
  ASSERT_TRUE(bf16.ok()) << bf16.status();
  const auto other = TransformerRunner::Create(*backend_, *bf16, Options());
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ((*other)->options().kv_dtype, DType::kBF16);
}

TEST_F(TransformerRunnerTest, BlocksComeFromTheMemoryThatIsLeft) {
  const auto backend = *CreateCpuBackendWith({}, {.memory_limit_bytes = size_t{4} << 20});
  const auto model = LoadModel(kFolder, *backend);
  ASSERT_TRUE(model.ok()) << model.status();
  TransformerRunnerOptions options = Options();
  options.num_blocks = 0;
  options.memory_fraction = 0.5;
  const auto runner = TransformerRunner::Create(*backend, *model, options);
  ASSERT_TRUE(runner.ok()) << runner.status();
  EXPECT_GT((*runner)->options().num_blocks, 100);
  EXPECT_LT((*runner)->kv_bytes(), size_t{2} << 20);

  options.num_blocks_max = 7;
  const auto bounded = TransformerRunner::Create(*backend, *model, options);
  ASSERT_TRUE(bounded.ok()) << bounded.status();
  EXPECT_EQ((*bounded)->options().num_blocks, 7);
  options.num_blocks_max = 0;
  options.kv_bytes = 100'000;
  const auto sized = TransformerRunner::Create(*backend, *model, options);
  ASSERT_TRUE(sized.ok()) << sized.status();
  EXPECT_LE((*sized)->kv_bytes(), 100'000U);
  EXPECT_GT((*sized)->kv_bytes(), 80'000U);

  options.kv_bytes = 0;
  options.memory_fraction = 1e-6;
  const auto none = TransformerRunner::Create(*backend, *model, options);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(MessageOf(none.status()), HasSubstr("no room for keys and values"));
  options.num_blocks = 1'000'000;
  EXPECT_EQ(TransformerRunner::Create(*backend, *model, options).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(TransformerRunnerTest, OptionsOutOfRangeAreRefusedByName) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  TransformerRunnerOptions options = Options();
  options.max_model_len = 129;
  ExpectRefused(kInvalid, options, AllOf(HasSubstr("max_model_len is 129"), HasSubstr("128")));
  options = Options();
  options.step_tokens_max = 0;
  ExpectRefused(kInvalid, options, HasSubstr("step_tokens_max is 0"));
  options = Options();
  options.samples_max = 0;
  ExpectRefused(kInvalid, options, HasSubstr("samples_max is 0"));
  options = Options();
  options.num_blocks = -1;
  ExpectRefused(kInvalid, options, HasSubstr("num_blocks is -1"));
  options = Options();
  options.num_blocks_max = -1;
  ExpectRefused(kInvalid, options, HasSubstr("num_blocks_max is -1"));
  for (const int32_t size : {0, -8, 3, 512}) {
    options = Options();
    options.block_size = size;
    options.num_blocks = size == 3 ? 4 : 0;
    ExpectRefused(kInvalid, options, HasSubstr(fmt::format("size is {}", size)));
  }
  for (const double fraction : {0.0, -1.0, 1.5, std::nan("")}) {
    options = Options();
    options.memory_fraction = fraction;
    ExpectRefused(kInvalid, options, HasSubstr("memory_fraction"));
  }
  options = Options();
  options.kv_dtype = DType::kF16;
  ExpectRefused(absl::StatusCode::kUnimplemented, options, HasSubstr("kv_dtype is f16"));
}

TEST_F(TransformerRunnerTest, ABatchThatWouldIndexOutsideItsMemoryAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto runner = Create(Options());
  const int32_t block[] = {0}, foreign[] = {32};
  StepBuilder outside_vocabulary, outside_positions, outside_pool;
  const TokenId token[] = {97};
  outside_vocabulary.AddTokens(token, 0, block);
  outside_positions.AddTokens(Tokens(0, 1), 128, block);
  outside_pool.AddTokens(Tokens(0, 1), 0, foreign);
  for (const StepBuilder& step : {outside_vocabulary, outside_positions, outside_pool}) {
    EXPECT_DEATH(runner->Launch(step.Build()).IgnoreError(), "");
  }
}

}  // namespace
}  // namespace incipit
