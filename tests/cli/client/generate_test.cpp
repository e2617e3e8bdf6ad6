#include "cli/client/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "tests/cli/client/scripted_server.h"
#include "tests/support/temp_path.h"

namespace incipit {

grpc::Status DetailedError() {
  google::rpc::BadRequest bad_request;
  auto& violation = *bad_request.add_field_violations();
  violation.set_field("sampling.top_p");
  violation.set_description("must be in (0, 1]");
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_nanos(500'000'000);
  google::rpc::Status details;
  details.add_details()->PackFrom(bad_request);
  details.add_details()->PackFrom(retry);
  return {grpc::StatusCode::INVALID_ARGUMENT, "top_p is 2", details.SerializeAsString()};
}

namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GenerateTest : public ::testing::Test {
 protected:
  GenerateTest() {
    server_.generate = [this](const v1::GenerateRequest& request, grpc::ServerContext* context,
                              ScriptedServer::Stream* stream) {
      request_ = request;
      const auto& metadata = context->client_metadata();
      const auto tenant = metadata.find("x-tenant-id");
      if (tenant != metadata.end()) tenant_.assign(tenant->second.data(), tenant->second.size());
      const auto key = metadata.find("authorization");
      if (key != metadata.end()) key_.assign(key->second.data(), key->second.size());
      for (const auto& response : responses_) stream->Write(response);
      return status_;
    };
  }

  // Runs the command `generate` against the server. Stores its output in `out_` and `err_`.
  int Run(std::vector<std::string_view> args) {
    const std::string address = server_.address();
    args.push_back("--address");
    args.push_back(address);
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int exit_code = RunGenerate(args);
    out_ = ::testing::internal::GetCapturedStdout();
    err_ = ::testing::internal::GetCapturedStderr();
    return exit_code;
  }

  ScriptedServer server_;
  std::vector<v1::GenerateResponse> responses_ = {Piece(" there", {5}), Piece(" was", {6, 7}),
                                                  LastPiece(4, 2, 3)};
  grpc::Status status_;
  v1::GenerateRequest request_;
  std::string tenant_, key_, out_, err_;
};

TEST_F(GenerateTest, TheKeyOfTheEnvironmentIsSent) {
  ASSERT_EQ(setenv("INCIPIT_API_KEY", "a-key", 1), 0);
  EXPECT_EQ(Run({"--prompt", "x"}), kExitOk) << err_;
  EXPECT_EQ(key_, "Bearer a-key");
  ASSERT_EQ(setenv("INCIPIT_API_KEY", "no key\n", 1), 0);
  key_.clear();
  status_ = {grpc::StatusCode::UNAUTHENTICATED, "the call needs a key"};
  EXPECT_EQ(Run({"--prompt", "x"}), kExitFailure);
  EXPECT_EQ(key_, "") << "a value that cannot be a key";
  EXPECT_THAT(err_, AllOf(HasSubstr("UNAUTHENTICATED: the call needs a key"),
                          HasSubstr("set the environment variable INCIPIT_API_KEY")));
  unsetenv("INCIPIT_API_KEY");
  status_ = grpc::Status::OK;
  EXPECT_EQ(Run({"--prompt", "x"}), kExitOk) << err_;
  EXPECT_EQ(key_, "");
}

TEST_F(GenerateTest, PrintsTheTextAndNothingElse) {
  EXPECT_EQ(Run({"--prompt", "Once"}), kExitOk);
  EXPECT_EQ(out_, " there was\n");
  EXPECT_EQ(err_, "");
  EXPECT_EQ(request_.text(), "Once");
  EXPECT_FALSE(request_.sampling().has_temperature())
      << "the server chooses each value that is not given";
  EXPECT_FALSE(request_.sampling().has_seed());
  EXPECT_FALSE(request_.output().has_logprobs());
  EXPECT_FALSE(request_.cache().has_retention());
}

TEST_F(GenerateTest, JsonIsOneObjectWithUsageInMilliseconds) {
  EXPECT_EQ(Run({"--prompt", "Once", "--json"}), kExitOk);
  const auto json = nlohmann::json::parse(out_);
  EXPECT_EQ(json["text"], " there was");
  EXPECT_EQ(json["token_ids"], (std::vector<int>{5, 6, 7}));
  EXPECT_EQ(json["finish_reason"], "length");
  EXPECT_TRUE(json["logprobs"].is_null());
  EXPECT_EQ(json["usage"]["prompt_tokens"], 4);
  EXPECT_EQ(json["usage"]["completion_tokens"], 3);
  EXPECT_EQ(json["usage"]["cached_tokens"], 2);
  EXPECT_EQ(json["usage"]["copied_tokens"], 0);
  EXPECT_TRUE(json["usage"]["cache_miss"].is_null());
  EXPECT_EQ(json["usage"]["queue_ms"], 1.5);
  EXPECT_EQ(json["usage"]["ttft_ms"], 250);
  EXPECT_FALSE(json.contains("choices"));
}

TEST_F(GenerateTest, JsonSaysWhyNoMoreWasCached) {
  v1::Usage& usage = *responses_.back().mutable_usage();
  usage.set_copied_tokens(7);
  v1::CacheMiss& miss = *usage.mutable_cache_miss();
  miss.set_reason(v1::CACHE_MISS_REASON_EVICTED);
  miss.set_first_missing_block(0);
  miss.set_first_differing_token(9);
  miss.set_evicted_seconds_ago(1.5);
  EXPECT_EQ(Run({"--prompt", "Once", "--json", "--usage"}), kExitOk);
  const auto json = nlohmann::json::parse(out_)["usage"];
  EXPECT_EQ(json["copied_tokens"], 7);
  EXPECT_EQ(json["cache_miss"], nlohmann::json::parse(R"({"reason": "evicted",
    "first_missing_block": 0, "first_differing_token": 9, "evicted_ms_ago": 1500.0})"));
  EXPECT_EQ(Run({"--prompt", "Once", "--usage"}), kExitOk);
  EXPECT_THAT(err_, HasSubstr("evicted 1.5 s ago"));

  miss.Clear();
  miss.set_reason(v1::CACHE_MISS_REASON_NONE);
  EXPECT_EQ(Run({"--prompt", "Once", "--json"}), kExitOk);
  EXPECT_EQ(nlohmann::json::parse(out_)["usage"]["cache_miss"],
            nlohmann::json::parse(R"({"reason": "none"})"));
}

TEST_F(GenerateTest, EveryOptionReachesTheRequest) {
  EXPECT_EQ(Run({"--prompt-ids",
                 "1, 2,3",
                 "--max-tokens",
                 "9",
                 "--min-tokens",
                 "2",
                 "--stop",
                 "a",
                 "--stop",
                 "b",
                 "--stop-token-ids",
                 "7,8",
                 "--include-stop",
                 "--ignore-eos",
                 "--keep-special-tokens",
                 "--n",
                 "2",
                 "--logprobs",
                 "3",
                 "--prompt-logprobs",
                 "0",
                 "--temperature",
                 "0.5",
                 "--top-p",
                 "0.9",
                 "--top-k",
                 "40",
                 "--min-p",
                 "0.1",
                 "--repetition-penalty",
                 "1.1",
                 "--presence-penalty",
                 "-1",
                 "--frequency-penalty",
                 "0.25",
                 "--logit-bias",
                 "5:-2.5",
                 "--logit-bias",
                 "6:1",
                 "--seed",
                 "-3",
                 "--cache-salt",
                 "s",
                 "--skip-cache",
                 "--cache-priority",
                 "70",
                 "--cache-ttl",
                 "90s",
                 "--cache-pin",
                 "1500ms",
                 "--priority",
                 "-4",
                 "--request-id",
                 "me",
                 "--model",
                 "m",
                 "--tenant",
                 "blue"}),
            kExitOk);
  EXPECT_EQ(
      request_.ShortDebugString(),
      "request_id: \"me\" token_ids { ids: 1 ids: 2 ids: 3 } sampling { temperature: 0.5 "
      "top_p: 0.9 top_k: 40 min_p: 0.1 repetition_penalty: 1.1 presence_penalty: -1 "
      "frequency_penalty: 0.25 logit_bias { key: 5 value: -2.5 } logit_bias { key: 6 value: 1 "
      "} seed: -3 } output { max_tokens: 9 min_tokens: 2 stop: \"a\" stop: \"b\" "
      "stop_token_ids: 7 stop_token_ids: 8 include_stop: true ignore_eos: true n: 2 logprobs: "
      "3 prompt_logprobs: 0 keep_special_tokens: true } cache { salt: \"s\" skip_read: true "
      "retention { priority: 70 ttl { seconds: 90 } pin { seconds: 1 nanos: 500000000 } } } "
      "priority: -4 model: \"m\"");
  EXPECT_EQ(tenant_, "blue");
}

TEST_F(GenerateTest, AModelWithoutATokenizerRepliesWithIds) {
  server_.model.set_has_tokenizer(false);
  responses_ = {Piece("", {5}), Piece("", {6, 7}), LastPiece(4, 2, 3)};
  EXPECT_EQ(Run({"--prompt-ids", "1"}), kExitOk);
  EXPECT_EQ(out_, "5,6,7\n");
}

TEST_F(GenerateTest, SeveralChoicesAreKeptApart) {
  v1::GenerateResponse second = Piece(" is", {9});
  second.mutable_deltas(0)->set_choice(1);
  second.mutable_deltas(0)->set_finish_reason(v1::FINISH_REASON_STOP);
  second.mutable_deltas(0)->set_stop_string(".");
  responses_.insert(responses_.begin() + 1, second);
  EXPECT_EQ(Run({"--prompt", "Once", "--n", "2"}), kExitOk);
  EXPECT_EQ(out_, "--- choice 0\n there was\n--- choice 1\n is\n");
  EXPECT_EQ(Run({"--prompt", "Once", "--n", "2", "--json"}), kExitOk);
  const auto json = nlohmann::json::parse(out_);
  EXPECT_EQ(json["text"], " there was");
  ASSERT_EQ(json["choices"].size(), 2u);
  EXPECT_EQ(json["choices"][1]["text"], " is");
  EXPECT_EQ(json["choices"][1]["finish_reason"], "stop");
  EXPECT_EQ(json["choices"][1]["stop_string"], ".");
}

TEST_F(GenerateTest, LogprobsAreReportedWithRankAndAlternatives) {
  v1::PositionLogprobs& position = *responses_[0].mutable_deltas(0)->add_logprobs();
  position.mutable_token()->set_token_id(5);
  position.mutable_token()->set_logprob(-0.5);
  position.mutable_token()->set_text("\xe2\x82");  // two of the three bytes of a character
  position.set_rank(2);
  position.add_top()->set_token_id(8);
  *responses_[0].add_prompt_logprobs() = position;
  EXPECT_EQ(Run({"--prompt", "Once", "--json", "--logprobs", "1", "--prompt-logprobs", "1"}),
            kExitOk);
  const auto json = nlohmann::json::parse(out_);
  ASSERT_EQ(json["logprobs"].size(), 1u);
  EXPECT_EQ(json["logprobs"][0]["token_id"], 5);
  EXPECT_EQ(json["logprobs"][0]["logprob"], -0.5);
  EXPECT_EQ(json["logprobs"][0]["rank"], 2);
  EXPECT_EQ(json["logprobs"][0]["text"], "\xef\xbf\xbd");
  EXPECT_EQ(json["logprobs"][0]["top"][0]["token_id"], 8);
  EXPECT_EQ(json["prompt_logprobs"].size(), 1u);
}

TEST_F(GenerateTest, AnErrorOfTheServerIsShownWithItsDetails) {
  status_ = DetailedError();
  responses_.clear();
  EXPECT_EQ(Run({"--prompt", "Once", "--top-p", "2"}), kExitFailure);
  EXPECT_EQ(out_, "");
  EXPECT_THAT(
      err_, AllOf(HasSubstr("INVALID_ARGUMENT: top_p is 2"),
                  HasSubstr("sampling.top_p: must be in (0, 1]"), HasSubstr("try again in 0.5 s")));
}

TEST_F(GenerateTest, AServerThatIsNotThereIsAFailureThatSaysWhere) {
  ::testing::internal::CaptureStderr();
  const std::string_view args[] = {"--prompt", "Once", "--address", "127.0.0.1:1"};
  EXPECT_EQ(RunGenerate(args), kExitFailure);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("UNAVAILABLE"), HasSubstr("127.0.0.1:1")));
}

TEST_F(GenerateTest, ADeadlineEndsACallThatTakesTooLong) {
  server_.generate = [](const v1::GenerateRequest&, grpc::ServerContext* context,
                        ScriptedServer::Stream* stream) {
    while (stream->Write(Piece("x", {1})) && !context->IsCancelled()) {
    }
    return grpc::Status::CANCELLED;
  };
  EXPECT_EQ(Run({"--prompt", "Once", "--timeout", "50ms", "--json"}), kExitFailure);
  EXPECT_THAT(err_, HasSubstr("DEADLINE_EXCEEDED"));
}

TEST_F(GenerateTest, WrongArgumentsAreNamedAndNothingIsSent) {
  EXPECT_EQ(Run({}), kExitUsage);
  EXPECT_THAT(err_, HasSubstr("0 of --prompt, --prompt-ids and --prompt-file were given"));
  EXPECT_EQ(Run({"--prompt", "a", "--prompt-ids", "1"}), kExitUsage);
  EXPECT_EQ(Run({"--promt", "a"}), kExitUsage);
  EXPECT_THAT(err_, HasSubstr("unknown flag --promt; did you mean --prompt?"));
  EXPECT_EQ(Run({"--prompt-ids", "1,x"}), kExitUsage);
  EXPECT_THAT(err_, HasSubstr("\"x\" is not a token id"));
  EXPECT_EQ(Run({"--prompt", "\xff"}), kExitUsage);
  EXPECT_THAT(err_, HasSubstr("UTF-8"));
  EXPECT_EQ(Run({"--prompt", "a", "--logit-bias", "5"}), kExitUsage);
  EXPECT_EQ(Run({"--prompt-file", "/nonexistent"}),
            kExitFailure);  // a missing file is not a wrong flag
  EXPECT_THAT(err_, HasSubstr("/nonexistent"));
  EXPECT_EQ(Run({"--prompt-file", ::testing::TempDir()}), kExitFailure);
  EXPECT_THAT(err_, HasSubstr("--prompt-file: " + ::testing::TempDir()));
  EXPECT_FALSE(request_.has_text() || request_.has_token_ids());
}

TEST_F(GenerateTest, APromptIsReadFromAFile) {
  const std::string path = TempPath("prompt.txt");
  std::ofstream(path) << "Once\nupon";
  EXPECT_EQ(Run({"--prompt-file", path}), kExitOk);
  EXPECT_EQ(request_.text(), "Once\nupon");
}

TEST_F(GenerateTest, HelpShowsUsageFlagsAndExamples) {
  EXPECT_EQ(Run({"--help"}), kExitOk);
  EXPECT_THAT(out_, AllOf(HasSubstr("Usage: incipit generate"), HasSubstr("--max-tokens N"),
                          HasSubstr("Examples:\n  incipit generate")));
}

}  // namespace
}  // namespace incipit
