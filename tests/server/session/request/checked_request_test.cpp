#include "server/session/request/checked_request.h"

#include <gmock/gmock.h>
#include <google/rpc/error_details.pb.h>
#include <google/rpc/status.pb.h>
#include <grpcpp/support/status.h>
#include <gtest/gtest.h>
#include <incipit/v1/admin.pb.h>
#include <incipit/v1/inference.pb.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <utility>

#include "base/status.h"
#include "server/rpc/error_details.h"
#include "server/rpc/request_reader.h"
#include "server/session/request/request_error.h"

namespace incipit {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
// A word that the tests put into every text of a request. No error message may contain the word,
// because it would reveal text of the client.
constexpr const char* kCanary = "canary";

ServedModel Model() {
  ServedModel model;
  model.name = "tiny";
  model.vocab_size = 512;
  model.max_model_len = 128;
  model.cache_tokens = 1 << 20;
  model.has_tokenizer = true;
  model.has_chat_template = true;
  model.eos_ids = {2};
  return model;
}

absl::StatusOr<CheckedRequest> CheckGenerateRequest(v1::GenerateRequest message,
                                                    const ServedModel& model,
                                                    const RequestLimits& limits) {
  return CheckDraft(DraftOf(std::move(message), limits), model, limits,
                    [] { return absl::OkStatus(); });
}

v1::GenerateRequest Valid() {
  v1::GenerateRequest message;
  message.mutable_token_ids()->add_ids(1);
  return message;
}

google::rpc::BadRequest::FieldViolation ViolationOf(const absl::Status& status) {
  google::rpc::Status rich;
  EXPECT_TRUE(rich.ParseFromString(ToGrpcStatus(status).error_details()));
  for (const auto& detail : rich.details()) {
    google::rpc::BadRequest bad_request;
    if (detail.Is<google::rpc::BadRequest>() && detail.UnpackTo(&bad_request)) {
      return bad_request.field_violations(0);
    }
  }
  return {};
}

absl::Status CheckWhole(const v1::GenerateRequest& message, const ServedModel& model = Model(),
                        const RequestLimits& limits = {}) {
  auto checked = CheckGenerateRequest(message, model, limits);
  if (!checked.ok()) return checked.status();
  auto* const tokens = std::get_if<std::vector<TokenId>>(&checked->prompt);
  if (tokens == nullptr) return absl::OkStatus();
  return SetPrompt(*tokens, "token_ids.ids", model, limits, *checked);
}

struct BadCase {
  std::string name;
  std::function<void(v1::GenerateRequest&)> spoil;
  std::string field;  // name of the field that the error must contain
  std::string text;   // text that the error must contain
};

void PrintTo(const BadCase& bad, std::ostream* out) { *out << bad.name; }

class BadGenerateRequest : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadGenerateRequest, NamesTheFieldAndTheBoundAndEchoesNothing) {
  v1::GenerateRequest message = Valid();
  GetParam().spoil(message);
  const absl::Status status = CheckWhole(message);
  ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  const auto violation = ViolationOf(status);
  EXPECT_EQ(violation.field(), GetParam().field);
  EXPECT_THAT(violation.description(), HasSubstr(GetParam().text));
  EXPECT_THAT(MessageOf(status), HasSubstr(GetParam().field));
  EXPECT_THAT(MessageOf(status), Not(HasSubstr(kCanary)));
}

std::vector<BadCase> PromptCases() {
  const auto repeat = [](int n) {
    return [n](v1::GenerateRequest& m) {
      for (int i = 1; i < n; ++i) m.mutable_token_ids()->add_ids(1);
    };
  };
  const auto id = [](uint32_t value) {
    return [value](v1::GenerateRequest& m) { m.mutable_token_ids()->add_ids(value); };
  };
  return {
      {"NoPrompt", [](auto& m) { m.clear_prompt(); }, "prompt", "missing"},
      {"EmptyText", [](auto& m) { m.set_text(""); }, "text", "empty"},
      {"EmptyIds", [](auto& m) { m.mutable_token_ids()->clear_ids(); }, "token_ids", "empty"},
      {"IdAtVocabulary", id(512), "token_ids.ids[1]",
       "is 512; this model's token ids are below 512"},
      {"IdBeyondInt32", id(2147483648u), "token_ids.ids[1]", "2147483648"},
      {"IdAtInt32Max", id(2147483647u), "token_ids.ids[1]", "2147483647"},
      {"IdAtUint32Max", id(4294967295u), "token_ids.ids[1]", "4294967295"},
      {"PromptFillsContext", repeat(128), "token_ids.ids", "no room for output"},
      {"PromptBeyondContext", repeat(129), "token_ids.ids",
       "129 tokens; a prompt must fit into this model's context (128 tokens)"},
      {"LongModelName", [](auto& m) { m.set_model(std::string(65536, 'm')); }, "model", "256"},
      {"LongRequestId", [](auto& m) { m.set_request_id(std::string(1 << 20, 'r')); }, "request_id",
       "has 1048576 bytes; at most 128"},
      {"RequestIdWithNewline", [](auto& m) { m.set_request_id("canary\r\n"); }, "request_id",
       "printable"},
      {"RequestIdWithEscape", [](auto& m) { m.set_request_id("\x1b[31mcanary"); }, "request_id",
       "printable"},
      {"LongSalt", [](auto& m) { m.mutable_cache()->set_salt(std::string(257, 's')); },
       "cache.salt", "has 257 bytes; at most 256"},
  };
}

BadCase Sampling(std::string name, std::function<void(v1::SamplingOptions&)> spoil,
                 std::string field, std::string text) {
  return {std::move(name),
          [spoil = std::move(spoil)](v1::GenerateRequest& m) { spoil(*m.mutable_sampling()); },
          "sampling." + field, std::move(text)};
}

std::vector<BadCase> SamplingCases() {
  std::vector<BadCase> cases;
  const auto add = [&](const char* name, auto setter, const char* field, const char* text,
                       std::initializer_list<float> values) {
    int index = 0;
    for (const float value : values) {
      cases.push_back(Sampling(
          std::string(name) + std::to_string(index++),
          [setter, value](v1::SamplingOptions& o) { (o.*setter)(value); }, field, text));
    }
  };
  using Options = v1::SamplingOptions;
  add("Temperature", &Options::set_temperature, "temperature", "from 0 to 100",
      {kNan, kInf, -kInf, -1, 100.5f});
  add("TopP", &Options::set_top_p, "top_p", "above 0 and at most 1", {0, -0.1f, 1.0001f, kNan});
  add("MinP", &Options::set_min_p, "min_p", "from 0 to 1", {1.1f, -0.1f, kNan});
  add("RepetitionPenalty", &Options::set_repetition_penalty, "repetition_penalty",
      "above 0 and at most 100", {0, -1, kInf, kNan, 101});
  add("PresencePenalty", &Options::set_presence_penalty, "presence_penalty", "from -2 to 2",
      {-2.1f, 2.1f, kNan});
  add("FrequencyPenalty", &Options::set_frequency_penalty, "frequency_penalty", "from -2 to 2",
      {-2.1f, 2.1f, kInf});
  for (const float bias : {kNan, kInf, -kInf, 1e38f, 100.5f}) {
    cases.push_back(Sampling(
        "LogitBias" + std::to_string(cases.size()),
        [bias](Options& o) { (*o.mutable_logit_bias())[7] = bias; }, "logit_bias[7]",
        "from -100 to 100"));
  }
  cases.push_back(Sampling(
      "LogitBiasOfUnknownToken", [](Options& o) { (*o.mutable_logit_bias())[512] = 1; },
      "logit_bias[512]", "below 512"));
  cases.push_back(Sampling(
      "ManyLogitBiases",
      [](Options& o) {
        for (uint32_t i = 0; i < 300'000; ++i) (*o.mutable_logit_bias())[i] = 1;
      },
      "logit_bias", "has 300000 entries; at most 1024"));
  return cases;
}

BadCase Output(std::string name, std::function<void(v1::OutputOptions&)> spoil, std::string field,
               std::string text) {
  return {std::move(name),
          [spoil = std::move(spoil)](v1::GenerateRequest& m) { spoil(*m.mutable_output()); },
          "output." + field, std::move(text)};
}

std::vector<BadCase> OutputCases() {
  using Options = v1::OutputOptions;
  const auto stops = [](int n, size_t size) {
    return [n, size](Options& o) {
      for (int i = 0; i < n; ++i)
        o.add_stop(std::string(size, 'x') + std::string(size ? kCanary : ""));
    };
  };
  const auto stop_ids = [](int n, uint32_t id) {
    return [n, id](Options& o) {
      for (int i = 0; i < n; ++i) o.add_stop_token_ids(id);
    };
  };
  return {
      Output(
          "OneChoiceTooMany", [](Options& o) { o.set_n(17); }, "n", "is 17; at most 16"),
      Output(
          "EndlessChoices", [](Options& o) { o.set_n(1u << 31); }, "n", "2147483648"),
      Output(
          "MinAboveMax",
          [](Options& o) {
            o.set_max_tokens(4);
            o.set_min_tokens(5);
          },
          "min_tokens", "at most max_tokens, which is 4"),
      Output(
          "HugeMinWithoutMax", [](Options& o) { o.set_min_tokens(1'000'000'000); }, "min_tokens",
          "context is 128"),
      Output(
          "MinBeyondRoom", [](Options& o) { o.set_min_tokens(127 + 1); }, "min_tokens", "128"),
      Output(
          "Logprobs", [](Options& o) { o.set_logprobs(21); }, "logprobs", "at most 20"),
      Output(
          "HugeLogprobs", [](Options& o) { o.set_logprobs(1u << 31); }, "logprobs", "at most 20"),
      Output(
          "NegativeLogprobs", [](Options& o) { o.set_logprobs(static_cast<uint32_t>(-1)); },
          "logprobs", "4294967295"),
      Output(
          "PromptLogprobs", [](Options& o) { o.set_prompt_logprobs(21); }, "prompt_logprobs",
          "at most 20"),
      Output("StopStrings", stops(17, 1), "stop", "has 17 strings; at most 16"),
      Output("ManyStopStrings", stops(10'000, 1), "stop", "has 10000 strings; at most 16"),
      Output("EmptyStopString", stops(1, 0), "stop[0]", "empty"),
      Output("LongStopString", stops(1, 1 << 20), "stop[0]", "at most 1024"),
      Output("StopTokens", stop_ids(65, 1), "stop_token_ids", "has 65 ids; at most 64"),
      Output("ManyStopTokens", stop_ids(10'000, 1), "stop_token_ids", "has 10000 ids"),
      Output("UnknownStopToken", stop_ids(1, 512), "stop_token_ids[0]", "below 512"),
  };
}

BadCase Retained(std::string name, std::function<void(v1::CacheRetention&)> spoil,
                 std::string field, std::string text) {
  return {std::move(name),
          [spoil = std::move(spoil)](v1::GenerateRequest& m) {
            spoil(*m.mutable_cache()->mutable_retention());
          },
          "cache.retention." + field, std::move(text)};
}

std::vector<BadCase> RetentionCases() {
  using Hint = v1::CacheRetention;
  std::vector<BadCase> cases = {
      Retained(
          "NegativePriority", [](Hint& w) { w.set_priority(-1); }, "priority",
          "is -1; the priority must be from 0 to 100"),
      Retained(
          "HighPriority", [](Hint& w) { w.set_priority(101); }, "priority", "from 0 to 100"),
      Retained(
          "ExtremePriority", [](Hint& w) { w.set_priority(std::numeric_limits<int32_t>::min()); },
          "priority", "from 0 to 100"),
      Retained(
          "LongTtl", [](Hint& w) { w.mutable_ttl()->set_seconds(86401); }, "ttl",
          "is 86401 s; at most 86400 s"),
      Retained(
          "EndlessTtl",
          [](Hint& w) { w.mutable_ttl()->set_seconds(std::numeric_limits<int64_t>::max()); }, "ttl",
          "at most 86400 s"),
  };
  using Time = google::protobuf::Duration;
  const std::pair<const char*, Time* (Hint::*)()> times[] = {{"ttl", &Hint::mutable_ttl},
                                                             {"pin", &Hint::mutable_pin}};
  for (const auto& named : times) {
    const char* const field = named.first;
    const auto time = named.second;
    const auto add = [&](const char* name, int64_t seconds, int32_t nanos, const char* text) {
      cases.push_back(Retained(
          std::string(name) + field,
          [time, seconds, nanos](Hint& w) {
            (w.*time)()->set_seconds(seconds);
            (w.*time)()->set_nanos(nanos);
          },
          field, text));
    };
    add("Zero", 0, 0, "is 0 s; the time must be above 0");
    add("Negative", -2, -500'000'000, "is -2.5 s");
    add("NegativeNanos", 0, -1, "the time must be above 0");
    add("MixedSigns", 1, -1, "the time must be above 0");
    add("ManyNanos", 1, 1'000'000'000, "less than one second");
    add("ExtremeSeconds", std::numeric_limits<int64_t>::min(), 0, "the time must be above 0");
    add("ExtremeNanos", 0, std::numeric_limits<int32_t>::min(), "less than one second");
  }
  return cases;
}

std::string CaseName(const ::testing::TestParamInfo<BadCase>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Prompt, BadGenerateRequest, ::testing::ValuesIn(PromptCases()), CaseName);
INSTANTIATE_TEST_SUITE_P(Sampling, BadGenerateRequest, ::testing::ValuesIn(SamplingCases()),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Output, BadGenerateRequest, ::testing::ValuesIn(OutputCases()), CaseName);
INSTANTIATE_TEST_SUITE_P(Retention, BadGenerateRequest, ::testing::ValuesIn(RetentionCases()),
                         CaseName);

TEST(GenerateRequestTest, ANumberAboveItsUpperBoundIsToldTheBound) {
  const auto bound_of = [](const std::function<void(v1::GenerateRequest&)>& change) {
    v1::GenerateRequest message = Valid();
    change(message);
    const absl::Status status = CheckWhole(message);
    EXPECT_FALSE(status.ok());
    return ErrorOf(status).bound.value_or(-1);
  };
  const auto sampling = [&](const std::function<void(v1::SamplingOptions&)>& change) {
    return bound_of([&](v1::GenerateRequest& message) { change(*message.mutable_sampling()); });
  };
  EXPECT_EQ(sampling([](auto& options) { options.set_temperature(101); }), 100);
  EXPECT_EQ(sampling([](auto& options) { options.set_temperature(-1); }), -1) << "below";
  EXPECT_EQ(sampling([](auto& options) { options.set_temperature(kNan); }), -1);
  EXPECT_EQ(sampling([](auto& options) { options.set_top_p(1.5f); }), 1);
  EXPECT_EQ(sampling([](auto& options) { options.set_repetition_penalty(101); }), 100);
  EXPECT_EQ(sampling([](auto& options) { (*options.mutable_logit_bias())[512] = 1; }), 511);
  EXPECT_EQ(bound_of([](auto& message) { message.mutable_token_ids()->add_ids(512); }), 511);
  EXPECT_EQ(bound_of([](auto& message) { message.mutable_output()->set_min_tokens(128); }), 127);
  EXPECT_EQ(bound_of([](auto& message) {
              message.mutable_output()->set_max_tokens(5);
              message.mutable_output()->set_min_tokens(6);
            }),
            5);
  EXPECT_EQ(bound_of([](auto& message) {
              message.mutable_cache()->mutable_retention()->mutable_ttl()->set_seconds(90'000);
            }),
            86'400);
}

TEST(GenerateRequestTest, RetentionIsTheDefaultUnlessAskedFor) {
  v1::GenerateRequest message = Valid();
  message.mutable_cache()->mutable_retention();
  EXPECT_TRUE(CheckGenerateRequest(message, Model(), {})->request.retention.is_default());
}

TEST(GenerateRequestTest, RetentionIsTakenAsItIs) {
  v1::GenerateRequest message = Valid();
  v1::CacheRetention& hint = *message.mutable_cache()->mutable_retention();
  hint.set_priority(0);
  hint.mutable_ttl()->set_seconds(86400);
  hint.mutable_pin()->set_nanos(1'000'000);
  const auto checked = CheckGenerateRequest(message, Model(), {});
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->request.retention.priority, 0);
  EXPECT_EQ(checked->request.retention.time_to_live, std::chrono::hours(24));
  EXPECT_EQ(checked->request.retention.pin, std::chrono::milliseconds(1));
}

TEST(GenerateRequestTest, AnEndlessPinIsALongOne) {
  v1::GenerateRequest message = Valid();
  message.mutable_cache()->mutable_retention()->mutable_pin()->set_seconds(
      std::numeric_limits<int64_t>::max());
  const auto checked = CheckGenerateRequest(message, Model(), {});
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->request.retention.pin, std::chrono::hours(24 * 365));
}

TEST(LoadRequestTest, APromptThatIsAskedAboutIsARequestOfOneToken) {
  v1::GetLoadRequest message;
  for (const uint32_t id : {5u, 6u, 7u}) message.mutable_token_ids()->add_ids(id);
  message.set_cache_salt("s");
  const auto checked =
      CheckPrompt(TokensOf(message.token_ids().ids()), message.cache_salt(), Model(), {});
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_THAT(checked->request.prompt, ElementsAre(5, 6, 7));
  EXPECT_EQ(checked->request.output_tokens_max, 1);
  EXPECT_EQ(checked->cache_salt, "s");
}

TEST(GenerateRequestTest, AnUnknownModelIsNotFoundWithoutItsName) {
  v1::GenerateRequest message = Valid();
  message.set_model("../../etc/canary");
  const absl::Status status = CheckWhole(message);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ErrorOf(status).reason, Reason::kModelNotFound);
  EXPECT_THAT(MessageOf(status), HasSubstr("\"tiny\""));
  EXPECT_THAT(MessageOf(status), Not(HasSubstr(kCanary)));
}

TEST(GenerateRequestTest, TheServedModelMayBeNamed) {
  v1::GenerateRequest message = Valid();
  message.set_model("tiny");
  EXPECT_TRUE(CheckWhole(message).ok());
}

TEST(GenerateRequestTest, LongPromptsHaveAReasonOfTheirOwn) {
  v1::GenerateRequest message = Valid();
  for (int i = 0; i < 200; ++i) message.mutable_token_ids()->add_ids(1);
  EXPECT_EQ(ErrorOf(CheckWhole(message)).reason, Reason::kPromptTooLong);
}

TEST(GenerateRequestTest, AnOperatorsPromptLimitIsNamed) {
  v1::GenerateRequest message = Valid();
  message.mutable_token_ids()->add_ids(1);
  RequestLimits limits;
  limits.prompt_tokens_max = 1;
  EXPECT_THAT(MessageOf(CheckWhole(message, Model(), limits)),
              HasSubstr("prompt-tokens-max (1 tokens)"));
}

TEST(GenerateRequestTest, TextNeedsATokenizerAndIdsDoNot) {
  ServedModel model = Model();
  model.has_tokenizer = false;
  EXPECT_TRUE(CheckWhole(Valid(), model).ok());
  v1::GenerateRequest message;
  message.set_text("hello");
  EXPECT_EQ(CheckWhole(message, model).code(), absl::StatusCode::kFailedPrecondition);
  message = Valid();
  message.mutable_output()->add_stop("x");
  EXPECT_EQ(CheckWhole(message, model).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(GenerateRequestTest, NulInTextIsData) {
  v1::GenerateRequest message;
  message.set_text(std::string("a\0b", 3));
  const auto checked = CheckGenerateRequest(message, Model(), {});
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(std::get<std::string>(checked->prompt).size(), 3u);
}

CheckedRequest MustCheck(const v1::GenerateRequest& message, const ServedModel& model = Model()) {
  auto checked = CheckGenerateRequest(message, model, {});
  EXPECT_TRUE(checked.ok()) << checked.status();
  auto tokens = std::get<std::vector<TokenId>>(checked->prompt);
  const absl::Status status = SetPrompt(std::move(tokens), "token_ids.ids", model, {}, *checked);
  EXPECT_TRUE(status.ok()) << status;
  return *std::move(checked);
}

TEST(GenerateRequestTest, WhatIsLeftOutHasTheDocumentedDefault) {
  const CheckedRequest checked = MustCheck(Valid());
  const Request& request = checked.request;
  EXPECT_EQ(request.sampling.temperature, 1);
  EXPECT_EQ(request.sampling.top_p, 1);
  EXPECT_EQ(request.sampling.top_k, 0);
  EXPECT_EQ(request.sampling.min_p, 0);
  EXPECT_EQ(request.sampling.repetition_penalty, 1);
  EXPECT_EQ(request.sampling.num_logprobs, -1);
  EXPECT_EQ(request.prompt_logprobs, -1);
  EXPECT_EQ(request.num_choices, 1);
  // By default, prompt and output together may have 128 tokens, the size of the context.
  EXPECT_EQ(request.output_tokens_max, 127);
  EXPECT_EQ(request.output_tokens_min, 0);
  EXPECT_EQ(request.priority, 0);
  EXPECT_TRUE(request.read_cache);
  EXPECT_FALSE(checked.has_seed);
  EXPECT_THAT(request.stop_tokens, ElementsAre(2));
}

TEST(GenerateRequestTest, TheModelsOwnDefaultsCountWhereTheRequestSaysNothing) {
  ServedModel model = Model();
  model.defaults = {.temperature = 0.6f,
                    .top_p = 0.9f,
                    .repetition_penalty = 1.1f,
                    .top_k = 40,
                    .do_sample = false};
  v1::GenerateRequest message = Valid();
  message.mutable_sampling()->set_top_p(0.5f);
  const SamplingParams params = MustCheck(message, model).request.sampling;
  EXPECT_EQ(params.temperature, 0.6f);
  EXPECT_EQ(params.top_p, 0.5f);
  EXPECT_EQ(params.top_k, 40);
  EXPECT_EQ(params.repetition_penalty, 1.1f);
}

TEST(GenerateRequestTest, TinyTemperaturesAreGreedy) {
  for (const float temperature : {0.0f, 1e-40f, 9e-6f}) {
    v1::GenerateRequest message = Valid();
    message.mutable_sampling()->set_temperature(temperature);
    EXPECT_EQ(MustCheck(message).request.sampling.temperature, 0) << temperature;
  }
}

TEST(GenerateRequestTest, ATopKOfTheVocabularyOrMoreMeansAll) {
  for (const uint32_t top_k : {0u, 512u, 100'000u, 4294967295u}) {
    v1::GenerateRequest message = Valid();
    message.mutable_sampling()->set_top_k(top_k);
    EXPECT_EQ(MustCheck(message).request.sampling.top_k, 0) << top_k;
  }
  v1::GenerateRequest message = Valid();
  message.mutable_sampling()->set_top_k(511);
  EXPECT_EQ(MustCheck(message).request.sampling.top_k, 511);
}

TEST(GenerateRequestTest, ACacheSmallerThanTheContextBoundsPromptAndOutput) {
  ServedModel model = Model();
  model.cache_tokens = 64;
  EXPECT_EQ(MustCheck(Valid(), model).request.output_tokens_max, 63);
  v1::GenerateRequest message = Valid();
  for (int i = 1; i < 64; ++i) message.mutable_token_ids()->add_ids(1);
  const absl::Status status = CheckWhole(message, model);
  EXPECT_EQ(ErrorOf(status).reason, Reason::kPromptTooLong);
  EXPECT_THAT(MessageOf(status), HasSubstr("in the KV cache (64 tokens)"));
}

TEST(GenerateRequestTest, EverySeedIsTaken) {
  for (const int64_t seed : {std::numeric_limits<int64_t>::min(), int64_t{-1}, int64_t{0},
                             std::numeric_limits<int64_t>::max()}) {
    v1::GenerateRequest message = Valid();
    message.mutable_sampling()->set_seed(seed);
    const CheckedRequest checked = MustCheck(message);
    EXPECT_TRUE(checked.has_seed);
    EXPECT_EQ(checked.request.sampling.seed, static_cast<uint64_t>(seed));
  }
}

TEST(GenerateRequestTest, MaxTokensIsClampedToTheRoomAfterThePrompt) {
  for (const uint32_t max_tokens : {128u, 1u << 31, 4294967295u}) {
    v1::GenerateRequest message = Valid();
    message.mutable_output()->set_max_tokens(max_tokens);
    EXPECT_EQ(MustCheck(message).request.output_tokens_max, 127) << max_tokens;
  }
}

TEST(GenerateRequestTest, PriorityIsClampedToTheRange) {
  v1::GenerateRequest message = Valid();
  message.set_priority(std::numeric_limits<int32_t>::min());
  EXPECT_EQ(MustCheck(message).request.priority, -100);
  message.set_priority(std::numeric_limits<int32_t>::max());
  EXPECT_EQ(MustCheck(message).request.priority, 100);
}

TEST(GenerateRequestTest, PromptLogprobsAreBoundedBySizeAndDoNotReadTheCache) {
  v1::GenerateRequest message = Valid();
  message.mutable_output()->set_prompt_logprobs(20);
  EXPECT_FALSE(MustCheck(message).request.read_cache);

  ServedModel model = Model();
  model.max_model_len = 131'072;
  for (int i = 0; i < 100'000; ++i) message.mutable_token_ids()->add_ids(1);
  const absl::Status status = CheckWhole(message, model);
  EXPECT_EQ(ViolationOf(status).field(), "output.prompt_logprobs") << status;
}

TEST(GenerateRequestTest, StopTokensAreThoseOfRequestAndModelOnce) {
  v1::GenerateRequest message = Valid();
  for (const uint32_t id : {9u, 2u, 9u, 5u}) message.mutable_output()->add_stop_token_ids(id);
  EXPECT_THAT(MustCheck(message).request.stop_tokens, ElementsAre(2, 5, 9));
  message.mutable_output()->clear_stop_token_ids();
  message.mutable_output()->set_ignore_eos(true);
  EXPECT_THAT(MustCheck(message).request.stop_tokens, ElementsAre());
}

TEST(GenerateRequestTest, StopTokensThatLeaveNothingToSampleBeforeMinTokensAreRefused) {
  RequestLimits limits;
  limits.stop_tokens_max = 1000;
  v1::GenerateRequest message = Valid();
  for (uint32_t id = 0; id < 512; ++id) {
    // Token 2 is already a stop token of the model.
    if (id != 2) message.mutable_output()->add_stop_token_ids(id);
  }
  EXPECT_TRUE(CheckWhole(message, Model(), limits).ok());
  message.mutable_output()->set_min_tokens(1);
  const absl::Status status = CheckWhole(message, Model(), limits);
  EXPECT_EQ(ViolationOf(status).field(), "output.stop_token_ids") << status;
  EXPECT_THAT(MessageOf(status), HasSubstr("all 512 tokens"));
  message.mutable_output()->set_ignore_eos(true);  // token 2 is then no longer a stop token
  EXPECT_TRUE(CheckWhole(message, Model(), limits).ok());
}

TEST(GenerateRequestTest, TokensThatATokenizerHasAndTheModelHasNotAreRefused) {
  v1::GenerateRequest message;
  message.set_text("hello");
  auto checked = CheckGenerateRequest(message, Model(), {});
  ASSERT_TRUE(checked.ok());
  EXPECT_EQ(ViolationOf(SetPrompt({1, 512}, "text", Model(), {}, *checked)).field(), "text");
  EXPECT_EQ(ViolationOf(SetPrompt({}, "text", Model(), {}, *checked)).field(), "text");
}

TEST(TenantTest, OnlyPlainShortNamesAreTaken) {
  EXPECT_TRUE(CheckTenant("Acme-1.prod_x", {}).ok());
  for (const std::string& tenant :
       {std::string(), std::string(129, 'a'), std::string("a b"), std::string("\xff")}) {
    EXPECT_EQ(CheckTenant(tenant, {}).code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace incipit
