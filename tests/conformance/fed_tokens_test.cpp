// Tests fed tokens on every backend of the build: tokens that a step takes from the samples of the
// previous step.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "tests/conformance/support.h"

namespace incipit {
namespace {

constexpr int64_t kVocab = 40, kHidden = 16;

class FedTokensTest : public ::testing::TestWithParam<BackendCase> {
 protected:
  void SetUp() override {
    if (!GetParam().unavailable.empty()) GTEST_SKIP() << GetParam().unavailable;
    backend_ = GetParam().create(2);
    greedy_.temperature = 0;
  }

  void Upload(std::vector<TokenId> tokens) {
    step_ = PlainStep(static_cast<int32_t>(tokens.size()));
    step_->SetTokens(std::move(tokens));
    step_->UploadTo(*backend_);
  }

  // Calls Sample once, with rows of logits from which the tokens `wanted` are sampled. For the
  // token -1, the row contains logits that are not finite.
  void Sample(const std::vector<TokenId>& wanted) {
    const auto count = std::ssize(wanted);
    Tensor logits(DType::kF32, count, kVocab);
    std::vector<StepSample> samples;
    std::vector<int32_t> logits_rows;
    for (int64_t i = 0; i < count; ++i) {
      std::ranges::fill(logits.Row(i), 0.5f);
      if (wanted[i] >= 0) {
        logits.Set(i, wanted[i], 2);
      } else {
        logits.Set(i, 3, std::numeric_limits<float>::quiet_NaN());
      }
      samples.push_back({.params = &greedy_});
      logits_rows.push_back(static_cast<int32_t>(i));
    }
    std::vector<TokenId> tokens(wanted.size());
    std::vector<RowStatus> status(wanted.size());
    backend_->Sample({.logits = logits.view(),
                      .samples = samples,
                      .logits_rows = logits_rows,
                      .tokens = tokens,
                      .status = status});
    ASSERT_TRUE(backend_->Synchronize().ok());
    EXPECT_EQ(tokens, wanted);
  }

  // Returns the rows of the embedding table that a step reads for `tokens`.
  Tensor Embedded(const std::vector<TokenId>& tokens) {
    Upload(tokens);
    Tensor hidden(DType::kF32, std::ssize(tokens), kHidden);
    backend_->Embed({.table = table().get(), .hidden = hidden.view()});
    EXPECT_TRUE(backend_->Synchronize().ok());
    return hidden;
  }

  void ExpectSame(const Tensor& actual, const std::vector<TokenId>& tokens) {
    const Tensor expected = Embedded(tokens);
    for (int64_t i = 0; i < expected.rows(); ++i) ExpectSameBits(actual.Row(i), expected.Row(i));
  }

  std::unique_ptr<Backend> backend_;

 private:
  const std::unique_ptr<Weight>& table() {
    if (table_ == nullptr) table_ = Pack(*backend_, {&matrix_}, WeightRole::kEmbedding);
    return table_;
  }

  RandomNumbers numbers_{3};
  Tensor matrix_ = Tensor::Random(DType::kF32, kVocab, kHidden, numbers_);
  SamplingParams greedy_;
  std::unique_ptr<OwnedStep> step_;
  std::unique_ptr<Weight> table_;
};

TEST_P(FedTokensTest, AreCountedOverAllSamplesOfThePreviousStep) {
  Upload({1});
  Sample({31, 7});
  Sample({12, 0, 39});
  const Tensor hidden = Embedded({-1, 5, -5, -3, -2, -1, 20, -4});
  ExpectSame(hidden, {31, 5, 39, 12, 7, 31, 20, 0});
}

TEST_P(FedTokensTest, AreThoseOfTheLatestStepThatSampled) {
  Upload({1});
  Sample({31, 7, 8});
  Upload({-2, 2});  // draws nothing
  ASSERT_TRUE(backend_->Synchronize().ok());
  Upload({4});
  Sample({9});
  Upload({-1});
  Sample({10, 11});
  const Tensor hidden = Embedded({-2, -1});
  ExpectSame(hidden, {11, 10});
}

TEST_P(FedTokensTest, ARowThatIsNotFiniteFeedsTokenZero) {
  Upload({1});
  Sample({31, -1, 8});
  const Tensor hidden = Embedded({-2, -3, -1});
  ExpectSame(hidden, {0, 8, 31});
}

TEST_P(FedTokensTest, MoreThanAStepUsuallySamples) {
  Upload({1});
  std::vector<TokenId> tokens, fed;
  for (int32_t call = 0; call < 15; ++call) {
    std::vector<TokenId> sampled;
    for (int32_t i = 0; i < 50; ++i) sampled.push_back((7 * i + call) % kVocab);
    Sample(sampled);
    tokens.insert(tokens.end(), sampled.begin(), sampled.end());
  }
  for (int32_t i = 0; i < std::ssize(tokens); ++i) fed.push_back(-1 - i);
  const Tensor hidden = Embedded(fed);
  ExpectSame(hidden, tokens);
}

TEST_P(FedTokensTest, ASampleThatThePreviousStepDidNotMakeIsABug) {
  Upload({1});
  Sample({31, 7});
  EXPECT_DEATH(Upload({-3}), "");
  Upload({2});
  EXPECT_DEATH(Upload({-1}), "");
}

INSTANTIATE_TEST_SUITE_P(Backends, FedTokensTest, testing::ValuesIn(BackendsAndReference()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace incipit
