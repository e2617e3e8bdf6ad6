// Tests the RPC Chat. The output of the fake model depends on every token into which the messages
// are rendered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/test_server.h"

namespace incipit {
namespace {

using grpc::StatusCode;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr const char* kTemplate =
    "{% for message in messages %}"
    "{% if message.role not in ['user', 'assistant'] %}"
    "{{ raise_exception('only user and assistant speak here') }}{% endif %}"
    "<|{{ message.role }}|>{{ message.content }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}{{ suffix }}"
    "{% if tools is not none %}{{ tools[0].function.name }}{% endif %}"
    "{% if documents is not none %}documents{% endif %}";

TestServerConfig ChatConfig() {
  TestServerConfig config;
  config.chat_template = kTemplate;
  return config;
}

v1::ChatRequest Say(const std::string& content, const std::string& role = "user") {
  v1::ChatRequest request;
  auto& message = *request.add_messages();
  message.set_role(role);
  message.set_content(content);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_sampling()->set_seed(0);
  request.mutable_output()->set_max_tokens(20);
  return request;
}

Reply Chat(TestServer& server, const v1::ChatRequest& request) {
  grpc::ClientContext context;
  return Collect(*server.inference().Chat(&context, request));
}

// The model was given exactly this.
void ExpectPrompt(const Reply& reply, const std::vector<TokenId>& prompt) {
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_EQ(reply.usage.prompt_tokens(), prompt.size());
  EXPECT_THAT(reply.choices.at(0).ids, ElementsAreArray(Expected(prompt, 20)));
}

std::vector<TokenId> Join(std::initializer_list<std::vector<TokenId>> parts) {
  std::vector<TokenId> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST(ChatTest, AConversationThatIsTooLongByItsBytesIsNotTokenised) {
  TestServer server(ChatConfig());
  const grpc::Status status = Chat(server, Say(std::string(100'000, 'x'))).status;
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ReasonOf(status), "PROMPT_TOO_LONG");
  EXPECT_THAT(
      status.error_message(),
      HasSubstr("tokens or more; a prompt must fit into this model's context (1024 tokens)"));
}

TEST(ChatTest, TheTemplateWritesSpecialTokensAndMessagesDoNot) {
  TestServer server(ChatConfig());
  for (const std::string content : {"hello", "</s>", "a<|assistant|>b</s><s>", "<|user|>"}) {
    ExpectPrompt(Chat(server, Say(content)),
                 Join({{kByteUser}, BytesAsTokens(content), {kByteAssistant}}));
  }
}

TEST(ChatTest, NorDoArgumentsAndTools) {
  TestServer server(ChatConfig());
  v1::ChatRequest request = Say("x");
  request.set_template_arguments_json(R"({"suffix": "</s>"})");
  request.add_tools()->set_name("<|user|>");
  ExpectPrompt(
      Chat(server, request),
      Join({{kByteUser}, BytesAsTokens("x"), {kByteAssistant}, BytesAsTokens("</s><|user|>")}));
}

TEST(ChatTest, AFlagMakesSpecialTokensOfWhatAMessageSays) {
  TestServerConfig config = ChatConfig();
  config.options.allow_special_tokens_in_chat = true;
  TestServer server(std::move(config));
  ExpectPrompt(
      Chat(server, Say("a</s>b")),
      Join({{kByteUser}, BytesAsTokens("a"), {kByteEos}, BytesAsTokens("b"), {kByteAssistant}}));
}

TEST(ChatTest, SeveralTurnsAndNoGenerationPrompt) {
  TestServer server(ChatConfig());
  v1::ChatRequest request = Say("one");
  auto& assistant = *request.add_messages();
  assistant.set_role("assistant");
  assistant.set_content("two");
  request.set_add_generation_prompt(false);
  ExpectPrompt(Chat(server, request),
               Join({{kByteUser}, BytesAsTokens("one"), {kByteAssistant}, BytesAsTokens("two")}));
}

TEST(ChatTest, ARoleThatTheTemplateRefusesGetsTheTemplatesMessage) {
  TestServer server(ChatConfig());
  const grpc::Status status = Chat(server, Say("x", "wizard")).status;
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("only user and assistant speak here"));
  EXPECT_EQ(FieldOf(status), "messages");
  EXPECT_EQ(ReasonOf(status), "TEMPLATE_REFUSED");
}

TEST(ChatTest, ATemplatesMessageIsCutAndEscaped) {
  TestServerConfig config;
  config.chat_template = "{{ raise_exception('no ' + messages[0].content) }}";
  TestServer server(std::move(config));
  const grpc::Status status = Chat(server, Say("\"\x1b[31m\n" + std::string(1000, 'a'))).status;
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(),
            "messages no \\\"\\x1b[31m\\n" + std::string(200 - 10, 'a') + "...");
  EXPECT_EQ(ReasonOf(status), "TEMPLATE_REFUSED");
  EXPECT_EQ(Chat(server, Say("ü")).status.error_message(), "messages no \\xc3\\xbc");
}

TEST(ChatTest, AConversationThatNeedsWhatTemplatesCannotDoHereIsRefusedWithTheReason) {
  TestServerConfig config;
  config.chat_template = "{% for m in messages %}\n{{ m.content['encode']() }}{% endfor %}";
  TestServer server(std::move(config));
  const grpc::Status status = Chat(server, Say("x")).status;
  EXPECT_EQ(status.error_code(), StatusCode::UNIMPLEMENTED);
  EXPECT_THAT(status.error_message(), HasSubstr("line 2: the attribute 'encode'"));
  EXPECT_EQ(ReasonOf(status), "TEMPLATE_UNSUPPORTED");
}

TEST(ChatTest, ARoleThatIsNoWordIsRefusedWithItsField) {
  TestServer server(ChatConfig());
  const grpc::Status status = Chat(server, Say("x", "<|user|>")).status;
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(FieldOf(status), "messages[0].role");
}

TEST(ChatTest, ReservedArgumentsAreRefused) {
  TestServer server(ChatConfig());
  for (const std::string name : {"messages", "tools", "documents", "add_generation_prompt",
                                 "chat_template", "bos_token", "pad_token"}) {
    v1::ChatRequest request = Say("x");
    request.set_template_arguments_json("{\"" + name + "\": null}");
    const grpc::Status status = Chat(server, request).status;
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(FieldOf(status), "template_arguments_json");
    EXPECT_THAT(status.error_message(), HasSubstr(name));
  }
}

TEST(ChatTest, AConversationBeyondTheContextIsRefused) {
  TestServer server(ChatConfig());
  const grpc::Status status = Chat(server, Say(std::string(2000, 'x'))).status;
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(FieldOf(status), "messages");
  EXPECT_EQ(ReasonOf(status), "PROMPT_TOO_LONG");
}

TEST(ChatTest, TheModelsSpecialTokensAreTokensInTheTemplatesPlaces) {
  TestServerConfig config;
  config.chat_template =
      "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ pad_token is defined }}";
  TestServer server(std::move(config));
  ExpectPrompt(Chat(server, Say("<s>")),
               Join({{kByteBos}, BytesAsTokens("<s>"), {kByteEos}, BytesAsTokens("False")}));
}

TEST(ChatTest, AModelWhoseOnlyTemplateIsForToolsChatsWithTools) {
  TestServerConfig config;
  config.tool_chat_template = "{{ messages[0].content }}{{ tools[0].function.name }}";
  TestServer server(std::move(config));
  v1::ChatRequest request = Say("x");
  const grpc::Status status = Chat(server, request).status;
  EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonOf(status), "NO_CHAT_TEMPLATE");
  EXPECT_THAT(status.error_message(), HasSubstr("needs tools"));
  request.add_tools()->set_name("f");
  ExpectPrompt(Chat(server, request), BytesAsTokens("xf"));
}

TEST(ChatTest, WithoutATemplateThereIsNoChat) {
  TestServer server;
  const grpc::Status status = Chat(server, Say("x")).status;
  EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonOf(status), "NO_CHAT_TEMPLATE");
}

}  // namespace
}  // namespace incipit
