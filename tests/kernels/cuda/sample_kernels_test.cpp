// Compares the sampling kernels on the emulator with the definition of sampling. Tokens, statuses,
// ranks and log probabilities must have the same bits for any row of logits and any sampling
// parameters.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/device/sampling/sample.h"
#include "kernels/cuda/device/sampling/score.h"
#include "kernels/cuda/host/sample_plan.h"
#include "kernels/emulator/run.h"
#include "kernels/reference/sampler.h"
#include "kernels/sampling.h"
#include "tests/kernels/cuda/sample_problem.h"

namespace incipit::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Runs the same kernel with fewer threads, so that each thread handles more tokens and the emulator
// runs fewer fibers.
struct NarrowShape {
  static constexpr int kThreads = 64;
};

struct Output {
  std::vector<TokenId> tokens;
  std::vector<RowStatus> status;
  Logprobs logprobs;
};

template <class Shape>
Output SampleOnDevice(Rows& logits, const std::vector<Request>& requests, uint64_t seed,
                      bool has_best) {
  std::vector<StepSample> samples;
  std::vector<int32_t> rows;
  // Sampled tokens of the previous step and of this step. SampledIndex returns the index of each
  // token.
  std::vector<TokenId> sampled(2 * requests.size(), -7);
  for (const Request& request : requests) {
    const auto index = static_cast<int32_t>(samples.size());
    sampled[static_cast<size_t>(SampledIndex(index, 1))] = request.pending.value_or(-7);
    samples.push_back(request.sample(index));
    rows.push_back(request.logits_row);
  }
  std::vector<TokenId> expected_sampled = sampled;
  Output output = {.tokens = std::vector<TokenId>(rows.size(), -7),
                   .status = std::vector<RowStatus>(rows.size()),
                   .logprobs = {}};
  const SampleArgs args = {.logits = logits.view(),
                           .samples = samples,
                           .logits_rows = rows,
                           .tokens = output.tokens,
                           .status = output.status,
                           .logprobs = &output.logprobs};
  const SampleLayout layout(CapacityFor(rows.size(), logits.vocab()));
  Block inputs(layout.max_input_bytes()), outputs(layout.max_output_bytes());
  std::vector<float> originals(static_cast<size_t>(layout.capacity().patches));
  SamplePlan plan(layout.capacity(), inputs.data(), outputs.data());
  Best best(logits, static_cast<size_t>(logits.view().rows));
  for (size_t begin = 0; begin < rows.size();) {
    const size_t end = plan.Pack(args, begin, {.which = 0});
    EXPECT_LE(plan.input_bytes(), layout.max_input_bytes());
    const typename Sample<Shape>::Args device = {.logits = logits.data(),
                                                 .vocab_size = static_cast<int32_t>(logits.vocab()),
                                                 .samples = SamplesOf(inputs),
                                                 .best_logits = has_best ? best.logits() : nullptr,
                                                 .best_tokens = has_best ? best.tokens() : nullptr,
                                                 .originals = originals.data(),
                                                 .sampled = sampled.data(),
                                                 .outputs = layout.OutputsAt(outputs.data())};
    const auto report = emulator::Run<Sample<Shape>>({.num_blocks = 3, .seed = seed}, device);
    EXPECT_EQ(report.fault, "");
    plan.Unpack(args, begin, end);
    begin = end;
  }
  for (size_t i = 0; i < output.tokens.size(); ++i) {
    const int32_t index = SampledIndex(static_cast<int64_t>(i), 0);
    expected_sampled[static_cast<size_t>(index)] = output.tokens[i];
  }
  EXPECT_EQ(sampled, expected_sampled);
  return output;
}

Output DefinedSample(const Rows& logits, const std::vector<Request>& requests) {
  Output output;
  for (const Request& request : requests) {
    const std::vector<float>& row = logits[static_cast<size_t>(request.logits_row)];
    const auto sampled =
        reference::SampleToken(request.sample(0), request.pending.value_or(-1), row);
    output.tokens.push_back(sampled.token);
    output.status.push_back(sampled.status);
    if (request.params.num_logprobs < 0) continue;
    reference::AppendLogprobs(row, sampled.token, request.params.num_logprobs, output.logprobs);
  }
  return output;
}

std::string TextOf(const std::vector<TokenLogprob>& list) {
  std::string text;
  for (const TokenLogprob& entry : list) {
    text += fmt::format("{}:{:08x} ", entry.token, std::bit_cast<uint32_t>(entry.logprob));
  }
  return text;
}

void ExpectEqual(const Logprobs& got, const Logprobs& expected) {
  EXPECT_EQ(TextOf(got.chosen), TextOf(expected.chosen));
  EXPECT_EQ(got.rank, expected.rank);
  EXPECT_EQ(got.top_begin, expected.top_begin);
  EXPECT_EQ(TextOf(got.top), TextOf(expected.top));
}

template <class Shape>
void ExpectAsDefined(Rows& logits, const std::vector<Request>& requests, uint64_t seed = 1) {
  const Output expected = DefinedSample(logits, requests);
  const bool has_greedy = std::ranges::any_of(
      requests, [](const Request& request) { return request.params.temperature <= 0; });
  for (const bool has_best : {false, true}) {
    if (has_best && !has_greedy) break;
    SCOPED_TRACE(has_best ? "with the largest logit of each unit" : "");
    const Output got = SampleOnDevice<Shape>(logits, requests, seed, has_best);
    EXPECT_EQ(got.tokens, expected.tokens);
    EXPECT_EQ(got.status, expected.status);
    ExpectEqual(got.logprobs, expected.logprobs);
    EXPECT_TRUE(logits.AreUntouched());
  }
}

// Generates random rows of logits and random requests of every kind.
class Numbers {
 public:
  explicit Numbers(uint32_t seed) : engine_(seed) {}
  int32_t Below(int64_t end) {
    return static_cast<int32_t>(engine_() % static_cast<uint64_t>(end));
  }
  float Uniform(float low, float high) {
    return low + (high - low) * static_cast<float>(engine_() % 100003) / 100003.0f;
  }
  float Pick(std::initializer_list<float> values) {
    return values.begin()[Below(std::ssize(values))];
  }

  std::vector<float> Logits(size_t vocab) {
    const int32_t kind = Below(7);
    const float scale = Pick({0.01f, 3, 10, 40, 1e30f});
    std::vector<float> logits(vocab);
    for (float& logit : logits) {
      logit = Uniform(-scale, scale);
      if (kind == 0) logit = std::round(logit);  // many equal logits, and zeros of both signs
      if (kind == 1 && Below(3) == 0) logit = -kInfinity;
      if (kind == 2) logit = scale;  // all equal
      if (kind == 3) logit = logit * logit * logit / (scale * scale);
    }
    if (kind == 4) logits[Below(std::ssize(logits))] = Pick({kNaN, -kNaN, kInfinity, -kInfinity});
    if (kind == 5) std::ranges::fill(logits, Pick({-kInfinity, -kLargest, kLargest, -0.0f}));
    logits[Below(std::ssize(logits))] += Pick({0, scale, 20});
    return logits;
  }

  Request Rules(size_t vocab) {
    const auto end = static_cast<int64_t>(vocab);
    Request request;
    SamplingParams& params = request.params;
    params.temperature = Pick({0, 0.1f, 0.7f, 1, 1, 5, 1e-30f, 1e30f});
    params.top_p = Pick({1, 1, 0.999f, 0.9f, 0.5f, 0.01f, 1e-30f});
    params.top_k = static_cast<int32_t>(Pick({0, 0, 1, 5, 40, 700, 1e6f}));
    if (Below(4) == 0) params.top_k = 1 + Below(end);
    params.min_p = Pick({0, 0, 0.05f, 0.5f, 1e-6f, 0.9999f});
    params.num_logprobs = static_cast<int32_t>(Pick({-1, -1, 0, 3, 20, 100}));
    params.seed = engine_();
    request.choice = Below(3);
    request.position = Below(5000);
    if (Below(2) == 0) AddPatches(request, end);
    return request;
  }

 private:
  void AddPatches(Request& request, int64_t vocab) {
    SamplingParams& params = request.params;
    params.repetition_penalty = Pick({1, 1.1f, 0.5f, 1e-30f});
    params.presence_penalty = Pick({0, 0.5f, -2});
    params.frequency_penalty = Pick({0, 0.3f, -1});
    for (int64_t token = Below(9); token <= vocab; token += 1 + Below(vocab)) {
      const auto id = static_cast<TokenId>(token);
      request.counts.push_back({.token = id, .in_prompt = Below(3), .in_output = Below(3)});
      if (Below(3) == 0) params.logit_bias.push_back({.token = id, .bias = Pick({-100, 5, 0.1f})});
    }
    for (int32_t i = Below(3); i > 0; --i) request.banned.push_back(Below(vocab));
    AddPending(request, vocab);
    if (Below(8) > 0 || vocab > 1000) return;
    request.banned.clear();  // bans that include every token have no effect
    for (TokenId token = 0; token < vocab + 3; ++token) request.banned.push_back(token % 9973);
  }

  // Adds a pending token: any token, or a token that has a count, a bias or a ban.
  void AddPending(Request& request, int64_t vocab) {
    const int32_t kind = Below(6);
    if (kind == 0) request.pending = -1;
    if (kind == 1) request.pending = Below(vocab);
    if (kind == 2 && !request.banned.empty()) request.pending = request.banned.front();
    if (kind >= 3 && !request.counts.empty()) {
      const auto index = static_cast<size_t>(Below(std::ssize(request.counts)));
      request.pending = static_cast<TokenId>(request.counts[index].token % vocab);
    }
  }

  std::mt19937 engine_;
};

template <class Shape>
void SampleRandomRows(uint32_t seed, size_t vocab, int32_t num_rows, int32_t num_samples) {
  SCOPED_TRACE(fmt::format("seed {}, vocabulary {}", seed, vocab));
  Numbers numbers(seed);
  std::vector<std::vector<float>> logits;
  for (int32_t i = 0; i < num_rows; ++i) logits.push_back(numbers.Logits(vocab));
  Rows rows(std::move(logits));
  std::vector<Request> requests;
  for (int32_t i = 0; i < num_samples; ++i) {
    requests.push_back(numbers.Rules(vocab));
    requests.back().logits_row = numbers.Below(num_rows);
  }
  ExpectAsDefined<Shape>(rows, requests, seed);
}

TEST(SampleKernelTest, SamplesTheTokensOfTheDefinitionFromSmallVocabularies) {
  uint32_t seed = 1;
  for (const size_t vocab : {1, 2, 3, 5, 7, 64, 129}) {
    for (int i = 0; i < 6; ++i) SampleRandomRows<NarrowShape>(seed++, vocab, 5, 20);
  }
}

TEST(SampleKernelTest, SamplesTheTokensOfTheDefinitionFromAThousandTokens) {
  for (uint32_t seed = 100; seed < 110; ++seed) SampleRandomRows<NarrowShape>(seed, 1001, 6, 20);
  for (uint32_t seed = 110; seed < 113; ++seed) SampleRandomRows<SampleShape>(seed, 1000, 6, 20);
}

TEST(SampleKernelTest, SamplesTheTokensOfTheDefinitionFromWholeVocabularies) {
  for (uint32_t seed = 200; seed < 206; ++seed) SampleRandomRows<NarrowShape>(seed, 32000, 2, 8);
  SampleRandomRows<SampleShape>(300, 32003, 2, 6);
  SampleRandomRows<SampleShape>(301, 151936, 1, 3);
}

TEST(SampleKernelTest, SelectsOverTheRowWhatDoesNotFitTheList) {
  // Row 0 has 10,000 equal logits. Row 1 has 10,000 logits that differ by less than 0.01.
  std::vector<std::vector<float>> logits(2, std::vector<float>(10000, 1.5f));
  for (size_t v = 0; v < 10000; ++v) {
    logits[1][v] = 8 + 1e-6f * static_cast<float>(v * 7919 % 10000);
  }
  Rows rows(logits);
  std::vector<Request> requests;
  for (const int32_t row : {0, 1}) {
    for (const int32_t top_k : {0, 3, 40, 5000}) {
      for (const float top_p : {1.0f, 0.7f, 0.01f}) {
        Request request = {.logits_row = row, .position = std::ssize(requests)};
        request.params.top_k = top_k;
        request.params.top_p = top_p;
        request.params.num_logprobs = top_p == 1 ? 200 : -1;
        requests.push_back(request);
      }
    }
  }
  ExpectAsDefined<NarrowShape>(rows, requests);
}

TEST(SampleKernelTest, FindsTheLargestWhereOneThreadSeesThemAll) {
  // There are 64 threads, and each reads four tokens at a time. Thread 0 therefore reads the first
  // four tokens of every 256 tokens.
  std::vector<float> logits(40000);
  for (size_t v = 0; v < logits.size(); ++v) {
    logits[v] = v % 256 < 4 ? 5 + 0.001f * static_cast<float>(v % 1000) : -3;
  }
  Rows rows({logits});
  std::vector<Request> requests;
  for (const int32_t top_k : {1, 2, 30, 64, 65, 600}) {
    Request request = {.position = top_k};
    request.params.top_k = top_k;
    request.params.num_logprobs = top_k;
    requests.push_back(request);
  }
  ExpectAsDefined<NarrowShape>(rows, requests);
}

TEST(SampleKernelTest, TheGreatestOfUnitsIsTheGreatestOfTheRow) {
  const auto greedy = [](int32_t row, float bias = 0) {
    Request request = {.logits_row = row};
    request.params.temperature = 0;
    if (bias != 0) request.params.logit_bias = {{.token = 3, .bias = bias}};
    return request;
  };
  std::vector<std::vector<float>> rows(7, std::vector<float>(2500, -2));
  rows[0][2499] = rows[0][16] = rows[0][17] = 1;  // among equal logits, the lowest token is sampled
  rows[1][0] = -0.0f, rows[1][900] = 0.0f;
  for (float& logit : rows[1]) logit = std::min(logit, 0.0f);
  rows[2][31] = kNaN, rows[2][30] = 8;
  rows[3][2498] = kInfinity;
  std::ranges::fill(rows[4], -kInfinity);
  rows[5] = rows[4];
  rows[5][1234] = -kLargest;
  std::vector<Request> requests;
  for (int32_t row = 0; row < 7; ++row) requests.push_back(greedy(row));
  requests.push_back(greedy(0, 100));  // a row with a bias is read completely
  Rows logits(rows);
  ExpectAsDefined<SampleShape>(logits, requests);
}

TEST(SampleKernelTest, EveryChoiceOfARequestSamplesFromTheSameRow) {
  Numbers numbers(7);
  Rows rows({numbers.Logits(500), numbers.Logits(500)});
  std::vector<Request> requests;
  for (int32_t choice = 0; choice < 12; ++choice) {
    requests.push_back({.logits_row = 1 - choice % 2, .choice = choice});
    if (choice % 3 == 0) requests.back().banned = {choice, choice + 1};
  }
  ExpectAsDefined<NarrowShape>(rows, requests);
}

TEST(SampleKernelTest, RowsThatDoNotFitTheCapacityComeInAnotherRound) {
  Rows rows({Numbers(3).Logits(300)});
  std::vector<Request> requests;
  for (int32_t i = 0; i < 9; ++i) {
    Request request = {.position = i};
    request.params.repetition_penalty = 1.2f;
    request.params.num_logprobs = 90;
    for (TokenId token = 0; token < 140; ++token) {
      request.counts.push_back({.token = token * 2, .in_prompt = 1});
    }
    requests.push_back(request);
  }
  ExpectAsDefined<NarrowShape>(rows, requests);
}

TEST(SampleKernelTest, ScoresKnownTokensAsTheDefinitionDoes) {
  Numbers numbers(5);
  for (const size_t vocab : {1, 6, 333, 5000}) {
    std::vector<std::vector<float>> logits;
    for (int i = 0; i < 8; ++i) logits.push_back(numbers.Logits(vocab));
    logits.push_back(std::vector<float>(vocab, kNaN));
    Rows rows(logits);
    std::vector<StepScore> asked;
    std::vector<int32_t> asked_rows;
    Logprobs got, expected;
    std::vector<RowStatus> expected_status;
    for (int32_t i = 0; i < 20; ++i) {
      const int32_t row = asked_rows.emplace_back(numbers.Below(9));
      asked.push_back({.target = numbers.Below(static_cast<int64_t>(vocab)),
                       .num_top = numbers.Below(2) == 0 ? 0 : numbers.Below(70)});
      expected_status.push_back(reference::AppendLogprobs(
          rows[static_cast<size_t>(row)], asked.back().target, asked.back().num_top, expected));
    }
    std::vector<RowStatus> status(asked.size());
    const ScoreArgs args = {.logits = rows.view(),
                            .scores = asked,
                            .logits_rows = asked_rows,
                            .status = status,
                            .logprobs = &got};
    const SampleLayout layout(CapacityFor(7, vocab));
    Block inputs(layout.max_input_bytes()), outputs(layout.max_output_bytes());
    SamplePlan plan(layout.capacity(), inputs.data(), outputs.data());
    for (size_t begin = 0; begin < asked.size();) {
      const size_t end = plan.Pack(args, begin);
      const Score<NarrowShape>::Args device = {.logits = rows.data(),
                                               .vocab_size = static_cast<int32_t>(vocab),
                                               .inputs = layout.ScoresAt(inputs.data()),
                                               .outputs = layout.OutputsAt(outputs.data())};
      EXPECT_EQ(emulator::Run<Score<NarrowShape>>({.num_blocks = 2}, device).fault, "");
      plan.Unpack(args, begin, end);
      begin = end;
    }
    EXPECT_EQ(status, expected_status);
    ExpectEqual(got, expected);
  }
}

TEST(SampleKernelTest, ExponentialsAndMassesHaveTheBitsOfTheHost) {
  uint32_t different = 0;
  for (int i = 0; i <= 2000000; ++i) {
    const float x = -static_cast<float>(i) * 3.3e-5f;
    const float weight = SampleExp(x);
    different += std::bit_cast<uint32_t>(weight) != std::bit_cast<uint32_t>(SamplingExp(x));
    different += SampleMass(weight) != MassOf(weight);
  }
  EXPECT_EQ(different, 0u);
  for (const float logit : {-kInfinity, -kLargest, -1.0f, -1e-40f, 0.0f, 1e-40f, 3.0f, kLargest}) {
    EXPECT_EQ(LogitOf(OrderOf(logit, 77)), logit);
    EXPECT_EQ(TokenOf(OrderOf(logit, 77)), 77);
    EXPECT_EQ(~static_cast<uint32_t>(OrderOf(logit, 77) >> kVocabBitsMax), OrderKey(logit));
  }
  EXPECT_EQ(OrderOf(-0.0f, 1), OrderOf(0.0f, 1));
}

}  // namespace
}  // namespace incipit::cuda
