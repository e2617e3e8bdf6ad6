#include "server/http/openai_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "server/session/request/request_error.h"

namespace incipit {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

constexpr int kReasons = static_cast<int>(Reason::kCannotResume) + 1;

std::string ParamFor(std::string_view field) {
  const auto error = nlohmann::json::parse(ErrorJson(InvalidField(field, "is wrong")))["error"];
  const auto param = error["param"].get<std::string>();
  EXPECT_EQ(error["message"], param + " is wrong");
  return param;
}

TEST(OpenAiErrorTest, EveryReasonHasAStatusAndABody) {
  for (int i = 0; i < kReasons; ++i) {
    const auto reason = static_cast<Reason>(i);
    EXPECT_THAT(HttpStatusOf(reason), AnyOf(400, 401, 403, 404, 408, 409, 429, 431, 500, 503)) << i;
    const HttpResponse response = ErrorResponse(Refuse(reason, "no \"luck\""));
    EXPECT_EQ(response.status, HttpStatusOf(reason));
    EXPECT_EQ(response.content_type, "application/json");
    const auto error = nlohmann::json::parse(response.body)["error"];
    EXPECT_EQ(error["message"], "no \"luck\"");
    EXPECT_EQ(error.size(), 4u);
    EXPECT_TRUE(error["type"].is_string());
    EXPECT_TRUE(error["param"].is_null());
    EXPECT_TRUE(error["code"].is_string());
    const bool retries = response.status == 429 || response.status == 503;
    EXPECT_THAT(response.fields,
                testing::Conditional(retries, Contains(Pair("Retry-After", "1")),
                                     Not(Contains(Pair("Retry-After", testing::_)))))
        << i;
    // OpenAI's clients repeat a request with status 408 or 500 unless the header field
    // X-Should-Retry forbids it.
    const bool is_hopeless = reason == Reason::kDeadline || reason == Reason::kCancelled ||
                             reason == Reason::kWriteStalled || reason == Reason::kInternal;
    EXPECT_THAT(response.fields,
                testing::Conditional(is_hopeless, Contains(Pair("X-Should-Retry", "false")),
                                     Not(Contains(Pair("X-Should-Retry", testing::_)))))
        << i;
  }
}

TEST(OpenAiErrorTest, TheStatusOfEachKindOfRefusal) {
  EXPECT_EQ(HttpStatusOf(Reason::kInvalidField), 400);
  EXPECT_EQ(HttpStatusOf(Reason::kPromptTooLong), 400);
  EXPECT_EQ(HttpStatusOf(Reason::kTemplateRefused), 400);
  EXPECT_EQ(HttpStatusOf(Reason::kModelNotFound), 404);
  EXPECT_EQ(HttpStatusOf(Reason::kDeadline), 408);
  EXPECT_EQ(HttpStatusOf(Reason::kQueueFull), 429);
  EXPECT_EQ(HttpStatusOf(Reason::kTooManyStreams), 429);
  EXPECT_EQ(HttpStatusOf(Reason::kDraining), 503);
  EXPECT_EQ(HttpStatusOf(Reason::kEngineFailed), 503);
  EXPECT_EQ(HttpStatusOf(Reason::kInternal), 500);
}

TEST(OpenAiErrorTest, TheBodyIsOpenAis) {
  EXPECT_EQ(ErrorJson(InvalidField("sampling.top_p", "is 2")),
            R"({"error":{"message":"top_p is 2","type":"invalid_request_error",)"
            R"("param":"top_p","code":"invalid_field"}})");
  EXPECT_EQ(ErrorJson(FieldViolation("messages", "is long", Reason::kPromptTooLong)),
            R"({"error":{"message":"messages is long","type":"invalid_request_error",)"
            R"("param":"messages","code":"context_length_exceeded"}})");
  EXPECT_EQ(
      ErrorResponse(415, "no").body,
      R"({"error":{"message":"no","type":"invalid_request_error","param":null,"code":null}})");
  EXPECT_EQ(ErrorJson(Refuse(Reason::kModelNotFound, "no")),
            R"({"error":{"message":"no","type":"not_found_error","param":null,)"
            R"("code":"model_not_found"}})");
}

TEST(OpenAiErrorTest, ParametersHaveTheNamesOfTheClient) {
  for (const auto& [ours, theirs] : std::vector<std::pair<std::string, std::string>>{
           {"sampling.temperature", "temperature"},
           {"sampling.logit_bias", "logit_bias"},
           {"output.n", "n"},
           {"output.max_tokens", "max_tokens"},
           {"output.stop[3]", "stop[3]"},
           {"output.logprobs", "logprobs"},
           {"output.prompt_logprobs", "logprobs"},
           {"output.stop_token_ids", "stop_token_ids"},
           {"cache.salt", "cache_salt"},
           {"cache_salt", "cache_salt"},
           {"text", "prompt"},
           {"token_ids", "prompt"},
           {"token_ids.ids", "prompt"},
           {"prompt", "prompt"},
           {"model", "model"},
           {"request_id", "request_id"},
           {"template_arguments_json", "chat_template_kwargs"},
           {"messages[2].role", "messages[2].role"},
           {"messages[2].tool_calls[1].arguments_json",
            "messages[2].tool_calls[1].function.arguments"},
           {"messages[2].tool_calls[1].name", "messages[2].tool_calls[1].function.name"},
           {"messages[2].name", "messages[2].name"},
           {"tools[1].name", "tools[1].function.name"},
           {"tools[1].parameters_json", "tools[1].function.parameters"}}) {
    EXPECT_EQ(ParamFor(ours), theirs);
  }
}

TEST(OpenAiErrorTest, TheDelayIsRoundedUpToWholeSeconds) {
  const auto seconds = [](double delay) {
    const auto status =
        WithRetryDelay(Refuse(Reason::kQueueFull, "full"),
                       std::chrono::duration_cast<Duration>(std::chrono::duration<double>(delay)));
    return ErrorResponse(status).fields.at(0).second;
  };
  EXPECT_EQ(seconds(0), "1");
  EXPECT_EQ(seconds(0.2), "1");
  EXPECT_EQ(seconds(1.5), "2");
  EXPECT_EQ(seconds(30), "30");
}

TEST(OpenAiErrorTest, ErrorsOfHttpItselfHaveTheirFields) {
  EXPECT_THAT(ErrorResponse(401, "no").fields, Contains(Pair("WWW-Authenticate", "Bearer")));
  EXPECT_THAT(ErrorResponse(429, "no").fields, Contains(Key("Retry-After")));
  EXPECT_THAT(ErrorResponse(400, "no").fields, Not(Contains(Key("Retry-After"))));
  for (const int status : {400, 401, 403, 404, 405, 408, 413, 415, 421, 429, 431, 500, 503}) {
    const auto error = nlohmann::json::parse(ErrorResponse(status, "x\xff").body)["error"];
    EXPECT_EQ(error["message"], "x\uFFFD");
    EXPECT_EQ(error["type"] == "server_error", status >= 500) << status;
  }
}

TEST(OpenAiErrorTest, AStatusWithoutDetailsIsAnInternalError) {
  EXPECT_EQ(ErrorResponse(absl::UnknownError("x")).status, 500);
}

}  // namespace
}  // namespace incipit
