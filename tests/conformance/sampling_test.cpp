// Tests the rules of sampling on every backend of the build. Also checks that tokens and log
// probabilities of every backend have the bits of the definition.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "kernels/backend.h"
#include "tests/conformance/support.h"

namespace incipit {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::UnorderedElementsAre;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// The inputs of one sample. Different rows of a step may have different inputs.
struct Request {
  SamplingParams params = {};
  int32_t choice = 0;
  int64_t position = 0;
  std::vector<TokenCount> counts = {};
  std::vector<TokenId> banned = {};
};

struct Output {
  std::vector<TokenId> tokens;
  std::vector<RowStatus> status;
  Logprobs logprobs;
};

// Samples from row i of `logits` with the inputs requests[i].
Output Sample(Backend& backend, const std::vector<std::vector<float>>& logits,
              const std::vector<Request>& requests) {
  Tensor matrix(DType::kF32, std::ssize(logits), std::ssize(logits.front()));
  std::vector<StepSample> samples;
  std::vector<int32_t> logits_rows;
  for (size_t i = 0; i < requests.size(); ++i) {
    std::ranges::copy(logits[i], matrix.Row(static_cast<int64_t>(i)).begin());
    samples.push_back({.params = &requests[i].params,
                       .choice = requests[i].choice,
                       .position = requests[i].position,
                       .counts = requests[i].counts,
                       .banned = requests[i].banned});
    logits_rows.push_back(static_cast<int32_t>(i));
  }
  Output output = {.tokens = std::vector<TokenId>(samples.size()),
                   .status = std::vector<RowStatus>(samples.size()),
                   .logprobs = {}};
  backend.Sample({.logits = matrix.view(),
                  .samples = samples,
                  .logits_rows = logits_rows,
                  .tokens = output.tokens,
                  .status = output.status,
                  .logprobs = &output.logprobs});
  EXPECT_TRUE(backend.Synchronize().ok());
  return output;
}

#ifdef INCIPIT_FEWER_SAMPLES
constexpr uint64_t kNumSeeds = 100;
#else
constexpr uint64_t kNumSeeds = 400;
#endif

class SamplingTest : public ::testing::TestWithParam<BackendCase> {
 protected:
  void SetUp() override {
    if (!GetParam().unavailable.empty()) GTEST_SKIP() << GetParam().unavailable;
    backend_ = GetParam().create(2);
  }

  TokenId SampleOne(const std::vector<float>& logits, const Request& request) {
    const Output output = Sample(*backend_, {logits}, {request});
    EXPECT_EQ(output.status.front(), RowStatus::kOk);
    return output.tokens.front();
  }

  // Returns all tokens that are sampled with at least one of kNumSeeds seeds.
  std::set<TokenId> SampledTokens(const std::vector<float>& logits, Request request) {
    std::set<TokenId> tokens;
    for (request.params.seed = 0; request.params.seed < kNumSeeds; ++request.params.seed) {
      tokens.insert(SampleOne(logits, request));
    }
    return tokens;
  }

  std::unique_ptr<Backend> backend_;
};

std::vector<float> LogsOf(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

constexpr SamplingParams Greedy() {
  SamplingParams params;
  params.temperature = 0;
  return params;
}

TEST_P(SamplingTest, GreedyTakesTheLargestAndOfEqualOnesTheLowestToken) {
  EXPECT_EQ(SampleOne({1, 5, 3}, {.params = Greedy()}), 1);
  EXPECT_EQ(SampleOne({1, 5, 3, 5}, {.params = Greedy()}), 1);
  EXPECT_EQ(SampleOne({-0.0f, 0.0f}, {.params = Greedy()}), 0);
  EXPECT_EQ(SampleOne({-kInfinity, -7}, {.params = Greedy()}), 1);
  std::vector<float> wide(1000, -2);
  wide[999] = wide[640] = -1;
  EXPECT_EQ(SampleOne(wide, {.params = Greedy()}), 640);
}

TEST_P(SamplingTest, TheRepetitionPenaltyReachesPromptAndOutputOnBothSidesOfZero) {
  Request request = {.params = Greedy(), .counts = {{.token = 0, .in_prompt = 1}}};
  request.params.repetition_penalty = 2;
  EXPECT_EQ(SampleOne({4, 3}, request), 1);     // with the penalty: 4 / 2 < 3
  EXPECT_EQ(SampleOne({4, 1.9f}, request), 0);  // with the penalty: 4 / 2 > 1.9
  EXPECT_EQ(SampleOne({-2, -3}, request), 1);   // with the penalty: -2 * 2 < -3
  request.counts = {{.token = 0, .in_output = 1}};
  EXPECT_EQ(SampleOne({4, 3}, request), 1);
  request.counts = {{.token = 0}};
  EXPECT_EQ(SampleOne({4, 3}, request), 0);
}

TEST_P(SamplingTest, FrequencyAndPresencePenaltiesReachTheOutputOnly) {
  Request request = {.params = Greedy(), .counts = {{.token = 0, .in_prompt = 9}}};
  request.params.frequency_penalty = 1;
  request.params.presence_penalty = 1;
  EXPECT_EQ(SampleOne({4, 3.5f}, request), 0);
  request.counts.front().in_output = 3;  // subtracts 3 for the frequency and 1 for the presence
  EXPECT_EQ(SampleOne({4, 0.1f}, request), 1);
  EXPECT_EQ(SampleOne({4, -0.1f}, request), 0);
}

TEST_P(SamplingTest, BiasIsAddedAfterThePenalties) {
  Request request = {.params = Greedy(), .counts = {{.token = 0, .in_prompt = 1}}};
  request.params.repetition_penalty = 2;
  request.params.logit_bias = {{.token = 0, .bias = 1}};
  EXPECT_EQ(SampleOne({4, 2.9f}, request), 0);  // 4 / 2 + 1 is 3, and (4 + 1) / 2 would be 2.5
  EXPECT_EQ(SampleOne({4, 3.1f}, request), 1);
  request.params.logit_bias = {{.token = 1, .bias = 100}};
  EXPECT_EQ(SampleOne({4, -50}, request), 1);
}

TEST_P(SamplingTest, BannedTokensAreNeverSampledUnlessNothingElseIsLeft) {
  EXPECT_THAT(SampledTokens({1, 1, 1}, {.banned = {0, 2}}), UnorderedElementsAre(1));
  EXPECT_EQ(SampleOne({9, 1}, {.params = Greedy(), .banned = {0}}), 1);
  // Void: a token must be drawn.
  EXPECT_EQ(SampleOne({1, 9}, {.params = Greedy(), .banned = {0, 1}}), 1);
  EXPECT_EQ(SampleOne({-kInfinity, 9, -kInfinity}, {.banned = {1}}), 1);
}

TEST_P(SamplingTest, TokensOutsideTheVocabularyAreIgnored) {
  Request request = {
      .params = Greedy(), .counts = {{.token = 7, .in_output = 1}}, .banned = {3, -1}};
  request.params.presence_penalty = 1;
  request.params.logit_bias = {{.token = 2, .bias = 5}};
  EXPECT_EQ(SampleOne({1, 2}, request), 1);
}

TEST_P(SamplingTest, TopKKeepsTheLargestAndOfEqualOnesTheLowestTokens) {
  Request request;
  request.params.top_k = 2;
  EXPECT_THAT(SampledTokens({1, 3, 2, 0}, request), UnorderedElementsAre(1, 2));
  EXPECT_THAT(SampledTokens({1, 1, 1, 1}, request), UnorderedElementsAre(0, 1));
  request.params.top_k = 1;
  EXPECT_THAT(SampledTokens({1, 3, 3, 0}, request), UnorderedElementsAre(1));
  request.params.top_k = 100;
  EXPECT_THAT(SampledTokens({1, 1, 1}, request), UnorderedElementsAre(0, 1, 2));
}

TEST_P(SamplingTest, TopPKeepsTheShortestRunThatReachesItsShare) {
  const std::vector<float> logits = LogsOf({0.1, 0.5, 0.15, 0.25});
  Request request;
  request.params.top_p = 0.7f;
  EXPECT_THAT(SampledTokens(logits, request), UnorderedElementsAre(1, 3));
  request.params.top_p = 0.8f;
  EXPECT_THAT(SampledTokens(logits, request), UnorderedElementsAre(1, 2, 3));
  request.params.top_p = 1e-9f;
  EXPECT_THAT(SampledTokens(logits, request), UnorderedElementsAre(1));
  request.params.top_p = 0.5f;
  EXPECT_THAT(SampledTokens({0, 0, 0, 0}, request), UnorderedElementsAre(0, 1));
}

TEST_P(SamplingTest, MinPKeepsWhatIsNotFarBelowTheLargest) {
  const std::vector<float> logits = LogsOf({0.1, 0.5, 0.15, 0.25});
  Request request;
  request.params.min_p = 0.25f;
  EXPECT_THAT(SampledTokens(logits, request), UnorderedElementsAre(1, 2, 3));
  request.params.min_p = 0.6f;
  EXPECT_THAT(SampledTokens(logits, request), UnorderedElementsAre(1));
}

TEST_P(SamplingTest, RulesApplyInTheirOrder) {
  const std::vector<float> logits = LogsOf({0.4, 0.3, 0.2, 0.1});
  Request request;
  // top_k leaves two tokens with the probabilities 4/7 and 3/7. The first token alone then reaches
  // top_p = 0.55. Without top_k, its probability is only 0.4.
  request.params.top_k = 2;
  request.params.top_p = 0.55f;
  EXPECT_THAT(SampledTokens(logits, request), UnorderedElementsAre(0));
  // The temperature is applied before top_p: at the temperature 0.25, the first token has a share
  // of 0.72.
  request.params = {};
  request.params.top_p = 0.6f;
  EXPECT_THAT(SampledTokens(logits, request), UnorderedElementsAre(0, 1));
  request.params.temperature = 0.25f;
  EXPECT_THAT(SampledTokens(logits, request), UnorderedElementsAre(0));
  // min_p is relative to the largest probability, whatever tokens top_p has left.
  request.params = {};
  request.params.top_p = 0.9f;
  request.params.min_p = 0.7f;
  EXPECT_THAT(SampledTokens(logits, request), UnorderedElementsAre(0, 1));
}

TEST_P(SamplingTest, SamplesFollowTheDistribution) {
  // Pearson's chi-square test over 12 tokens, with 11 degrees of freedom. The value is below 37.4
  // for 99.99 % of correct samplers. The seeds are fixed, so the test passes always or never.
  const std::vector<double> weights = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 25};
  const std::vector<float> logits = LogsOf(weights);
  constexpr int kRows = 100;
  const int num_samples = GetParam().has_threads ? 20000 : 2000;
  for (const float temperature : {1.0f, 0.5f, 2.0f}) {
    std::vector<double> seen(weights.size(), 0);
    for (int begin = 0; begin < num_samples; begin += kRows) {
      std::vector<Request> requests(kRows);
      for (int i = 0; i < kRows; ++i) {
        requests[i].params.temperature = temperature;
        requests[i].params.seed = static_cast<uint64_t>(begin + i);
      }
      const Output output =
          Sample(*backend_, std::vector<std::vector<float>>(kRows, logits), requests);
      for (const TokenId token : output.tokens) ++seen[token];
    }
    double total = 0, chi_square = 0;
    for (const double w : weights) total += std::pow(w, 1 / temperature);
    for (size_t i = 0; i < weights.size(); ++i) {
      const double expected = num_samples * std::pow(weights[i], 1 / temperature) / total;
      chi_square += (seen[i] - expected) * (seen[i] - expected) / expected;
    }
    EXPECT_LT(chi_square, 37.4) << "temperature " << temperature;
  }
}

TEST_P(SamplingTest, ASampleDependsOnSeedChoiceAndPositionAlone) {
  RandomNumbers numbers(4);
  std::vector<std::vector<float>> logits(20, std::vector<float>(300));
  std::vector<Request> requests(20);
  for (size_t i = 0; i < logits.size(); ++i) {
    for (float& logit : logits[i]) logit = numbers.Uniform(-2, 2);
    requests[i].params.seed = i;
    requests[i].params.top_p = i % 3 == 0 ? 0.9f : 1;
    requests[i].params.top_k = i % 4 == 0 ? 40 : 0;
    requests[i].position = static_cast<int64_t>(100 * i);
  }
  const Output together = Sample(*backend_, logits, requests);
  for (size_t i = 0; i < logits.size(); ++i) {
    EXPECT_EQ(SampleOne(logits[i], requests[i]), together.tokens[i]);
  }
  const auto count_of_different = [&](const auto& change) {
    int count = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      Request other = requests[i];
      change(other);
      count += SampleOne(logits[i], other) != together.tokens[i];
    }
    return count;
  };
  EXPECT_GT(count_of_different([](Request& request) { request.params.seed += 1000; }), 10);
  EXPECT_GT(count_of_different([](Request& request) { request.choice = 1; }), 10);
  EXPECT_GT(count_of_different([](Request& request) { ++request.position; }), 10);
}

TEST_P(SamplingTest, ARowThatIsNotFiniteIsReportedAndTheOthersAreSampled) {
  const std::vector<std::vector<float>> logits = {{1, kNaN, 2},
                                                  {1, 2, 3},
                                                  {1, kInfinity, 2},
                                                  {-kInfinity, -kInfinity, -kInfinity},
                                                  {-kInfinity, 0, -kInfinity}};
  for (const float temperature : {0.0f, 1.0f}) {
    std::vector<Request> requests(logits.size());
    for (Request& request : requests) {
      request.params.temperature = temperature;
      request.params.num_logprobs = 1;
      request.banned = {0};
    }
    const Output output = Sample(*backend_, logits, requests);
    EXPECT_THAT(output.status,
                ElementsAre(RowStatus::kNonFinite, RowStatus::kOk, RowStatus::kNonFinite,
                            RowStatus::kNonFinite, RowStatus::kOk));
    EXPECT_EQ(output.tokens[0], -1);
    EXPECT_NE(output.tokens[1], -1);
    EXPECT_EQ(output.tokens[4], 1);
    // Each row of logits has an entry in the log probabilities. This includes rows for which no
    // token was sampled.
    EXPECT_EQ(output.logprobs.num_rows(), 5);
    EXPECT_THAT(output.logprobs.top_begin, ElementsAre(0, 0, 1, 1, 1, 2));
    EXPECT_EQ(output.logprobs.rank[0], 0);
    EXPECT_EQ(output.logprobs.chosen[4].logprob, 0);
  }
}

TEST_P(SamplingTest, ExtremesStayWithinTheRules) {
  const float huge = std::numeric_limits<float>::max();
  EXPECT_EQ(SampleOne({-huge, huge, 0}, {}), 1);
  EXPECT_EQ(SampleOne({3}, {}), 0);
  Request request;
  request.params.temperature = 1e-30f;
  EXPECT_EQ(SampleOne({1, 1.0001f, 0.9f}, request), 1);
  request.params.temperature = 1e30f;
  EXPECT_THAT(SampledTokens({0, 50, -50}, request), UnorderedElementsAre(0, 1, 2));
  // Penalties and biases that overflow give finite logits, so tokens whose logits were finite can
  // still be sampled.
  request.params = Greedy();
  request.params.repetition_penalty = 1e-30f;
  request.counts = {{.token = 0, .in_prompt = 1}};
  EXPECT_EQ(SampleOne({1e30f, huge / 2}, request), 0);
  request.params = {};
  request.params.logit_bias = {{.token = 0, .bias = -huge}, {.token = 1, .bias = -huge}};
  request.counts = {};
  request.banned = {1};
  EXPECT_EQ(SampleOne({-huge, -huge}, request), 0);
}

TEST_P(SamplingTest, LogprobsAreThoseOfTheUntouchedLogits) {
  const std::vector<float> logits = LogsOf({0.1, 0.4, 0.2, 0.2, 0.1});
  Request request = {.params = Greedy(), .banned = {1}};
  request.params.num_logprobs = 4;
  request.params.logit_bias = {{.token = 4, .bias = 10}};
  const Output output = Sample(*backend_, {logits}, {request});
  EXPECT_EQ(output.tokens.front(), 4);
  EXPECT_EQ(output.logprobs.chosen.front().token, 4);
  EXPECT_NEAR(output.logprobs.chosen.front().logprob, std::log(0.1), 1e-6);
  EXPECT_EQ(output.logprobs.rank.front(), 5);  // token 0 has an equal logit and a better rank
  std::vector<TokenId> top;
  for (const TokenLogprob& entry : output.logprobs.top) top.push_back(entry.token);
  EXPECT_THAT(top, ElementsAre(1, 2, 3, 0));
  EXPECT_NEAR(output.logprobs.top[0].logprob, std::log(0.4), 1e-6);
  EXPECT_NEAR(output.logprobs.top[2].logprob, std::log(0.2), 1e-6);
}

TEST_P(SamplingTest, LogprobsOfAnyNumberAreGivenInTheOrderOfTheRows) {
  std::vector<Request> requests(4);
  const int32_t wanted[] = {0, -1, 100, 2};
  for (size_t i = 0; i < 4; ++i) {
    requests[i].params = Greedy();
    requests[i].params.num_logprobs = wanted[i];
  }
  const Output output =
      Sample(*backend_, {{1, 2, 3}, {5, 4, 0}, {2, 1, -kInfinity}, {0, 7, 7}}, requests);
  EXPECT_THAT(output.logprobs.top_begin, ElementsAre(0, 0, 3, 5));
  EXPECT_EQ(output.logprobs.chosen[1].token, 0);
  EXPECT_EQ(output.logprobs.top[2].token, 2);
  EXPECT_EQ(output.logprobs.top[2].logprob, -kInfinity);
  EXPECT_EQ(output.logprobs.top[3].token, 1);
  EXPECT_EQ(output.logprobs.top[4].token, 2);
}

TEST_P(SamplingTest, ScoreGivesTheLogprobsOfKnownTokens) {
  Tensor logits(DType::kF32, 2, 4);
  std::ranges::copy(LogsOf({0.1, 0.2, 0.3, 0.4}), logits.Row(0).begin());
  std::ranges::fill(logits.Row(1), kNaN);
  const std::vector<StepScore> scores = {
      {.target = 1, .num_top = 2}, {.target = 3, .num_top = 2}, {.target = 3, .num_top = 0}};
  const std::vector<int32_t> rows = {0, 1, 0};
  std::vector<RowStatus> status(scores.size());
  Logprobs logprobs;
  backend_->Score({.logits = logits.view(),
                   .scores = scores,
                   .logits_rows = rows,
                   .status = status,
                   .logprobs = &logprobs});
  EXPECT_THAT(status, ElementsAre(RowStatus::kOk, RowStatus::kNonFinite, RowStatus::kOk));
  EXPECT_THAT(logprobs.rank, ElementsAre(3, 0, 1));
  EXPECT_THAT(logprobs.top_begin, ElementsAre(0, 2, 2, 2));
  EXPECT_EQ(logprobs.chosen[0].token, 1);
  EXPECT_NEAR(logprobs.chosen[0].logprob, std::log(0.2), 1e-6);
  EXPECT_EQ(logprobs.top[0].token, 3);
}

INSTANTIATE_TEST_SUITE_P(Backends, SamplingTest, testing::ValuesIn(BackendsAndReference()),
                         [](const auto& info) { return info.param.name; });

// Compares samples of random rows and random requests with the definition of sampling.
class SamplingDefinitionTest : public ::testing::TestWithParam<BackendCase> {
 protected:
  void SetUp() override {
    if (!GetParam().unavailable.empty()) GTEST_SKIP() << GetParam().unavailable;
  }

  std::vector<float> RandomLogits(int32_t vocab) {
    const int32_t kind = numbers_.Below(5);
    const float scale = kind == 0 ? 0.01f : kind == 1 ? 3.0f : kind == 2 ? 40.0f : 10.0f;
    std::vector<float> logits(static_cast<size_t>(vocab));
    for (float& logit : logits) {
      logit = numbers_.Uniform(-scale, scale);
      if (kind == 3) logit = std::round(logit);  // many equal logits
      if (kind == 4 && numbers_.Below(3) == 0) logit = -kInfinity;
    }
    logits[numbers_.Below(vocab)] = numbers_.Uniform(0, scale);
    return logits;
  }

  Request RandomRequest(int32_t vocab) {
    const auto pick = [&](std::initializer_list<float> values) {
      return values.begin()[numbers_.Below(static_cast<int32_t>(values.size()))];
    };
    Request request;
    request.params.temperature = pick({0, 0.1f, 0.7f, 1, 1, 5});
    request.params.top_p = pick({1, 1, 0.999f, 0.9f, 0.5f, 0.01f});
    request.params.top_k = static_cast<int32_t>(pick({0, 0, 1, 5, 40, 3000}));
    request.params.min_p = pick({0, 0, 0.05f, 0.5f, 1e-6f});
    request.params.num_logprobs = static_cast<int32_t>(pick({-1, 0, 3, 20, 500}));
    request.params.seed = static_cast<uint64_t>(numbers_.Below(1 << 30));
    request.position = numbers_.Below(5000);
    if (numbers_.Below(2) == 0) {
      request.params.repetition_penalty = pick({1, 1.1f, 0.5f});
      request.params.presence_penalty = pick({0, 0.5f, -2});
      request.params.frequency_penalty = pick({0, 0.3f, -1});
      for (TokenId token = numbers_.Below(9); token < vocab; token += 1 + numbers_.Below(vocab)) {
        request.counts.push_back(
            {.token = token, .in_prompt = numbers_.Below(3), .in_output = numbers_.Below(3)});
      }
      request.params.logit_bias = {{.token = numbers_.Below(vocab), .bias = pick({-100, 5, 0.1f})}};
      request.banned = {numbers_.Below(vocab)};
    }
    return request;
  }

  RandomNumbers numbers_{2024};
};

TEST_P(SamplingDefinitionTest, TokensAndLogprobsAreThoseOfTheDefinitionBitForBit) {
  const auto backend = GetParam().create(2), reference = CreateReference();
  for (const int32_t vocab : {1, 2, 63, 64, 65, 500, 4097, 9000}) {
    for (int round = 0; round < (GetParam().has_threads ? 12 : 3); ++round) {
      std::vector<std::vector<float>> logits;
      std::vector<Request> requests;
      for (int i = 0; i < 7; ++i) {
        logits.push_back(RandomLogits(vocab));
        requests.push_back(RandomRequest(vocab));
      }
      const Output actual = Sample(*backend, logits, requests);
      const Output expected = Sample(*reference, logits, requests);
      ASSERT_EQ(actual.tokens, expected.tokens) << vocab << " tokens, round " << round;
      ASSERT_EQ(actual.status, expected.status);
      ASSERT_EQ(actual.logprobs.rank, expected.logprobs.rank);
      ASSERT_EQ(actual.logprobs.top_begin, expected.logprobs.top_begin);
      const auto same = [](const TokenLogprob& a, const TokenLogprob& b) {
        return a.token == b.token && a.logprob == b.logprob;
      };
      ASSERT_TRUE(std::ranges::equal(actual.logprobs.chosen, expected.logprobs.chosen, same));
      ASSERT_TRUE(std::ranges::equal(actual.logprobs.top, expected.logprobs.top, same));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, SamplingDefinitionTest, testing::ValuesIn(Backends()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace incipit
