#include "cli/bench/bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/status.h"
#include "cli/bench/bench_load.h"
#include "cli/bench/bench_prompts.h"
#include "cli/bench/bench_report.h"
#include "cli/commands.h"
#include "tests/cli/client/scripted_server.h"
#include "tests/support/temp_path.h"

namespace incipit {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Lt;

TEST(OrdinaryTokensTest, LeavesOutExactlyTheSpecialOnes) {
  const std::set<uint32_t> special = {0, 1, 2, 700, 2047, 2048, 2999};
  int num_questions = 0;
  const auto has_special = [&](uint32_t begin, uint32_t end) -> absl::StatusOr<bool> {
    ++num_questions;
    const auto found = special.lower_bound(begin);
    return found != special.end() && *found < end;
  };
  const auto tokens = OrdinaryTokens(3000, has_special);
  ASSERT_TRUE(tokens.ok());
  std::vector<uint32_t> expected;
  for (uint32_t id = 0; id < 3000; ++id) {
    if (!special.contains(id)) expected.push_back(id);
  }
  EXPECT_EQ(*tokens, expected);
  EXPECT_LT(num_questions, 150);
}

TEST(OrdinaryTokensTest, AnErrorIsPassedOn) {
  const auto fails = [](uint32_t, uint32_t) -> absl::StatusOr<bool> { return Unavailable("gone"); };
  EXPECT_EQ(OrdinaryTokens(10, fails).status().code(), absl::StatusCode::kUnavailable);
}

TEST(BenchPromptsTest, PromptsShareTheirOpeningAndNothingElse) {
  std::vector<uint32_t> tokens;
  for (uint32_t id = 100; id < 1100; ++id) tokens.push_back(id);
  const BenchPrompts prompts(tokens, 7, 40, 25);
  const auto first = prompts.Make(0), second = prompts.Make(1);
  ASSERT_EQ(first.size(), 40u);
  EXPECT_THAT(first, Each(AllOf(Ge(100u), Lt(1100u))));
  EXPECT_TRUE(std::equal(first.begin(), first.begin() + 25, second.begin()));
  EXPECT_NE(first[25], second[25]);
  EXPECT_FALSE(std::equal(first.begin() + 25, first.end(), second.begin() + 25));
  EXPECT_EQ(BenchPrompts(tokens, 7, 40, 25).Make(1), second) << "a seed repeats";
  EXPECT_NE(BenchPrompts(tokens, 8, 40, 25).Make(1), second);
}

TEST(PoissonArrivalsTest, ComeAtTheRateWithExponentialGaps) {
  constexpr int32_t kNum = 20000;
  const auto arrivals = PoissonArrivals(3, kNum, 50);
  EXPECT_EQ(arrivals, PoissonArrivals(3, kNum, 50));
  EXPECT_EQ(arrivals[0], 0);
  EXPECT_TRUE(std::is_sorted(arrivals.begin(), arrivals.end()));
  double sum = 0, sum_squares = 0;
  for (size_t i = 1; i < arrivals.size(); ++i) {
    const double gap = arrivals[i] - arrivals[i - 1];
    sum += gap;
    sum_squares += gap * gap;
  }
  // Times between arrivals have an exponential distribution with the mean 1/50 s. The mean of their
  // squares is therefore twice the square of 1/50 s.
  EXPECT_NEAR(sum / kNum, 0.02, 0.0006);
  EXPECT_NEAR(sum_squares / kNum, 0.0008, 0.00006);
}

TEST(PercentilesTest, AreNearestRanksInMilliseconds) {
  std::vector<double> seconds;
  for (int i = 100; i >= 1; --i) seconds.push_back(i / 1000.0);
  const Percentiles percentiles = PercentilesOf(seconds);
  EXPECT_DOUBLE_EQ(percentiles.p50, 50);
  EXPECT_DOUBLE_EQ(percentiles.p90, 90);
  EXPECT_DOUBLE_EQ(percentiles.p99, 99);
  EXPECT_DOUBLE_EQ(percentiles.max, 100);
  EXPECT_DOUBLE_EQ(PercentilesOf({0.5}).p50, 500);
  EXPECT_DOUBLE_EQ(PercentilesOf({}).max, 0);
}

TEST(BenchSummaryTest, CountsErrorsApartFromTimes) {
  BenchResult result;
  result.seconds = 2;
  result.records = {{true, "", 0.1, 0.5, {0.2, 0.2}, 10, 4, 3, 0},
                    {true, "RESOURCE_EXHAUSTED: full", 0, 0.001, {}, 0, 0, 0, 0},
                    {true, "", 0.3, 0.3, {}, 10, 0, 1, 0}};
  const auto json = ToJson(Summarize(result));
  EXPECT_EQ(json["requests"], 3);
  EXPECT_EQ(json["errors"], 1);
  EXPECT_EQ(json["duration_s"], 2);
  EXPECT_EQ(json["prompt_tokens"], 20);
  EXPECT_EQ(json["cached_tokens"], 4);
  EXPECT_EQ(json["output_tokens"], 4);
  EXPECT_EQ(json["output_tokens_per_s"], 2);
  EXPECT_EQ(json["ttft_ms"]["max"], 300);
  EXPECT_EQ(json["itl_ms"]["p99"], 200);
  EXPECT_EQ(json["e2e_ms"]["p50"], 300);
  EXPECT_THAT(Describe(Summarize(result)), HasSubstr("1 x RESOURCE_EXHAUSTED: full"));
}

TEST(BenchSummaryTest, GoodputCountsTheRequestsThatMeetBothTargets) {
  BenchResult result;
  result.seconds = 2;
  std::vector<double> one_slow(200, 0.01), three_slow(200, 0.01);
  one_slow[7] = 5;
  std::fill_n(three_slow.begin(), 3, 5);
  result.records = {{true, "", 0.1, 2, one_slow, 10, 4, 201, 0},
                    {true, "", 0.1, 2, three_slow, 10, 4, 201, 0},
                    {true, "", 0.5, 2, {0.01}, 10, 4, 2, 0},
                    {true, "", 0.2, 2, {}, 10, 4, 1, 0},
                    {true, "UNAVAILABLE: gone", 0.1, 2, {}, 10, 4, 1, 0}};
  const auto json = ToJson(Summarize(result, {.first_token = 0.2, .inter_token = 0.02}));
  EXPECT_EQ(json["requests_within_targets"], 2);
  EXPECT_EQ(json["goodput_requests_per_s"], 1);
  EXPECT_EQ(json["ttft_target_ms"], 200);
  EXPECT_EQ(json["itl_target_ms"], 20);
}

TEST(BenchSummaryTest, ComparesTheHitRatioWithTheImpliedOne) {
  BenchResult result;
  result.records = {{true, "", 0.1, 2, {}, 80, 40, 1, 0, 48},
                    {true, "", 0.1, 2, {}, 20, 10, 1, 0, 12},
                    {true, "RESOURCE_EXHAUSTED: full", 0, 2, {}, 0, 0, 0, 0, 90}};
  BenchSummary summary = Summarize(result);
  EXPECT_EQ(ToJson(summary)["hit_ratio"], 0.5);
  EXPECT_EQ(ToJson(summary)["implied_hit_ratio"], 0.6) << "without the request that was refused";
  EXPECT_TRUE(ToJson(summary)["workload"].is_null());
  EXPECT_TRUE(ToJson(summary)["evictions"].is_null());
  summary.evictions = 3;
  EXPECT_EQ(ToJson(summary)["evictions"], 3);
}

// Three requests of two clients decode in the intervals [0.5 s, 2.5 s], [1 s, 2 s] and [3 s, 4 s].
// Both clients decode at the same time only from 1 s to 2 s.
TEST(BenchSummaryTest, FullLoadIsWhileAllAreDecoding) {
  BenchResult result;
  result.seconds = 4;
  result.concurrency = 2;
  result.records = {{true, "", 0.5, 2.5, {0.25, 0.5, 0.5, 0.75}, 1, 0, 5, 0},
                    {true, "", 0.5, 1.5, {0.25, 0.25, 0.5}, 1, 0, 4, 0.5},
                    {true, "RESOURCE_EXHAUSTED: full", 0, 0.001, {}, 0, 0, 0, 2},
                    {true, "", 0.5, 1.5, {1}, 1, 0, 2, 2.5}};
  const FullLoad full = FullLoadOf(result);
  EXPECT_DOUBLE_EQ(full.seconds, 1);
  // The first request's tokens arrive at 0.75 s, 1.25 s, 1.75 s and 2.5 s. Of the three intervals
  // between these times, the parts 1/2, 1 and 1/3 lie between 1 s and 2 s.
  EXPECT_NEAR(full.output_tokens_per_s, (0.5 + 1 + 1.0 / 3) + 3, 1e-9);
  EXPECT_EQ(ToJson(Summarize(result))["full_load_s"], 1);
  EXPECT_THAT(
      Describe(Summarize(result)),
      HasSubstr("4.8 output tokens per second while all 2 requests were decoding (1.00 s)"));

  result.concurrency = 3;
  EXPECT_TRUE(ToJson(Summarize(result))["full_load_output_tokens_per_s"].is_null());
  result.concurrency = 0;
  EXPECT_TRUE(ToJson(Summarize(result))["full_load_s"].is_null()) << "an open loop";
}

// Blocks each call until `num_needed` calls have arrived.
class Gate {
 public:
  explicit Gate(int32_t num_needed) : num_needed_(num_needed) {}
  void Pass() {
    const MutexLock lock(mutex_);
    num_inside_max_ = std::max(num_inside_max_, ++num_inside_);
    ++num_come_;
    changed_.notify_all();
    while (num_come_ < num_needed_) changed_.wait(mutex_);
  }
  void Leave() {
    const MutexLock lock(mutex_);
    --num_inside_;
  }
  int32_t num_inside_max() {
    const MutexLock lock(mutex_);
    return num_inside_max_;
  }

 private:
  const int32_t num_needed_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  int32_t num_come_ ABSL_GUARDED_BY(mutex_) = 0;
  int32_t num_inside_ ABSL_GUARDED_BY(mutex_) = 0;
  int32_t num_inside_max_ ABSL_GUARDED_BY(mutex_) = 0;
};

class BenchTest : public ::testing::Test {
 protected:
  // Makes the server wait for `gate` in each call, and then reply with two tokens.
  void Serve(Gate& gate) {
    server_.generate = [&gate, this](const v1::GenerateRequest& request, grpc::ServerContext*,
                                     ScriptedServer::Stream* stream) {
      {
        const MutexLock lock(mutex_);
        requests_.push_back(request);
      }
      gate.Pass();
      stream->Write(Piece("a", {1}));
      stream->Write(Piece("b", {2}));
      stream->Write(LastPiece(8, 3, 2));
      gate.Leave();
      return grpc::Status::OK;
    };
  }

  BenchResult Run(int32_t num_requests, int32_t concurrency, std::vector<double> arrivals) {
    ClientOptions client;
    client.address = server_.address();
    const auto stub = v1::Inference::NewStub(OpenChannel(client));
    BenchPlan plan{num_requests, concurrency, std::move(arrivals),
                   [](int32_t, int32_t) { return v1::GenerateRequest(); }};
    return BenchLoad(*stub, client, std::move(plan)).Run(nullptr);
  }

  int RunCommand(std::vector<std::string_view> args) {
    const std::string address = server_.address();
    args.push_back("--address");
    args.push_back(address);
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int exit_code = RunBench(args);
    out_ = ::testing::internal::GetCapturedStdout();
    err_ = ::testing::internal::GetCapturedStderr();
    return exit_code;
  }

  ScriptedServer server_;
  Mutex mutex_;
  std::vector<v1::GenerateRequest> requests_ ABSL_GUARDED_BY(mutex_);
  std::string out_, err_;
};

TEST_F(BenchTest, AClosedLoopKeepsItsConcurrencyAndNeverMore) {
  Gate gate(3);  // opens only if three calls wait at the same time
  Serve(gate);
  const BenchResult result = Run(20, 3, {});
  EXPECT_EQ(gate.num_inside_max(), 3);
  ASSERT_EQ(result.records.size(), 20u);
  for (const BenchRecord& record : result.records) {
    EXPECT_TRUE(record.is_done);
    EXPECT_EQ(record.error, "");
    EXPECT_EQ(record.output_tokens, 2u);
    EXPECT_EQ(record.inter_token.size(), 1u);
    EXPECT_EQ(record.prompt_tokens, 8u);
    EXPECT_EQ(record.cached_tokens, 3u);
    EXPECT_GE(record.total, record.first_token);
    EXPECT_LE(record.due + record.total, result.seconds);
  }
}

TEST_F(BenchTest, TimesWithinTheFirstMessageAreUnknown) {
  server_.generate = [](const v1::GenerateRequest&, grpc::ServerContext*,
                        ScriptedServer::Stream* stream) {
    stream->Write(Piece("abc", {1, 2, 3}));
    stream->Write(Piece("de", {4, 5}));
    stream->Write(LastPiece(8, 3, 5));
    return grpc::Status::OK;
  };
  const BenchResult result = Run(1, 1, {});
  const std::vector<double>& times = result.records[0].inter_token;
  ASSERT_EQ(times.size(), 2u);  // those of the second message
  EXPECT_GT(times[0], 0);
  EXPECT_EQ(times[0], times[1]);
}

TEST_F(BenchTest, TheRecordsOfAllRequestsAreWrittenToAFile) {
  Gate gate(1);
  Serve(gate);
  const std::string path = TempPath("bench_records.jsonl");
  EXPECT_EQ(RunCommand({"--requests", "3", "--records", path}), 0) << err_;
  std::ifstream file(path);
  int64_t index = 0;
  for (std::string line; std::getline(file, line); ++index) {
    const auto record = nlohmann::json::parse(line);
    EXPECT_EQ(record["index"], index);
    EXPECT_EQ(record["prompt_tokens"], 8);
    EXPECT_EQ(record["cached_tokens"], 3);
    EXPECT_EQ(record["output_tokens"], 2);
    EXPECT_GT(record["ttft_ms"], 0);
    EXPECT_GE(record["total_ms"], record["ttft_ms"]);
    EXPECT_TRUE(record["error"].is_null());
  }
  EXPECT_EQ(index, 3);
  EXPECT_EQ(RunCommand({"--records", "/no/such/folder/file"}), kExitFailure);
  EXPECT_NE(err_.find("/no/such/folder/file"), std::string::npos) << err_;
}

TEST_F(BenchTest, AnOpenLoopSendsEveryRequestThoughNoneHasAReply) {
  Gate gate(24);  // no call gets a reply before all 24 calls have arrived
  Serve(gate);
  const BenchResult result = Run(24, 1, PoissonArrivals(1, 24, 2000));
  EXPECT_EQ(Summarize(result).num_errors, 0);
  EXPECT_EQ(gate.num_inside_max(), 24);
}

TEST_F(BenchTest, TheCommandPrintsOneJsonObject) {
  Gate gate(1);
  Serve(gate);
  EXPECT_EQ(
      RunCommand({"--requests", "6", "--concurrency", "2", "--prompt-tokens", "8",
                  "--shared-prefix-tokens", "5", "--output-tokens", "2", "--seed", "1", "--json"}),
      kExitOk);
  const auto json = nlohmann::json::parse(out_);
  EXPECT_EQ(json["requests"], 6);
  EXPECT_EQ(json["errors"], 0);
  EXPECT_EQ(json["output_tokens"], 12);
  EXPECT_EQ(json["cached_tokens"], 18);
  for (const char* const name : {"ttft_ms", "itl_ms", "e2e_ms"}) {
    for (const char* const key : {"p50", "p90", "p99", "max"}) {
      EXPECT_TRUE(json[name][key].is_number()) << name << " " << key;
    }
  }
  const MutexLock lock(mutex_);
  ASSERT_EQ(requests_.size(), 6u);
  for (const v1::GenerateRequest& request : requests_) {
    EXPECT_EQ(request.output().max_tokens(), 2u);
    EXPECT_TRUE(request.output().ignore_eos());
    ASSERT_EQ(request.token_ids().ids_size(), 8);
    EXPECT_THAT(request.token_ids().ids(), Each(AllOf(Ge(3u), Lt(512u)))) << "0, 1, 2 are special";
    EXPECT_TRUE(std::equal(request.token_ids().ids().begin(), request.token_ids().ids().begin() + 5,
                           requests_[0].token_ids().ids().begin()));
  }
}

TEST_F(BenchTest, TheCommandPrintsATableForPeople) {
  Gate gate(1);
  Serve(gate);
  EXPECT_EQ(RunCommand({"--requests", "4", "--rate", "1000", "--prompt-tokens", "8",
                        "--output-tokens", "2", "--seed", "9"}),
            kExitOk);
  EXPECT_THAT(out_, AllOf(HasSubstr("seed 9\n4 requests, 0 errors"),
                          HasSubstr("32 prompt tokens, 12 of them cached (37.5 %)"),
                          HasSubstr("time to first token"), HasSubstr("between tokens")));
  EXPECT_EQ(err_, "") << "progress is for terminals";
}

// The command runs with the scheduling policy SCHED_BATCH, so that it does not interrupt a server
// on the same machine.
TEST_F(BenchTest, TheCommandNeverInterruptsOthers) {
  const sched_param parameters{};
  ASSERT_EQ(sched_setscheduler(0, SCHED_OTHER, &parameters), 0);
  Gate gate(1);
  Serve(gate);
  EXPECT_EQ(RunCommand({"--requests", "1", "--prompt-tokens", "8", "--output-tokens", "2"}),
            kExitOk);
  EXPECT_EQ(sched_getscheduler(0), SCHED_BATCH);
}

TEST_F(BenchTest, ARunWhereEveryRequestFailsFails) {
  server_.generate = [](const v1::GenerateRequest&, grpc::ServerContext*, ScriptedServer::Stream*) {
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "the queue is full");
  };
  EXPECT_EQ(RunCommand({"--requests", "3", "--prompt-tokens", "8", "--json"}), kExitFailure);
  EXPECT_EQ(nlohmann::json::parse(out_)["errors"], 3);
  EXPECT_THAT(err_, HasSubstr("the queue is full"));
}

TEST_F(BenchTest, WrongArgumentsAreNamed) {
  EXPECT_EQ(RunCommand({"--rate", "5", "--concurrency", "2"}), kExitUsage);
  EXPECT_THAT(err_, HasSubstr("--rate and --concurrency exclude each other"));
  EXPECT_EQ(RunCommand({"--prompt-tokens", "4", "--shared-prefix-tokens", "5"}), kExitUsage);
  EXPECT_THAT(err_, HasSubstr("--shared-prefix-tokens is 5; it must be at most"));
  EXPECT_EQ(RunCommand({"--prompt-tokens", "1000", "--output-tokens", "25"}), kExitUsage);
  EXPECT_THAT(err_, HasSubstr("add up to 1025"));
  EXPECT_EQ(RunCommand({"--requests", "0"}), kExitUsage);
  EXPECT_THAT(err_, HasSubstr("--requests is \"0\"; it must be a whole number from 1"));
}

}  // namespace
}  // namespace incipit
