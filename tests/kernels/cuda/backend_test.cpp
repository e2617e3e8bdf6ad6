// Tests errors that the CUDA backend returns before it computes anything. Also tests steps with
// more samples and scores than one transfer holds.
#include "kernels/backend.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda/cuda_options.h"
#include "kernels/cuda/runtime/runtime.h"
#include "kernels/emulator/runtime/device_memory.h"

namespace incipit {
namespace {

class CudaRefusalTest : public testing::Test {
 protected:
  CudaRefusalTest() : backend_(*CreateCudaBackend({})) {}

  absl::Status Pool(const KvPoolShape& shape) { return backend_->CreateKvPool(shape).status(); }

  absl::Status Weight(int64_t columns, WeightRole role,
                      WeightFormat format = WeightFormat::kAsStored) {
    const std::vector<uint16_t> data(static_cast<size_t>(8 * columns));
    const ConstTensorView view = {
        .data = data.data(), .dtype = DType::kBF16, .rows = 8, .cols = columns};
    return backend_->PackWeight({&view, 1}, role, format, {}).status();
  }

  static void ExpectRefused(const absl::Status& status, const std::string& name) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
    EXPECT_NE(status.message().find(name), std::string::npos) << status;
  }

  const KvPoolShape good_ = {.num_layers = 1,
                             .num_blocks = 2,
                             .block_size = 16,
                             .num_kv_heads = 1,
                             .head_dim = 64,
                             .dtype = DType::kBF16};
  std::unique_ptr<Backend> backend_;
};

TEST(CudaBackendTest, SaysOnceThatWeightsAreRounded) {
  std::vector<std::string> notes;
  const auto backend =
      CreateCudaBackend({.note = [&](std::string_view note, bool) { notes.emplace_back(note); }});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const std::vector<float> data(64);
  for (const DType dtype : {DType::kBF16, DType::kF32, DType::kF32}) {
    const ConstTensorView view = {.data = data.data(), .dtype = dtype, .rows = 8, .cols = 8};
    EXPECT_TRUE(
        (*backend)->PackWeight({&view, 1}, WeightRole::kQkv, WeightFormat::kAsStored, {}).ok());
    EXPECT_EQ(notes.empty(), dtype == DType::kBF16);
  }
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("f32 weights are rounded to bf16"), std::string::npos) << notes[0];
}

TEST_F(CudaRefusalTest, PoolsThatTheKernelsCannotRead) {
  EXPECT_TRUE(Pool(good_).ok());
  KvPoolShape shape = good_;
  shape.head_dim = 256;
  EXPECT_TRUE(Pool(shape).ok());
  for (const int32_t head_dim : {4, 20, 264, 1024}) {
    shape.head_dim = head_dim;
    ExpectRefused(Pool(shape), std::to_string(head_dim));
  }
  shape = good_;
  shape.block_size = 8;
  ExpectRefused(Pool(shape), "16, 32, 64");
  shape = good_;
  shape.dtype = DType::kF32;
  ExpectRefused(Pool(shape), "f32");
  shape = good_;
  shape.num_blocks = 1 << 28;
  ExpectRefused(Pool(shape), "268435456 blocks");
}

TEST_F(CudaRefusalTest, WeightsThatTheKernelsCannotMultiply) {
  EXPECT_TRUE(Weight(64, WeightRole::kQkv).ok());
  EXPECT_TRUE(Weight(172, WeightRole::kDown).ok());
  ExpectRefused(Weight(172, WeightRole::kQkv), "172");
  ExpectRefused(Weight(170, WeightRole::kDown), "170");
  EXPECT_TRUE(Weight(32768, WeightRole::kHead).ok());
  ExpectRefused(Weight(32776, WeightRole::kHead), "32776");
  EXPECT_TRUE(Weight(32776, WeightRole::kDown).ok());
  ExpectRefused(Weight(64, WeightRole::kQkv, WeightFormat::kInt8), "8-bit");
}

TEST_F(CudaRefusalTest, MoreMemoryThanTheDeviceHas) {
  const size_t free = backend_->FreeBytes();
  const auto buffer = backend_->Allocate(free + 1);
  EXPECT_EQ(buffer.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(CudaStepTest, CopiesWhatItHasHoweverLargeAStepMayBe) {
  const auto backend = *CreateCudaBackend({});
  ASSERT_TRUE(
      backend
          ->Reserve(
              {.tokens_max = 8192, .sequences_max = 256, .blocks_max = 65536, .samples_max = 256})
          .ok());
  const TokenId tokens[] = {3, 4};
  const int32_t positions[] = {20, 7}, begin[] = {0, 1, 2}, block_begin[] = {0, 2, 3}, rows[] = {1};
  const BlockId blocks[] = {BlockId{0}, BlockId{1}, BlockId{2}};
  const int64_t before = emulator::BytesCopied();
  backend->Upload({.tokens = tokens,
                   .positions = positions,
                   .token_begin = begin,
                   .block_begin = block_begin,
                   .blocks = blocks},
                  {.rows = rows});
  ASSERT_TRUE(backend->Synchronize().ok());
  EXPECT_GT(emulator::BytesCopied(), before);
  EXPECT_LT(emulator::BytesCopied() - before, 4096);
}

// Results of all calls of Sample and Score in one step.
struct Sampled {
  std::vector<TokenId> tokens;
  std::vector<RowStatus> status, score_status;
  Logprobs logprobs, prompt_logprobs;
};

Sampled SampleInCalls(int32_t num_calls, bool waits) {
  constexpr int32_t kRows = 2, kVocab = 40;
  const auto backend = *CreateCudaBackend({});
  const auto memory = *cuda::Memory::Allocate(cuda::Place::kPinned, kRows * kVocab * sizeof(float));
  for (int32_t i = 0; i < kRows * kVocab; ++i) {
    memory.as<float>()[i] = static_cast<float>(7 * i % 19) / 4;
  }
  const TensorView logits = {
      .data = memory.data(), .dtype = DType::kF32, .rows = kRows, .cols = kVocab};
  const auto count = static_cast<size_t>(num_calls * kRows);
  std::vector<SamplingParams> params(count);
  std::vector<StepSample> samples;
  std::vector<StepScore> scores;
  std::vector<int32_t> rows;
  for (size_t i = 0; i < count; ++i) {
    const auto row = static_cast<int32_t>(i % kRows);
    params[i].seed = i;
    params[i].num_logprobs = static_cast<int32_t>(i % 4) - 1;
    samples.push_back({.params = &params[i]});
    scores.push_back({.target = static_cast<int32_t>(i), .num_top = row});
    rows.push_back(row);
  }
  Sampled sampled = {.tokens = std::vector<TokenId>(count, -7),
                     .status = std::vector<RowStatus>(count),
                     .score_status = std::vector<RowStatus>(count),
                     .logprobs = {},
                     .prompt_logprobs = {}};
  for (size_t begin = 0; begin < count; begin += kRows) {
    backend->Sample({.logits = logits,
                     .samples = std::span(samples).subspan(begin, kRows),
                     .logits_rows = std::span(rows).subspan(begin, kRows),
                     .tokens = std::span(sampled.tokens).subspan(begin, kRows),
                     .status = std::span(sampled.status).subspan(begin, kRows),
                     .logprobs = &sampled.logprobs});
    backend->Score({.logits = logits,
                    .scores = std::span(scores).subspan(begin, kRows),
                    .logits_rows = std::span(rows).subspan(begin, kRows),
                    .status = std::span(sampled.score_status).subspan(begin, kRows),
                    .logprobs = &sampled.prompt_logprobs});
    if (waits) {
      EXPECT_TRUE(backend->Synchronize().ok());
    }
  }
  EXPECT_TRUE(backend->Synchronize().ok());
  return sampled;
}

TEST(CudaSamplerTest, ManyCallsInAStepGiveWhatEachGivesAlone) {
  const Sampled expected = SampleInCalls(15, true), actual = SampleInCalls(15, false);
  EXPECT_EQ(actual.tokens, expected.tokens);
  EXPECT_EQ(actual.status, expected.status);
  EXPECT_EQ(actual.score_status, expected.score_status);
  const auto expect_same = [](const Logprobs& a, const Logprobs& b) {
    EXPECT_EQ(a.rank, b.rank);
    EXPECT_EQ(a.top_begin, b.top_begin);
    ASSERT_EQ(a.top.size(), b.top.size());
    for (size_t i = 0; i < a.top.size(); ++i) {
      EXPECT_EQ(a.top[i].token, b.top[i].token);
      EXPECT_EQ(a.top[i].logprob, b.top[i].logprob);
    }
  };
  expect_same(actual.logprobs, expected.logprobs);
  expect_same(actual.prompt_logprobs, expected.prompt_logprobs);
}

}  // namespace
}  // namespace incipit
