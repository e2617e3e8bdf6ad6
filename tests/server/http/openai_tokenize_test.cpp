#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/http/openai_request.h"
#include "server/session/request/request_error.h"

namespace incipit {
namespace {

using ::testing::ElementsAre;

const RequestLimits kTextLimits;
const OpenAiLimits kTokenizeLimits{.request = kTextLimits};

TEST(OpenAiTokenizeTest, TokenizeHasAPromptOrMessages) {
  const auto request = ReadTokenizeRequest(
      R"({"prompt":"a","model":"m","add_special_tokens":false})", kTokenizeLimits);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(std::get<std::string>(request->prompt), "a");
  EXPECT_EQ(request->model, "m");
  EXPECT_FALSE(request->add_special_tokens);
  const auto chat =
      ReadTokenizeRequest(R"({"messages":[{"role":"user","content":"hi"}]})", kTokenizeLimits);
  ASSERT_TRUE(chat.ok());
  EXPECT_TRUE(chat->add_special_tokens);
  EXPECT_EQ(std::get<ConversationDraft>(chat->prompt).messages.size(), 1u);
  EXPECT_EQ(ErrorOf(ReadTokenizeRequest("{}", kTokenizeLimits).status()).field, "messages");
  EXPECT_EQ(ErrorOf(ReadTokenizeRequest(R"({"prompt":["a"]})", kTokenizeLimits).status()).field,
            "prompt");
}

TEST(OpenAiTokenizeTest, DetokenizeHasTokenIds) {
  const auto ids = ReadDetokenizeRequest(R"({"tokens":[1,4294967296]})", kTokenizeLimits);
  ASSERT_TRUE(ids.ok());
  EXPECT_THAT(ids->tokens, ElementsAre(1, -1));
  for (const std::string_view tokens : {"null", "1", "\"a\"", "[\"a\"]", "[-1]", "[1.0]", "{}"}) {
    EXPECT_EQ(
        ErrorOf(ReadDetokenizeRequest(fmt::format(R"({{"tokens":{}}})", tokens), kTokenizeLimits)
                    .status())
            .field,
        "tokens")
        << tokens;
  }
}

}  // namespace
}  // namespace incipit
