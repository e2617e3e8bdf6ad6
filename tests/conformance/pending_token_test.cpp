// Tests pending tokens on every backend of the build: penalties count a token that the previous
// step has sampled and that the host does not know yet.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "tests/conformance/support.h"

namespace incipit {
namespace {

using ::testing::ElementsAre;

// The inputs of one sample. If `pending` is set, sample number `pending_sample` of the previous
// step has sampled the token `pending`.
struct PenalisedRequest {
  SamplingParams params = {};
  std::vector<TokenCount> counts = {};
  std::optional<TokenId> pending = {};
  int32_t pending_sample = -1;
  std::vector<TokenId> banned = {};
};

struct Sampled {
  std::vector<TokenId> tokens;
  Logprobs logprobs;
};

SamplingParams WithoutTemperature() {
  SamplingParams params;
  params.temperature = 0;
  return params;
}

// Returns `request` without a pending token: the token is included in the counts, as if the host
// knew it.
PenalisedRequest Known(PenalisedRequest request) {
  request.pending_sample = -1;
  if (!request.pending.has_value()) return request;
  const auto it =
      std::ranges::lower_bound(request.counts, *request.pending, {}, &TokenCount::token);
  if (it != request.counts.end() && it->token == *request.pending) {
    ++it->in_output;
  } else {
    request.counts.insert(it, {.token = *request.pending, .in_output = 1});
  }
  return request;
}

class PendingTokenTest : public ::testing::TestWithParam<BackendCase> {
 protected:
  void SetUp() override {
    if (!GetParam().unavailable.empty()) GTEST_SKIP() << GetParam().unavailable;
    backend_ = GetParam().create(2);
  }

  void BeginStep() {
    step_ = PlainStep(1);
    step_->UploadTo(*backend_);
  }

  // Samples one token for each request in the current step: for requests[i] from row i of `logits`.
  // A pending token of a request is sample number `pending_sample` of the previous step.
  Sampled Sample(const std::vector<std::vector<float>>& logits,
                 const std::vector<PenalisedRequest>& requests) {
    Tensor matrix(DType::kF32, std::ssize(logits), std::ssize(logits.front()));
    std::vector<StepSample> samples;
    std::vector<int32_t> logits_rows;
    for (size_t i = 0; i < requests.size(); ++i) {
      std::ranges::copy(logits[i], matrix.Row(static_cast<int64_t>(i)).begin());
      samples.push_back({.params = &requests[i].params,
                         .counts = requests[i].counts,
                         .pending_sample = requests[i].pending_sample,
                         .banned = requests[i].banned});
      logits_rows.push_back(static_cast<int32_t>(i));
    }
    Sampled output = {.tokens = std::vector<TokenId>(samples.size()), .logprobs = {}};
    std::vector<RowStatus> status(samples.size());
    backend_->Sample({.logits = matrix.view(),
                      .samples = samples,
                      .logits_rows = logits_rows,
                      .tokens = output.tokens,
                      .status = status,
                      .logprobs = &output.logprobs});
    EXPECT_TRUE(backend_->Synchronize().ok());
    return output;
  }

  // Samples the tokens `wanted` in the current step. The token -1 stands for a row of logits that
  // are not finite.
  void SampleTokens(const std::vector<TokenId>& wanted, size_t vocab) {
    std::vector<std::vector<float>> logits;
    for (const TokenId token : wanted) {
      logits.emplace_back(vocab, 0.5f);
      logits.back()[std::max(token, 0)] =
          token < 0 ? std::numeric_limits<float>::quiet_NaN() : 2.0f;
    }
    const Sampled output =
        Sample(logits, std::vector<PenalisedRequest>(wanted.size(), {WithoutTemperature()}));
    ASSERT_EQ(output.tokens, wanted);
  }

  std::unique_ptr<Backend> backend_;

 private:
  std::unique_ptr<OwnedStep> step_;
};

TEST_P(PendingTokenTest, IsOneMoreOccurrenceInTheOutput) {
  PenalisedRequest known = {.params = WithoutTemperature()};
  known.params.frequency_penalty = 1;
  known.params.presence_penalty = 0.5f;
  PenalisedRequest absent = known, in_output = known, in_prompt = known;
  absent.pending_sample = in_output.pending_sample = in_prompt.pending_sample = 0;
  known.counts = in_output.counts = {{.token = 2, .in_output = 1}};
  absent.counts = {{.token = 1, .in_prompt = 1}};
  in_prompt.counts = {{.token = 2, .in_prompt = 7}};
  // The penalties lower the logit of token 2 by 1.5 if the output contains the token once, and by
  // 2.5 if twice.
  const std::vector<float> once = {3, 0, 4.6f}, above_once = {3.2f, 0, 4.6f};
  const std::vector<float> twice = {3, 0, 5.6f}, above_twice = {3.2f, 0, 5.6f};
  BeginStep();
  SampleTokens({2}, 3);
  BeginStep();
  EXPECT_THAT(Sample({once, above_once}, {known, known}).tokens, ElementsAre(2, 0));
  EXPECT_THAT(Sample({once, above_once}, {absent, absent}).tokens, ElementsAre(2, 0));
  EXPECT_THAT(Sample({once, above_once}, {in_prompt, in_prompt}).tokens, ElementsAre(2, 0));
  EXPECT_THAT(Sample({twice, above_twice}, {in_output, in_output}).tokens, ElementsAre(2, 0));
}

TEST_P(PendingTokenTest, TheRepetitionPenaltyAppliesToItOnce) {
  PenalisedRequest absent = {.params = WithoutTemperature(), .pending_sample = 0};
  absent.params.repetition_penalty = 2;
  PenalisedRequest present = absent;
  present.counts = {{.token = 2, .in_prompt = 1, .in_output = 1}};
  const std::vector<float> half = {3, 0, 6.2f}, less = {3.2f, 0, 6.2f};
  BeginStep();
  SampleTokens({2}, 3);
  BeginStep();
  EXPECT_THAT(Sample({half, less}, {absent, absent}).tokens, ElementsAre(2, 0));
  EXPECT_THAT(Sample({half, less}, {present, present}).tokens, ElementsAre(2, 0));
}

TEST_P(PendingTokenTest, IsIgnoredWithoutPenaltiesAndIfItsRowIsNotFinite) {
  PenalisedRequest plain = {.params = WithoutTemperature(), .pending_sample = 0}, penalised = plain;
  penalised.params.frequency_penalty = 2;
  penalised.pending_sample = 1;
  const std::vector<float> logits = {1, 0, 2};
  BeginStep();
  SampleTokens({2, -1}, 3);
  BeginStep();
  EXPECT_THAT(Sample({logits, logits}, {plain, penalised}).tokens, ElementsAre(2, 2));
}

// Each call of Sample stores its tokens for the next step. Later calls of the same step must still
// read the tokens of the previous step.
TEST_P(PendingTokenTest, IsThatOfThePreviousStepInEveryCallOfAStep) {
  constexpr size_t kVocab = 40;
  PenalisedRequest request = {.params = WithoutTemperature()};
  request.params.presence_penalty = 2;
  const std::vector<TokenId> before = {31, 7, 12, 0, 39};
  BeginStep();
  SampleTokens({31, 7}, kVocab);
  SampleTokens({12, 0, 39}, kVocab);
  for (int32_t step = 0; step < 3; ++step) {
    BeginStep();
    std::vector<TokenId> sampled;
    for (int32_t call = 0; call < 5; ++call) {
      // Without the penalty, the pending token would be sampled. With the penalty, the token `call
      // + step + 1` is sampled.
      request.pending_sample = 4 - call;
      const TokenId pending = step == 0 ? before[4 - call] : TokenId{4 - call + step};
      std::vector<float> logits(kVocab, 0);
      logits[call + step + 1] = 2;
      logits[pending] = 3;
      sampled.push_back(Sample({logits}, {request}).tokens.front());
    }
    EXPECT_THAT(sampled, ElementsAre(step + 1, step + 2, step + 3, step + 4, step + 5));
  }
}

// The current step samples more tokens than the memory of the previous step had room for.
TEST_P(PendingTokenTest, IsKeptWhenTheMemoryForSampledTokensGrows) {
  constexpr int32_t kVocab = 20, kRows = 50;
  const auto token_of = [](int32_t sample) { return TokenId{7 * sample % kVocab}; };
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < kRows; ++i) tokens.push_back(token_of(i));
  BeginStep();
  SampleTokens(tokens, kVocab);
  BeginStep();
  for (int32_t call = 0; call < 4; ++call) {
    std::vector<std::vector<float>> logits(kRows, std::vector<float>(kVocab, 0));
    std::vector<PenalisedRequest> requests(kRows, {.params = WithoutTemperature()});
    std::vector<TokenId> expected;
    for (int32_t i = 0; i < kRows; ++i) {
      requests[i].params.presence_penalty = 2;
      requests[i].pending_sample = (i + call) % kRows;
      const TokenId pending = token_of(requests[i].pending_sample);
      expected.push_back((pending + 5) % kVocab);
      logits[i][pending] = 2;
      logits[i][expected.back()] = 1;
    }
    EXPECT_EQ(Sample(logits, requests).tokens, expected);
  }
}

// One sample has more penalties than one launch of a kernel usually applies.
TEST_P(PendingTokenTest, IsCountedThoughEveryTokenOfALargeVocabularyIs) {
  constexpr int32_t kVocab = (1 << 16) + 3;
  PenalisedRequest request = {.params = WithoutTemperature(), .pending_sample = 0};
  request.params.frequency_penalty = 1;
  for (TokenId token = 0; token < kVocab; ++token) {
    request.counts.push_back({.token = token, .in_prompt = 1});
  }
  std::vector<float> logits(kVocab, 0);
  logits[kVocab - 2] = 2;
  logits[kVocab - 9] = 1.5f;
  BeginStep();
  SampleTokens({kVocab - 2}, kVocab);
  BeginStep();
  EXPECT_THAT(Sample({logits}, {request}).tokens, ElementsAre(kVocab - 9));
}

TEST_P(PendingTokenTest, ASampleThatThePreviousStepDidNotMakeIsABug) {
  PenalisedRequest request = {.params = WithoutTemperature(), .pending_sample = 1};
  request.params.presence_penalty = 1;
  BeginStep();
  SampleTokens({2}, 3);
  BeginStep();
  EXPECT_DEATH(Sample({{1, 0, 2}}, {request}), "");
}

// Generates random logits, penalties, biases, bans and sampling parameters.
class RandomRequests {
 public:
  std::vector<float> Logits(int32_t vocab) {
    std::vector<float> logits(static_cast<size_t>(vocab));
    for (float& logit : logits) logit = numbers_.Uniform(-4, 4);
    return logits;
  }

  PenalisedRequest Next(int32_t vocab, TokenId pending, int32_t pending_sample) {
    PenalisedRequest request = {.pending = pending, .pending_sample = pending_sample};
    SamplingParams& params = request.params;
    params.temperature = Pick({0, 0.7f, 1, 1});
    params.top_p = Pick({1, 1, 0.9f});
    params.top_k = static_cast<int32_t>(Pick({0, 0, 5}));
    params.num_logprobs = static_cast<int32_t>(Pick({-1, 0, 3}));
    params.seed = static_cast<uint64_t>(numbers_.Below(1 << 30));
    params.repetition_penalty = Pick({1, 1.3f, 0.5f});
    params.presence_penalty = Pick({0, 0.5f, -2});
    params.frequency_penalty = Pick({0, 0.3f, -1});
    for (TokenId token = numbers_.Below(4); token < vocab; token += 1 + numbers_.Below(9)) {
      request.counts.push_back(
          {.token = token, .in_prompt = numbers_.Below(3), .in_output = numbers_.Below(3)});
    }
    const TokenId biased = numbers_.Below(2) == 0 ? pending : numbers_.Below(vocab);
    params.logit_bias = {{.token = biased, .bias = Pick({-1, 2, 0.1f})}};
    if (numbers_.Below(3) == 0) {
      request.banned = {numbers_.Below(2) == 0 ? pending : numbers_.Below(vocab)};
    }
    return request;
  }
  int32_t Below(int32_t bound) { return numbers_.Below(bound); }

 private:
  float Pick(std::initializer_list<float> values) {
    return values.begin()[numbers_.Below(static_cast<int32_t>(values.size()))];
  }

  RandomNumbers numbers_{61};
};

TEST_P(PendingTokenTest, SamplesAsIfTheHostKnewIt) {
  constexpr int32_t kRows = 7;
  RandomRequests random;
  int32_t num_changed = 0;
  for (const int32_t vocab : {2, 30, 300}) {
    for (int32_t round = 0; round < (GetParam().is_emulated() ? 3 : 40); ++round) {
      std::vector<TokenId> pending;
      std::vector<std::vector<float>> logits;
      std::vector<PenalisedRequest> requests, known, without;
      for (int32_t i = 0; i < kRows; ++i) pending.push_back(random.Below(vocab));
      for (int32_t i = 0; i < kRows; ++i) {
        const int32_t sample = random.Below(kRows);
        logits.push_back(random.Logits(vocab));
        requests.push_back(random.Next(vocab, pending[sample], sample));
        known.push_back(Known(requests.back()));
        without.push_back(requests.back());
        without.back().pending_sample = -1;
      }
      BeginStep();
      SampleTokens(pending, static_cast<size_t>(vocab));
      BeginStep();
      const Sampled actual = Sample(logits, requests);
      const Sampled expected = Sample(logits, known);
      ASSERT_EQ(actual.tokens, expected.tokens) << vocab << " tokens, round " << round;
      ASSERT_EQ(actual.logprobs.rank, expected.logprobs.rank);
      const auto same = [](const TokenLogprob& a, const TokenLogprob& b) {
        return a.token == b.token && a.logprob == b.logprob;
      };
      ASSERT_TRUE(std::ranges::equal(actual.logprobs.chosen, expected.logprobs.chosen, same));
      ASSERT_TRUE(std::ranges::equal(actual.logprobs.top, expected.logprobs.top, same));
      num_changed += actual.tokens != Sample(logits, without).tokens;
    }
  }
  EXPECT_GT(num_changed, 0) << "the pending tokens changed no sampled token";
}

INSTANTIATE_TEST_SUITE_P(Backends, PendingTokenTest, testing::ValuesIn(BackendsAndReference()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace incipit
