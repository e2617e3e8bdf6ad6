// Compares Incipit's forward pass with Hugging Face transformers, on checkpoints that transformers
// wrote (tools/make_model_goldens.py). The environment variable INCIPIT_MODEL_GOLDENS names another
// folder with such checkpoints.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "base/types.h"
#include "gtest/gtest.h"
#include "tests/golden/checkpoint_run.h"
#include "tests/support/checkpoint_name.h"
#include "transformer/rope.h"
#include "transformer/safetensors.h"

namespace incipit {
namespace {

namespace fs = std::filesystem;

// Maximum error of a log probability, relative to the largest logit of the checkpoint. Sums in
// another order change an f32 result by about 1e-6. A mistake in a formula changes it by far more
// than the maximum.
constexpr double kRelativeErrorMax = 2e-5;
// Maximum error of a log probability, relative to the largest logit, if keys, values and perhaps
// activations are rounded to bf16. With large random weights, the rounding moves a logit by about 1
// % of the largest logit.
constexpr double kBf16ErrorMax = 0.025;
// Maximum error of a log probability, relative to the largest logit, if weights and activations are
// rounded to 8 bits. The rounding moves a logit by 3 % to 9 % of the largest logit.
constexpr double kInt8ErrorMax = 0.15;
// Two tokens may be in either order if their log probabilities differ by less than this limit.
constexpr double kNearTie = 1e-3;

struct Golden {
  std::vector<TokenId> tokens;
  std::vector<std::vector<double>> logprobs;
  double largest_logit = 0;
  std::vector<float> inverse_frequencies;
  float attention_factor = 0;
};

template <typename T>
std::vector<T> ValuesOf(const StoredTensors& tensors, std::string_view name) {
  const StoredTensor& tensor = tensors.find(name)->second;
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

Golden ReadGolden(const fs::path& folder) {
  const auto file = MappedFile::Open(folder / "golden.safetensors");
  const auto tensors = ParseSafetensors(file->bytes());
  EXPECT_TRUE(tensors.ok()) << tensors.status();
  Golden golden;
  for (const int64_t token : ValuesOf<int64_t>(*tensors, "tokens")) {
    golden.tokens.push_back(static_cast<TokenId>(token));
  }
  golden.inverse_frequencies = ValuesOf<float>(*tensors, "inverse_frequencies");
  golden.attention_factor = ValuesOf<float>(*tensors, "attention_factor").front();
  const std::vector<float> logits = ValuesOf<float>(*tensors, "logits");
  const size_t vocab_size = logits.size() / golden.tokens.size();
  for (size_t i = 0; i < golden.tokens.size(); ++i) {
    std::vector<double> row(logits.begin() + i * vocab_size, logits.begin() + (i + 1) * vocab_size);
    for (const double logit : row) {
      golden.largest_logit = std::max(golden.largest_logit, std::abs(logit));
    }
    const double max = *std::ranges::max_element(row);
    double sum = 0;
    for (const double logit : row) sum += std::exp(logit - max);
    for (double& logit : row) logit -= max + std::log(sum);
    golden.logprobs.push_back(std::move(row));
  }
  return golden;
}

fs::path GoldensFolder() {
  const char* given = std::getenv("INCIPIT_MODEL_GOLDENS");
  return given != nullptr ? fs::path(given) : fs::path(INCIPIT_SOURCE_DIR) / "tests/golden/hf";
}

std::vector<std::string> GoldenNames() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(GoldensFolder())) {
    if (fs::exists(entry.path() / "golden.safetensors")) names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

// Returns the largest error of a log probability, divided by the largest logit.
double RelativeError(const std::vector<std::vector<double>>& logprobs, const Golden& golden) {
  EXPECT_EQ(logprobs.size(), golden.logprobs.size());
  double error = 0;
  for (size_t i = 0; i < golden.logprobs.size(); ++i) {
    for (size_t token = 0; token < golden.logprobs[i].size(); ++token) {
      const double difference = std::abs(logprobs[i][token] - golden.logprobs[i][token]);
      error = std::max(error, std::isnan(difference) ? HUGE_VAL : difference);
    }
  }
  return error / golden.largest_logit;
}

// Expects that Incipit's most likely token is also the most likely token of transformers, except
// for differences of log probabilities up to `near_tie`.
void ExpectSameArgmax(const std::vector<std::vector<double>>& logprobs, const Golden& golden,
                      double near_tie) {
  for (size_t i = 0; i < golden.logprobs.size(); ++i) {
    const auto& row = golden.logprobs[i];
    const auto ours = std::ranges::max_element(logprobs[i]) - logprobs[i].begin();
    const double best = *std::ranges::max_element(row);
    EXPECT_LE(best - row[static_cast<size_t>(ours)], near_tie) << i;
  }
}

class HuggingFaceTest : public testing::TestWithParam<std::string> {
 protected:
  const fs::path folder_ = GoldensFolder() / GetParam();
  const Golden golden_ = ReadGolden(folder_);
};

TEST_P(HuggingFaceTest, RotaryFrequenciesAreTheirs) {
  const auto config = ReadModelConfig(folder_);
  ASSERT_TRUE(config.ok()) << config.status();
  const std::vector<float> ours = InverseFrequencies(config->rope, config->head_dim);
  ASSERT_EQ(ours.size(), golden_.inverse_frequencies.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_NEAR(ours[i], golden_.inverse_frequencies[i], 1.3e-7 * golden_.inverse_frequencies[i]);
  }
  EXPECT_FLOAT_EQ(RopeAttentionFactor(config->rope), golden_.attention_factor);
}

TEST_P(HuggingFaceTest, LogitsAgreeWithExactKeysHoweverThePromptIsCut) {
  for (const bool reference : {true, false}) {
    TransformerRunnerOptions options = CheckpointRun::OptionsFor(golden_.tokens.size());
    options.kv_dtype = DType::kF32;
    CheckpointRun run(ReferenceOrCpu(reference, UnroundedCpu()), folder_, options);
    const auto whole = run.AllLogprobs(golden_.tokens, 1'000'000);
    RecordProperty(reference ? "reference" : "fast", std::to_string(RelativeError(whole, golden_)));
    EXPECT_LT(RelativeError(whole, golden_), kRelativeErrorMax) << "reference: " << reference;
    ExpectSameArgmax(whole, golden_, kNearTie);
    for (const int32_t chunk : {7, 1}) {
      EXPECT_EQ(run.AllLogprobs(golden_.tokens, chunk), whole) << chunk;
    }
  }
}

TEST_P(HuggingFaceTest, LogitsAgreeNearlyWithKeysAsBf16) {
  TransformerRunnerOptions options = CheckpointRun::OptionsFor(golden_.tokens.size());
  options.kv_dtype = DType::kBF16;
  CheckpointRun run(folder_, {}, options);
  const auto whole = run.AllLogprobs(golden_.tokens, 1'000'000);
  RecordProperty("bf16", std::to_string(RelativeError(whole, golden_)));
  EXPECT_LT(RelativeError(whole, golden_), kBf16ErrorMax);
  ExpectSameArgmax(whole, golden_, kBf16ErrorMax * golden_.largest_logit);
  EXPECT_EQ(run.AllLogprobs(golden_.tokens, 7), whole);
}

// Random weights are the worst case for 8-bit weights, because every channel matters.
TEST_P(HuggingFaceTest, LogitsAgreeNearlyWithWeightsInEightBits) {
  TransformerRunnerOptions options = CheckpointRun::OptionsFor(golden_.tokens.size());
  options.kv_dtype = DType::kF32;
  CheckpointRun run(folder_, {}, options, WeightFormat::kInt8);
  const auto whole = run.AllLogprobs(golden_.tokens, 1'000'000);
  RecordProperty("int8", std::to_string(RelativeError(whole, golden_)));
  EXPECT_LT(RelativeError(whole, golden_), kInt8ErrorMax);
  EXPECT_EQ(run.AllLogprobs(golden_.tokens, 7), whole);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, HuggingFaceTest, testing::ValuesIn(GoldenNames()),
                         NameOfCheckpoint);

}  // namespace
}  // namespace incipit
