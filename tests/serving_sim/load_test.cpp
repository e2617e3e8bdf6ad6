// Tests the device models and the loads of the simulation with time.
#include "tests/serving_sim/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <set>
#include <string>

#include "tests/support/temp_path.h"

namespace incipit::serving_sim {
namespace {

constexpr DeviceModel kLoadDevice = {.name = "test",
                                     .step_s = 1,
                                     .prompt_token_s = 0.01,
                                     .decoding_s = 0.1,
                                     .position_s = 0.001,
                                     .tokens_per_read = 4,
                                     .step_tokens_max = 32,
                                     .running_max = 4,
                                     .num_blocks = 100,
                                     .horizon_s = 500};

Load LoadOf(std::vector<SimRequest> requests) {
  Load load;
  load.requests = std::move(requests);
  MeasureLoad(kLoadDevice, load);
  return load;
}

SimRequest RequestOf(uint64_t text, int32_t num_prompt, int32_t num_output) {
  SimRequest request;
  for (int32_t i = 0; i < num_prompt; ++i) request.prompt.push_back(TextToken(text, i));
  request.output_tokens = num_output;
  request.output_text = text + 1000;
  return request;
}

Load Made(LoadKind kind, double utilization, uint64_t seed = 1) {
  auto load = MakeLoad(kLoadDevice, {.kind = kind, .utilization = utilization, .seed = seed});
  EXPECT_TRUE(load.ok());
  return *std::move(load);
}

TEST(DeviceModelTest, GroupsOfTokensReadThePositionsUpToTheirLastToken) {
  DeviceModel device = kLoadDevice;
  for (const int32_t size : {1, 4, 7}) {
    device.tokens_per_read = size;
    for (const int32_t num_tokens : {1, 4, 6, 8, 21}) {
      double expected = 0;
      for (int32_t begin = 0; begin < num_tokens; begin += size) {
        expected += 10 + std::min(begin + size, num_tokens);
      }
      EXPECT_EQ(ChunkPositions(device, 10, num_tokens), expected) << size << ' ' << num_tokens;
    }
  }
}

TEST(DeviceModelTest, AStepIsTheSumOfItsParts) {
  EXPECT_DOUBLE_EQ(StepSeconds(kLoadDevice, {.prompt_tokens = 3, .decoding = 2, .positions = 10}),
                   1.24);
  EXPECT_DOUBLE_EQ(DecodeSeconds(kLoadDevice, 2, 30), 1.23);
}

// 40 tokens need steps of 32 and 8 tokens. With 16 tokens in the cache, one step is enough.
TEST(DeviceModelTest, APromptAloneIsComputedInFullSteps) {
  const double chunks = 2 + 0.4 + 0.001 * (4 + 8 + 12 + 16 + 20 + 24 + 28 + 32 + 36 + 40);
  EXPECT_NEAR(AloneSeconds(kLoadDevice, 40), chunks, 1e-9);
  EXPECT_NEAR(AloneSeconds(kLoadDevice, 40, 16), 1 + 0.24 + 0.001 * (20 + 24 + 28 + 32 + 36 + 40),
              1e-9);
}

// One request: 16 prompt tokens in one step, and 2 further output tokens in one step each.
// running_max is 4, so a full step that only decodes serves 4 requests.
TEST(MeasureLoadTest, TheCapacityIsTheInverseOfTheMeanCost) {
  const double tokens = 0.16 + 0.001 * (4 + 8 + 12 + 16) + 0.2 + 0.001 * (17 + 18);
  const double steps = 18.0 / 32;  // 18 tokens in steps of 32 tokens
  const Load load = LoadOf({RequestOf(1, 16, 3)});
  EXPECT_NEAR(load.capacity, 1 / (tokens + steps), 1e-9);
  // Three steps, each with a constant time of 1 s.
  EXPECT_NEAR(load.makespan_min, tokens + 3, 1e-9);
}

TEST(MeasureLoadTest, CachedBlocksOfPromptsAndOutputsAreNotComputedAgain) {
  SimRequest second = RequestOf(1, 40, 9);
  EXPECT_EQ(LoadOf({RequestOf(1, 40, 9), second}).distinct_prompt_tokens, 40 + 8);
  // The second prompt is the first prompt followed by its output. Of these 49 tokens, 48 are in
  // full blocks, so only one token must be computed again.
  for (int32_t i = 0; i < 9; ++i) second.prompt.push_back(TextToken(1001, i));
  EXPECT_EQ(LoadOf({RequestOf(1, 40, 9), second}).distinct_prompt_tokens, 40 + 1);
  // At least one token is computed.
  EXPECT_EQ(LoadOf({RequestOf(1, 32, 2), RequestOf(1, 32, 2)}).distinct_prompt_tokens, 32 + 16);
}

TEST(MakeLoadTest, EqualSeedsMakeEqualLoads) {
  for (const auto& [kind, name] : kLoadNames) {
    if (kind == LoadKind::kMooncake) continue;
    const Load a = Made(kind, 0.5), b = Made(kind, 0.5), c = Made(kind, 0.5, 2);
    ASSERT_EQ(a.requests.size(), b.requests.size()) << name;
    EXPECT_EQ(a.requests[7].arrival, b.requests[7].arrival) << name;
    EXPECT_EQ(a.requests[7].prompt, b.requests[7].prompt) << name;
    EXPECT_NE(a.requests[7].arrival, c.requests[7].arrival) << name;
    EXPECT_NE(a.requests[7].prompt, c.requests[7].prompt) << name;
  }
}

TEST(MakeLoadTest, RequestsArriveInOrderAtTheRate) {
  for (const auto& [kind, name] : kLoadNames) {
    if (kind == LoadKind::kMooncake) continue;
    const Load load = Made(kind, 0.5);
    EXPECT_TRUE(std::ranges::is_sorted(load.requests, {}, &SimRequest::arrival)) << name;
    const double rate = static_cast<double>(load.requests.size()) / load.requests.back().arrival;
    const double expected = kind == LoadKind::kOverload ? 1.5 : 0.5;
    EXPECT_NEAR(rate / load.capacity, expected, 0.15 * expected) << name;
  }
}

TEST(MakeLoadTest, BurstsHaveAHigherRate) {
  const Load load = Made(LoadKind::kBursty, 0.5);
  // The horizon has ten periods. Six of ten requests arrive in the first fifth of a period.
  const double period = kLoadDevice.horizon_s / 10;
  const auto in_burst = std::ranges::count_if(load.requests, [&](const SimRequest& request) {
    return std::fmod(request.arrival, period) < 0.2 * period;
  });
  EXPECT_NEAR(double(in_burst) / static_cast<double>(load.requests.size()), 0.6, 0.1);
}

TEST(MakeLoadTest, TheHeavyTenantSendsAllItsRequestsAtOnce) {
  const Load load = Made(LoadKind::kHeavyBurst, 0.5);
  std::set<double> times;
  std::set<uint64_t> light;
  size_t num_heavy = 0;
  for (const SimRequest& request : load.requests) {
    EXPECT_EQ(request.is_focus, request.tenant != 1);
    if (request.tenant != 1) light.insert(request.tenant);
    if (request.tenant != 1) continue;
    times.insert(request.arrival);
    ++num_heavy;
  }
  EXPECT_EQ(num_heavy, kHeavyBurstRequests);
  EXPECT_EQ(times.size(), 1u);
  EXPECT_EQ(light.size(), 9u);
}

TEST(MakeLoadTest, DeadlinesAreLaterThanArrivals) {
  for (const SimRequest& request : Made(LoadKind::kDeadline, 0.5).requests) {
    const double alone = AloneSeconds(kLoadDevice, request.num_prompt());
    EXPECT_NEAR((request.ttft_deadline - request.arrival) / alone, request.is_focus ? 4 : 100,
                1e-6);
  }
}

TEST(MakeLoadTest, AllTimeoutsAreEqual) {
  for (const SimRequest& request : Made(LoadKind::kTimeout, 0.5).requests) {
    EXPECT_NEAR(request.ttft_deadline - request.arrival, 10 * AloneSeconds(kLoadDevice, 1024),
                1e-6);
  }
}

TEST(MakeLoadTest, ATurnBeginsWithThePreviousPromptAndOutput) {
  std::vector<SimRequest> requests;
  AddRequests(kLoadDevice, LoadKind::kMultiTurn, 8, 1, requests);
  for (size_t i = 1; i < requests.size(); ++i) {
    std::vector<TokenId> expected = requests[i - 1].prompt;
    for (int32_t k = 0; k < requests[i - 1].output_tokens; ++k) {
      expected.push_back(TextToken(requests[i - 1].output_text, k));
    }
    const bool continues =
        requests[i].prompt.size() > expected.size() &&
        std::ranges::equal(std::span(requests[i].prompt).first(expected.size()), expected);
    EXPECT_EQ(continues, i % kConversationTurns != 0) << i;
  }
}

TEST(ReadMooncakeTest, HashIdsBecomeSharedTokens) {
  const std::string path = TempPath("serving_sim_trace.jsonl");
  std::ofstream(path)
      << R"({"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}
{"timestamp": 1500, "input_length": 1000, "output_length": 6, "hash_ids": [1, 3]}
{"timestamp": 1600, "input_length": 90000, "output_length": 6, "hash_ids": [4]}
)";
  const auto requests = ReadMooncake(path, 10, 100'000, kMooncakeBlockTokens);
  ASSERT_TRUE(requests.ok());
  ASSERT_EQ(requests->size(), 3u);
  const SimRequest& first = (*requests)[0];
  const SimRequest& second = (*requests)[1];
  EXPECT_EQ(first.num_prompt(), 600);
  EXPECT_EQ(second.num_prompt(), 1000);
  EXPECT_EQ(second.arrival, 1.5);
  EXPECT_EQ(second.output_tokens, 6);
  const auto [a, b] = std::ranges::mismatch(first.prompt, second.prompt);
  EXPECT_EQ(a - first.prompt.begin(), 512);
  std::remove(path.c_str());
}

// Each hash id of the log stands for 512 tokens. With 32 tokens, all lengths are a sixteenth.
TEST(ReadMooncakeTest, OneFactorScalesAllLengths) {
  const std::string path = TempPath("serving_sim_scaled.jsonl");
  std::ofstream(path)
      << R"({"timestamp": 0, "input_length": 600, "output_length": 160, "hash_ids": [1, 2]}
{"timestamp": 500, "input_length": 4097, "output_length": 1, "hash_ids": [1, 3, 4, 5, 6, 7, 8, 9, 10]}
{"timestamp": 600, "input_length": 900, "output_length": 4000, "hash_ids": [1, 3]}
)";
  const auto requests = ReadMooncake(path, 10, 300, 32);
  ASSERT_TRUE(requests.ok());
  ASSERT_EQ(requests->size(), 2u);  // the third request has more than 300 tokens
  const SimRequest& first = (*requests)[0];
  const SimRequest& second = (*requests)[1];
  EXPECT_EQ(first.num_prompt(), 38);
  EXPECT_EQ(first.output_tokens, 10);
  EXPECT_TRUE(first.is_focus);
  EXPECT_EQ(second.num_prompt(), 257);
  EXPECT_EQ(second.output_tokens, 1);
  EXPECT_FALSE(second.is_focus);
  EXPECT_EQ(std::ranges::mismatch(first.prompt, second.prompt).in1 - first.prompt.begin(), 32);
  std::remove(path.c_str());
}

TEST(MakeLoadTest, TheTimesOfTheLogAreScaledToTheUtilization) {
  const std::string path = TempPath("serving_sim_times.jsonl");
  std::ofstream(path)
      << R"({"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}
{"timestamp": 1000, "input_length": 600, "output_length": 5, "hash_ids": [1, 3]}
{"timestamp": 4000, "input_length": 600, "output_length": 5, "hash_ids": [1, 4]}
)";
  for (const double utilization : {0.5, 0.95}) {
    const auto load = MakeLoad(kLoadDevice, {.kind = LoadKind::kMooncake,
                                             .utilization = utilization,
                                             .trace = path,
                                             .trace_hash_id_tokens = 64});
    ASSERT_TRUE(load.ok());
    const double last = load->requests[2].arrival;
    EXPECT_NEAR(3 / last, utilization * load->capacity, 1e-9);
    EXPECT_NEAR(load->requests[1].arrival, last / 4, 1e-9);
  }
  std::remove(path.c_str());
}

TEST(ReadMooncakeTest, AWrongLineIsAnError) {
  const std::string path = TempPath("serving_sim_wrong.jsonl");
  std::ofstream(path) << R"({"timestamp": 0, "input_length": 5, "hash_ids": "1"})";
  EXPECT_FALSE(ReadMooncake(path, 10, 1000, kMooncakeBlockTokens).ok());
  EXPECT_FALSE(ReadMooncake(path + ".missing", 10, 1000, kMooncakeBlockTokens).ok());
  std::remove(path.c_str());
}

}  // namespace
}  // namespace incipit::serving_sim
