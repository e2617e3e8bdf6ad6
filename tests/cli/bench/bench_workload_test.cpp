// Tests the workloads and logs of `incipit bench` against a server that caches prompts in memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "cli/bench/bench.h"
#include "cli/bench/bench_load.h"
#include "cli/bench/implied_cache.h"
#include "cli/bench/workload.h"
#include "cli/commands.h"
#include "tests/cli/client/scripted_server.h"
#include "tests/cli/command_run.h"

namespace incipit {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint32_t kBlockSize = 16;

v1::GetLoadResponse LoadWith(uint64_t evicted, uint64_t regret) {
  v1::GetLoadResponse load;
  load.set_block_size(kBlockSize);
  load.set_evicted_blocks_total(evicted);
  load.set_regret_blocks_total(regret);
  return load;
}

class BenchWorkloadTest : public CommandTest {
 protected:
  using Tokens = std::vector<uint32_t>;

  BenchWorkloadTest() {
    server_.loads = {LoadWith(100, 10), LoadWith(107, 12)};
    server_.generate = [this](const v1::GenerateRequest& request, grpc::ServerContext*,
                              ScriptedServer::Stream* stream) { return Reply(request, *stream); };
  }

  // Runs `incipit bench` with --json and returns the JSON object.
  nlohmann::json Json(std::vector<std::string> args) {
    args.push_back("--json");
    EXPECT_EQ(RunCommand(std::move(args)), kExitOk) << err();
    return nlohmann::json::parse(OutLines().at(0));
  }
  int RunCommand(std::vector<std::string> args) {
    args.insert(args.end(), {"--address", server_.address(), "--seed", "5"});
    return Run(RunBench, args, "");
  }

  std::vector<Tokens> prompts() {
    const MutexLock lock(mutex_);
    return prompts_;
  }

  ScriptedServer server_;
  size_t num_failures_ = 0;  // number of requests that fail after the first request

 private:
  grpc::Status Reply(const v1::GenerateRequest& request, ScriptedServer::Stream& stream) {
    const auto& ids = request.token_ids().ids();
    Tokens tokens(ids.begin(), ids.end());
    const uint32_t num_output = request.output().max_tokens();
    uint32_t num_cached = 0;
    {
      const MutexLock lock(mutex_);
      prompts_.push_back(tokens);
      if (prompts_.size() > 1 && prompts_.size() <= 1 + num_failures_) {
        return {grpc::StatusCode::RESOURCE_EXHAUSTED, "full"};
      }
      num_cached = static_cast<uint32_t>(cache_.NumCached(tokens));
      cache_.Add(tokens);
      for (uint32_t i = 0; i + 1 < num_output; ++i) tokens.push_back(OutputToken(i));
      cache_.Add(tokens);
    }
    for (uint32_t i = 0; i < num_output; ++i) stream.Write(Piece("x", {OutputToken(i)}));
    stream.Write(LastPiece(static_cast<uint32_t>(ids.size()), num_cached, num_output));
    return grpc::Status::OK;
  }
  static uint32_t OutputToken(uint32_t i) { return 3 + i % 5; }

  Mutex mutex_;
  std::vector<Tokens> prompts_ ABSL_GUARDED_BY(mutex_);
  ImpliedCache cache_ ABSL_GUARDED_BY(mutex_){kBlockSize};
};

TEST_F(BenchWorkloadTest, EveryWorkloadHasTheHitRatioThatItImplies) {
  for (const Workload& workload : Workloads()) {
    const auto json = Json({"--workload", std::string(workload.name), "--requests", "60"});
    EXPECT_EQ(json["workload"], workload.name);
    EXPECT_EQ(json["requests"], 60);
    EXPECT_EQ(json["errors"], 0);
    EXPECT_LT(json["length_scale"], 1 + 1e-9) << "the context has 1,024 tokens";
    EXPECT_NEAR(json["hit_ratio"], json["implied_hit_ratio"], 0.02) << workload.name;
    const double ratio =
        static_cast<double>(json["cached_tokens"]) / static_cast<double>(json["prompt_tokens"]);
    EXPECT_NEAR(json["hit_ratio"], ratio, 1e-4);
  }
}

TEST_F(BenchWorkloadTest, TheNextTurnContainsTheOutputOfThePreviousOne) {
  Json({"--workload", "multi-turn", "--requests", "20", "--concurrency", "1"});
  const std::vector<Tokens> sent = prompts();
  ASSERT_EQ(sent.size(), 20u);
  size_t num_continued = 0;
  for (size_t i = 1; i < sent.size(); ++i) {
    Tokens history = sent[i - 1];
    // 1,024 / 4,224 of 128 output tokens.
    for (uint32_t j = 0; j < 31; ++j) history.push_back(3 + j % 5);
    num_continued += sent[i].size() > history.size() &&
                     std::equal(history.begin(), history.end(), sent[i].begin());
  }
  EXPECT_EQ(num_continued, 18u) << "two conversations of 10 turns";
}

TEST_F(BenchWorkloadTest, AFailedRequestEndsItsConversation) {
  num_failures_ = 1;
  const auto json = Json({"--workload", "agent", "--requests", "4", "--concurrency", "1"});
  EXPECT_EQ(json["errors"], 1);
  EXPECT_NEAR(json["hit_ratio"], json["implied_hit_ratio"], 0.02);
  const std::vector<Tokens> sent = prompts();
  EXPECT_GT(sent[1].size(), sent[0].size());
  EXPECT_LT(sent[2].size(), sent[1].size()) << "a new conversation";
  EXPECT_GT(sent[3].size(), sent[2].size());
}

TEST_F(BenchWorkloadTest, FlagsChangeLengthsAndTurns) {
  Json({"--workload", "agent", "--requests", "3", "--concurrency", "1", "--length-scale", "0.1",
        "--turns", "2"});
  const std::vector<Tokens> sent = prompts();
  EXPECT_LE(sent[0].size(), 150u + 35u);
  EXPECT_GT(sent[1].size(), sent[0].size());
  EXPECT_LE(sent[2].size(), 150u + 35u) << "a new conversation";
}

TEST_F(BenchWorkloadTest, AnOpenLoopTakesTurnsBetweenEightConversations) {
  // The server replies immediately, so every user is idle at each arrival.
  Json({"--workload", "agent", "--requests", "24", "--rate", "100"});
  // 279 shared tokens and at least 9 other tokens, after the scaling to 1,024 tokens.
  std::map<Tokens, int> conversations;
  for (const Tokens& prompt : prompts()) {
    ++conversations[Tokens(prompt.begin(), prompt.begin() + 285)];
  }
  EXPECT_GE(conversations.size(), 8u);
  EXPECT_LE(conversations.size(), 12u) << "a slow reply adds a conversation";
}

TEST_F(BenchWorkloadTest, EvictionsAndRegretAreDifferencesOfTheServersCounters) {
  const auto json = Json({"--workload", "random", "--requests", "2"});
  EXPECT_EQ(json["evictions"], 7);
  EXPECT_EQ(json["regret"], 2);
}

TEST_F(BenchWorkloadTest, WithoutTheServersLoadTheRatiosOfTheCacheAreNull) {
  server_.loads.clear();
  const auto json = Json({"--requests", "2", "--prompt-tokens", "20"});
  EXPECT_TRUE(json["workload"].is_null());
  EXPECT_TRUE(json["implied_hit_ratio"].is_null());
  EXPECT_TRUE(json["evictions"].is_null());
  EXPECT_TRUE(json["hit_ratio"].is_number());
}

TEST_F(BenchWorkloadTest, TheTableNamesTheWorkloadAndBothRatios) {
  EXPECT_EQ(RunCommand({"--workload", "chatbot", "--requests", "4"}), kExitOk);
  std::string text;
  for (const std::string& line : OutLines()) text += line + "\n";
  EXPECT_THAT(text, AllOf(HasSubstr("workload chatbot, lengths multiplied by 1\n"),
                          HasSubstr("an empty cache without a size limit finds"),
                          HasSubstr("7 cached blocks evicted"), HasSubstr("to the first token")));
}

TEST_F(BenchWorkloadTest, AUserThinksBetweenItsRequests) {
  const auto json = Json(
      {"--workload", "chatbot", "--requests", "6", "--concurrency", "1", "--think-time", "40ms"});
  // Five exponential times with the mean 40 ms; with this seed, their sum is above 40 ms.
  EXPECT_GT(json["duration_s"], 0.04);
}

TEST_F(BenchWorkloadTest, ALogIsReplayedWithItsTimesAndMeasuredAgainstTargets) {
  WriteFile(
      "log.jsonl",
      "{\"timestamp\": 0, \"input_length\": 60, \"output_length\": 3, \"hash_ids\": [1, 2]}\n"
      "{\"timestamp\": 100, \"input_length\": 64, \"output_length\": 3, \"hash_ids\": [1, 3]}\n"
      "{\"timestamp\": 300, \"input_length\": 40, \"output_length\": 3, \"hash_ids\": [1, 2]}\n");
  const std::vector<std::string> args = {"--trace", folder() + "/log.jsonl", "--block-size", "32"};
  auto json = Json(args);
  EXPECT_EQ(json["workload"], "trace");
  EXPECT_EQ(json["requests"], 3);
  EXPECT_EQ(json["prompt_tokens"], 60 + 64 + 40);
  EXPECT_EQ(json["output_tokens"], 9);
  EXPECT_EQ(json["cached_tokens"], 32 + 39);
  EXPECT_EQ(json["implied_hit_ratio"], json["hit_ratio"]);
  EXPECT_GE(json["duration_s"], 0.3);
  EXPECT_EQ(json["requests_within_targets"], 3);
  EXPECT_EQ(json["ttft_target_ms"], 1000);
  EXPECT_NEAR(json["goodput_requests_per_s"], 3 / static_cast<double>(json["duration_s"]), 0.1);

  std::vector<std::string> strict = args;
  strict.insert(strict.end(), {"--ttft-target", "0", "--time-scale", "0.1", "--requests", "2"});
  json = Json(strict);
  EXPECT_EQ(json["requests"], 2);
  EXPECT_EQ(json["requests_within_targets"], 0);
  EXPECT_EQ(json["goodput_requests_per_s"], 0);
}

TEST_F(BenchWorkloadTest, WrongFlagsAndLogsAreNamed) {
  EXPECT_EQ(RunCommand({"--workload", "rga"}), kExitUsage);
  EXPECT_THAT(err(), AllOf(HasSubstr("rga"), HasSubstr("chatbot"), HasSubstr("long-document")));
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--workload", "rag", "--trace", "x"}, "exclude each other"},
      {{"--workload", "rag", "--prompt-tokens", "9"}, "--prompt-tokens has no effect"},
      {{"--turns", "2"}, "--turns has no effect without --workload"},
      {{"--length-scale", "2"}, "--length-scale has no effect"},
      {{"--trace", "x", "--length-scale", "2"}, "at most 1"},
      {{"--time-scale", "2"}, "--time-scale has no effect without --trace"},
      {{"--rate", "2", "--think-time", "1s"}, "--think-time has no effect in an open loop"}};
  for (const auto& [args, message] : cases) {
    EXPECT_EQ(RunCommand(args), kExitUsage) << message;
    EXPECT_THAT(err(), HasSubstr(message));
  }
  EXPECT_EQ(RunCommand({"--trace", folder() + "/none"}), kExitFailure);
  EXPECT_THAT(err(), HasSubstr("none"));
  WriteFile("log.jsonl", "{\"input_length\": 9, \"hash_ids\": [1]}\nx\n");
  EXPECT_EQ(RunCommand({"--trace", folder() + "/log.jsonl"}), kExitFailure);
  EXPECT_THAT(err(), HasSubstr("log.jsonl:2"));
}

// Think times and outputs reach the functions of the plan, in the order of each user's requests.
TEST_F(BenchWorkloadTest, AUsersRequestsNeverOverlap) {
  ClientOptions client;
  client.address = server_.address();
  const auto stub = v1::Inference::NewStub(OpenChannel(client));
  std::map<int32_t, int32_t> in_flight;  // number of requests in flight by user
  int32_t num_ends = 0;
  BenchPlan plan{.num_requests = 40, .num_users = 4, .arrivals = {}, .make_request = {}};
  plan.make_request = [&](int32_t, int32_t user) {
    EXPECT_EQ(++in_flight[user], 1);
    v1::GenerateRequest request;
    request.mutable_token_ids()->add_ids(5);
    request.mutable_output()->set_max_tokens(3);
    return request;
  };
  plan.on_end = [&](const BenchEnd& end) {
    EXPECT_EQ(--in_flight[end.user], 0);
    EXPECT_TRUE(end.succeeded);
    EXPECT_EQ(Tokens(end.output.begin(), end.output.end()), (Tokens{3, 4, 5}));
    ++num_ends;
  };
  plan.think_time = [](int32_t) { return 0.002; };
  const BenchResult result = BenchLoad(*stub, client, std::move(plan)).Run(nullptr);
  EXPECT_EQ(num_ends, 40);
  EXPECT_EQ(in_flight.size(), 4u);
  EXPECT_GE(result.seconds, 9 * 0.002) << "at least one user thinks nine times";
}

}  // namespace
}  // namespace incipit
