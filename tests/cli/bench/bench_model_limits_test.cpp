#include "cli/bench/bench_model_limits.h"

#include <filesystem>

#include "base/status.h"
#include "cli/bench/bench_model_report.h"
#include "cli/bench/bench_model_run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace incipit {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Returns the configuration of a small model. Each layer has matrices of 10 x (8 + 2 * 4) and 8 x
// 10 elements, and three matrices of 10 x 20 elements. The output head has 10 x 100 elements.
ModelConfig SmallConfig() {
  ModelConfig config;
  config.hidden_size = 10;
  config.intermediate_size = 20;
  config.num_layers = 2;
  config.num_heads = 2;
  config.num_kv_heads = 1;
  config.head_dim = 4;
  config.vocab_size = 100;
  config.layer_windows = {0, 0};
  return config;
}
constexpr double kLayers = 2 * (160 + 80 + 600);
constexpr double kHead = 1000;

TEST(ModelWorkTest, CountsEveryMatrixOnceAndAttentionOverWhatATokenSees) {
  // The three tokens at the positions 5, 6 and 7 attend to 6, 7 and 8 positions, in this order.
  const ModelWork work =
      SumOf(WorkOf(SmallConfig(), {.weights = MatrixType::kBF16, .kv = DType::kBF16},
                   {.num_sequences = 1, .num_tokens = 3, .position = 5, .has_logits = false}));
  EXPECT_EQ(work.operations, 3 * 2 * kLayers + 2 * (6 + 7 + 8) * 4 * 8);
  EXPECT_EQ(work.bytes, 2 * kLayers + 2 * 8 * (2 * 4) * 2);
}

TEST(ModelWorkTest, SequencesShareTheWeightsAndNotTheirKeys) {
  const ModelTypes types = {.weights = MatrixType::kF32, .kv = DType::kF32};
  const BenchStep one = {.num_sequences = 1, .num_tokens = 1, .position = 9, .has_logits = true};
  BenchStep many = one;
  many.num_sequences = 6;
  const ModelWork alone = SumOf(WorkOf(SmallConfig(), types, one));
  const ModelWork together = SumOf(WorkOf(SmallConfig(), types, many));
  EXPECT_EQ(alone.operations, 2 * (kLayers + kHead) + 2 * 10 * 4 * 8);
  EXPECT_EQ(together.operations, 6 * alone.operations);
  const double weights = 4 * (kLayers + kHead), keys = 2 * 10 * (2 * 4) * 4;
  EXPECT_EQ(alone.bytes, weights + keys);
  EXPECT_EQ(together.bytes, weights + 6 * keys);
}

TEST(ModelWorkTest, AWindowHidesWhatLiesBeforeIt) {
  ModelConfig config = SmallConfig();
  config.layer_windows = {0, 4};
  const ModelTypes types = {.weights = MatrixType::kInt8, .kv = DType::kF32};
  const ModelWork work = SumOf(WorkOf(
      config, types, {.num_sequences = 1, .num_tokens = 2, .position = 2, .has_logits = false}));
  EXPECT_EQ(work.operations, 2 * 2 * kLayers + (3 + 4 + 3 + 4) * 4 * 8);
  const ModelWork later = SumOf(WorkOf(
      config, types, {.num_sequences = 1, .num_tokens = 2, .position = 20, .has_logits = false}));
  EXPECT_EQ(later.operations, 2 * 2 * kLayers + (21 + 22 + 4 + 4) * 4 * 8);
  EXPECT_EQ(later.bytes, kLayers + (22 + 5) * (2 * 4) * 4);
}

TEST(LeastSecondsTest, IsTheLongerOfComputingAndReading) {
  MachineRates rates;
  rates.f32 = 100;
  rates.read_bytes = 10;
  EXPECT_EQ(LeastSeconds({.operations = 1000, .bytes = 50}, MatrixType::kF32, rates), 10);
  EXPECT_EQ(LeastSeconds({.operations = 1000, .bytes = 500}, MatrixType::kF32, rates), 50);
}

TEST(LeastSecondsTest, TakesTheRateOfTheTypeWhereThereIsAnInstruction) {
  MachineRates rates;
  rates.f32 = 100;
  rates.read_bytes = 1000;
  const ModelWork work = {.operations = 1000, .bytes = 1};
  EXPECT_EQ(LeastSeconds(work, MatrixType::kBF16, rates), 10) << "widened to f32";
  rates.bf16 = 200;
  rates.int8 = 500;
  EXPECT_EQ(LeastSeconds(work, MatrixType::kBF16, rates), 5);
  EXPECT_EQ(LeastSeconds(work, MatrixType::kInt8, rates), 2);
  EXPECT_EQ(LeastSeconds(work, MatrixType::kF16, rates), 10);
}

ModelWork& At(OperationWork& work, StepOperation operation) {
  return work[static_cast<size_t>(operation)];
}

BenchModelResult ExampleResult() {
  BenchModelResult result;
  result.types = {.weights = MatrixType::kBF16, .kv = DType::kBF16};
  result.machine.cpu = "A CPU";
  result.machine.isa = "avx2";
  result.machine.num_threads = 2;
  result.machine.f32 = 100e9;
  result.machine.int8 = 200e9;
  result.machine.read_bytes = 20e9;
  // Memory reads limit the first step (0.5 s), and operations limit the second step (2 s). The
  // measured time of both steps is 5 s.
  OperationWork first{}, second{};
  At(first, StepOperation::kGateUp) = {.operations = 1e9, .bytes = 6e9};
  At(first, StepOperation::kAttention) = {.operations = 0, .bytes = 4e9};
  At(second, StepOperation::kGateUp) = {.operations = 200e9, .bytes = 10e9};
  ModelSpeed decode;
  decode.num_sequences = 4;
  decode.num_tokens = 8;
  decode.seconds = 5;
  decode.steps = {first, second};
  decode.operation_seconds[static_cast<size_t>(StepOperation::kGateUp)] = 4.6;
  decode.operation_seconds[static_cast<size_t>(StepOperation::kAttention)] = 0.4;
  result.decode.push_back(decode);
  return result;
}

TEST(BenchModelReportTest, RelatesWhatWasDoneToTheTimeAndToTheLimit) {
  const auto json = ToJson(ExampleResult(), false);
  ASSERT_THAT(json["decode"], SizeIs(1));
  const auto& decode = json["decode"][0];
  EXPECT_EQ(decode["sequences"], 4);
  EXPECT_EQ(decode["tokens"], 8);
  EXPECT_DOUBLE_EQ(decode["tokens_per_s"], 1.6);
  EXPECT_DOUBLE_EQ(decode["gflops"], 40.2);
  EXPECT_DOUBLE_EQ(decode["gbytes_per_s"], 4);
  EXPECT_DOUBLE_EQ(decode["fraction_of_limit"], 0.5);
  const auto& machine = json["machine"];
  EXPECT_EQ(machine["cpu"], "A CPU");
  EXPECT_EQ(machine["isa"], "avx2");
  EXPECT_EQ(machine["threads"], 2);
  EXPECT_DOUBLE_EQ(machine["f32_gflops"], 100);
  EXPECT_TRUE(machine["bf16_gflops"].is_null());
  EXPECT_DOUBLE_EQ(machine["int8_gops"], 200);
  EXPECT_DOUBLE_EQ(machine["read_gbytes_per_s"], 20);
}

TEST(BenchModelReportTest, TheProfileRelatesEachOperationToItsOwnLimit) {
  const auto profile = ToJson(ExampleResult(), true)["decode"][0]["profile"];
  ASSERT_THAT(profile, SizeIs(2));
  EXPECT_EQ(profile[0]["operation"], "attention");
  EXPECT_DOUBLE_EQ(profile[0]["share"], 0.08);
  EXPECT_DOUBLE_EQ(profile[0]["fraction_of_limit"], 0.5) << "0.2 s of reading in 0.4 s";
  EXPECT_EQ(profile[1]["operation"], "gate_up");
  EXPECT_DOUBLE_EQ(profile[1]["share"], 0.92);
  EXPECT_DOUBLE_EQ(profile[1]["fraction_of_limit"], 0.5) << "0.3 s and 2 s in 4.6 s";
  EXPECT_FALSE(ToJson(ExampleResult(), false)["decode"][0].contains("profile"));
  EXPECT_THAT(Describe(ExampleResult(), true), HasSubstr("92.0 % of the time"));
}

TEST(BenchModelReportTest, TheTableSaysTheSame) {
  EXPECT_THAT(
      Describe(ExampleResult(), false),
      AllOf(HasSubstr("A CPU, instruction set avx2, 2 threads"), HasSubstr("f32 100.0 GFLOP/s"),
            HasSubstr("memory reads 20.0 GB/s"), HasSubstr("1.6"), HasSubstr("50 %")));
}

// Returns a plan for a model with two layers, 97 tokens in the vocabulary and a context of 128
// tokens.
BenchModelPlan SmallPlan() {
  BenchModelPlan plan;
  plan.folder = std::filesystem::path(INCIPIT_SOURCE_DIR) / "tests/golden/hf/llama-plain";
  plan.cpu.num_threads = 1;
  plan.prompt = 50;
  plan.step_tokens = 20;
  plan.decode_prompt = 10;
  plan.generate = 7;
  plan.sequences = {1, 3};
  plan.repeat = 2;
  return plan;
}

TEST(BenchModelTest, MeasuresEveryNumberOfSequencesAndCountsItsSteps) {
  std::vector<std::string> reported;
  const auto result =
      BenchModel(SmallPlan(), [&](std::string_view what) { reported.emplace_back(what); });
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->types.weights, MatrixType::kF32);
  EXPECT_EQ(result->types.kv, DType::kF32);
  ASSERT_THAT(result->prefill, SizeIs(1));
  EXPECT_EQ(result->prefill[0].num_tokens, 50);
  EXPECT_THAT(result->prefill[0].steps, SizeIs(3)) << "20, 20 and 10 tokens";
  EXPECT_GT(result->prefill[0].seconds, 0);
  ASSERT_THAT(result->decode, SizeIs(2));
  EXPECT_EQ(result->decode[1].num_sequences, 3);
  EXPECT_EQ(result->decode[1].num_tokens, 21);
  EXPECT_THAT(result->decode[1].steps, SizeIs(7));
  EXPECT_GT(result->decode[1].seconds, 0);
  for (const StepOperation operation :
       {StepOperation::kQkv, StepOperation::kAttention, StepOperation::kOutput,
        StepOperation::kGateUp, StepOperation::kDown, StepOperation::kLogits,
        StepOperation::kSampling, StepOperation::kOther}) {
    EXPECT_GT(result->decode[1].operation_seconds[static_cast<size_t>(operation)], 0)
        << NameOf(operation);
  }
  EXPECT_THAT(reported, ::testing::Contains("decode, 3 sequences"));
  EXPECT_EQ(result->machine.num_threads, 1);
  EXPECT_GT(result->machine.f32, 0);
  EXPECT_GT(result->machine.read_bytes, 0);
}

TEST(BenchModelTest, KeysAndValuesHaveTheTypeThatWasAskedFor) {
  BenchModelPlan plan = SmallPlan();
  plan.kv_dtype = DType::kBF16;
  plan.repeat = 1;
  const auto result = BenchModel(plan, [](std::string_view) {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->types.kv, DType::kBF16);
}

TEST(BenchModelTest, WhatDoesNotFitTheContextIsRefused) {
  BenchModelPlan plan = SmallPlan();
  plan.prompt = 129;
  const auto prompt = BenchModel(plan, [](std::string_view) {});
  EXPECT_EQ(prompt.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(MessageOf(prompt.status()), AllOf(HasSubstr("--prompt is 129"), HasSubstr("128")));
  plan = SmallPlan();
  plan.decode_prompt = 100;
  plan.generate = 29;
  const auto decode = BenchModel(plan, [](std::string_view) {});
  EXPECT_EQ(decode.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(MessageOf(decode.status()), AllOf(HasSubstr("129"), HasSubstr("128")));
}

TEST(MachineRatesTest, OfTwoMeasurementsTheLargerCounts) {
  MachineRates one, other;
  one.f32 = 3;
  one.read_bytes = 1;
  other.f32 = 2;
  other.bf16 = 5;
  other.read_bytes = 7;
  const MachineRates larger = LargerRates(one, other);
  EXPECT_THAT((std::vector{larger.f32, larger.bf16, larger.int8, larger.read_bytes}),
              ElementsAre(3, 5, 0, 7));
}

}  // namespace
}  // namespace incipit
