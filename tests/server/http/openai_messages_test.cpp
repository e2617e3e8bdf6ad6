#include "server/http/openai_messages.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/session/request/conversation.h"
#include "server/session/request/request_error.h"

namespace incipit {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Json = nlohmann::ordered_json;

absl::StatusOr<ConversationDraft> TryRead(std::string_view body, const RequestLimits& limits = {}) {
  const Json json = Json::parse(body);
  return ReadConversation(OpenAiFields(json), limits);
}
ConversationDraft ReadDraft(std::string_view body) {
  auto draft = TryRead(body);
  EXPECT_TRUE(draft.ok()) << body << ": " << draft.status();
  if (draft.ok()) return *std::move(draft);
  ConversationDraft empty;
  empty.messages.emplace_back();
  return empty;
}
// Reads a conversation whose only message is the JSON object `message`. Returns this message.
MessageDraft ReadMessage(std::string_view message) {
  return ReadDraft(fmt::format(R"({{"messages":[{}]}})", message)).messages.at(0);
}
std::string DraftRefused(std::string_view body) {
  const auto draft = TryRead(body);
  return draft.ok() ? "(accepted)" : ErrorOf(draft.status()).field;
}
std::string MessageRefused(std::string_view message) {
  return DraftRefused(fmt::format(R"({{"messages":[{{"role":"user"}},{}]}})", message));
}
std::string ToolRefused(std::string_view tool) {
  return DraftRefused(fmt::format(R"({{"messages":[],"tools":[{}]}})", tool));
}

TEST(OpenAiMessagesTest, ContentIsATextPartsOrNothing) {
  EXPECT_EQ(ReadMessage(R"({"role":"user","content":"a"})").content, "a");
  EXPECT_EQ(ReadMessage(R"({"role":"user","content":null})").content, "");
  EXPECT_EQ(ReadMessage(R"({"role":"user"})").content, "");
  EXPECT_EQ(ReadMessage(R"({"role":"user","content":[]})").content, "");
  EXPECT_EQ(ReadMessage(R"({"role":"user","content":[{"type":"text","text":"a"}]})").content, "a");
  EXPECT_EQ(ReadMessage(R"({"role":"user","content":[{"type":"text","text":"a"},)"
                        R"({"type":"text","text":""},{"type":"text","text":"b"}]})")
                .content,
            "a\n\nb");
}

TEST(OpenAiMessagesTest, PartsThatAreNotTextAreRefused) {
  const auto part = [](std::string_view one) {
    return MessageRefused(
        fmt::format(R"({{"role":"user","content":[{{"type":"text","text":"a"}},{}]}})", one));
  };
  for (const std::string_view type :
       {"image_url", "input_audio", "file", "refusal", "video_url", "", "Text"}) {
    EXPECT_EQ(part(fmt::format(R"({{"type":"{}","text":"x"}})", type)),
              "messages[1].content[1].type");
  }
  EXPECT_EQ(part(R"({"type":1})"), "messages[1].content[1].type");
  EXPECT_EQ(part(R"({"type":"text"})"), "messages[1].content[1].text");
  EXPECT_EQ(part(R"({"type":"text","text":1})"), "messages[1].content[1].text");
  EXPECT_EQ(part(R"("text")"), "messages[1].content[1]");
  EXPECT_EQ(part("null"), "messages[1].content[1]");
  EXPECT_EQ(MessageRefused(R"({"role":"user","content":1})"), "messages[1].content");
  EXPECT_EQ(MessageRefused(R"({"role":"user","content":{"type":"text"}})"), "messages[1].content");
}

TEST(OpenAiMessagesTest, ADeveloperIsTheSystem) {
  EXPECT_EQ(ReadMessage(R"({"role":"developer"})").role, "system");
  EXPECT_EQ(ReadMessage(R"({"role":"tool","tool_call_id":"c","name":"n"})").tool_call_id, "c");
  EXPECT_EQ(ReadMessage(R"({"role":"assistant","name":"n"})").name, "n");
  EXPECT_EQ(ReadMessage("{}").role, "") << "CheckConversation refuses an empty role";
  EXPECT_EQ(MessageRefused(R"({"role":1})"), "messages[1].role");
  EXPECT_EQ(MessageRefused(R"({"role":"user","name":1})"), "messages[1].name");
  EXPECT_EQ(MessageRefused(R"({"role":"tool","tool_call_id":1})"), "messages[1].tool_call_id");
  EXPECT_EQ(MessageRefused("1"), "messages[1]");
  EXPECT_EQ(MessageRefused("null"), "messages[1]");
}

TEST(OpenAiMessagesTest, ReasoningHasTwoNames) {
  EXPECT_EQ(ReadMessage(R"({"role":"assistant","reasoning_content":"a"})").reasoning, "a");
  EXPECT_EQ(ReadMessage(R"({"role":"assistant","reasoning":"b"})").reasoning, "b");
  EXPECT_EQ(
      ReadMessage(R"({"role":"assistant","reasoning":"b","reasoning_content":"a"})").reasoning,
      "a");
  EXPECT_EQ(ReadMessage(R"({"role":"assistant","reasoning_content":null})").reasoning, "");
  EXPECT_EQ(MessageRefused(R"({"role":"assistant","reasoning":1})"), "messages[1].reasoning");
}

TEST(OpenAiMessagesTest, ArgumentsOfAToolCallAreATextOrAnObject) {
  const auto arguments = [](std::string_view value) {
    const MessageDraft message = ReadMessage(fmt::format(
        R"({{"role":"assistant","content":null,"tool_calls":[{{"id":"c","type":"function",)"
        R"("function":{{"name":"f","arguments":{}}}}}]}})",
        value));
    EXPECT_EQ(message.tool_calls.at(0).id, "c");
    EXPECT_EQ(message.tool_calls.at(0).name, "f");
    EXPECT_EQ(message.num_tool_calls, 1u);
    return message.tool_calls.at(0).arguments_json;
  };
  EXPECT_EQ(arguments(R"("{\"a\": 1}")"), R"({"a": 1})");
  EXPECT_EQ(arguments(R"({"b":2,"a":[1,"\u0000"]})"), R"({"b":2,"a":[1,"\u0000"]})");
  EXPECT_EQ(arguments(R"("")"), "");
  EXPECT_EQ(arguments("null"), "");
}

TEST(OpenAiMessagesTest, AToolCallThatIsNoneIsRefusedWithItsPath) {
  const auto call = [](std::string_view value) {
    return MessageRefused(fmt::format(R"({{"role":"assistant","tool_calls":[{}]}})", value));
  };
  EXPECT_EQ(call("1"), "messages[1].tool_calls[0]");
  EXPECT_EQ(call("{}"), "messages[1].tool_calls[0].function");
  EXPECT_EQ(call(R"({"function":[]})"), "messages[1].tool_calls[0].function");
  EXPECT_EQ(call(R"({"id":1,"function":{}})"), "messages[1].tool_calls[0].id");
  EXPECT_EQ(call(R"({"function":{"name":1}})"), "messages[1].tool_calls[0].function.name");
  for (const std::string_view arguments : {"1", "[]", "true"}) {
    EXPECT_EQ(call(fmt::format(R"({{"function":{{"name":"f","arguments":{}}}}})", arguments)),
              "messages[1].tool_calls[0].function.arguments");
  }
  EXPECT_EQ(MessageRefused(R"({"role":"assistant","tool_calls":{}})"), "messages[1].tool_calls");
}

TEST(OpenAiMessagesTest, ToolsArrive) {
  const ConversationDraft draft = ReadDraft(
      R"({"messages":[],"tools":[{"type":"function","function":{"name":"f","description":"d",)"
      R"("parameters":{"z":1,"a":2},"strict":true}},{"function":{"name":"g"}}]})");
  ASSERT_EQ(draft.tools.size(), 2u);
  EXPECT_EQ(draft.num_tools, 2u);
  EXPECT_EQ(draft.tools[0].name, "f");
  EXPECT_EQ(draft.tools[0].description, "d");
  EXPECT_EQ(draft.tools[0].parameters_json, R"({"z":1,"a":2})") << "members keep their order";
  EXPECT_EQ(draft.tools[1].parameters_json, "");
}

TEST(OpenAiMessagesTest, ToolsThatAreNoFunctionsAreRefused) {
  EXPECT_EQ(ToolRefused("1"), "tools[0]");
  EXPECT_EQ(ToolRefused("{}"), "tools[0].function");
  EXPECT_EQ(ToolRefused(R"({"type":"web_search","function":{"name":"f"}})"), "tools[0].type");
  EXPECT_EQ(ToolRefused(R"({"function":"f"})"), "tools[0].function");
  EXPECT_EQ(ToolRefused(R"({"function":{"name":1}})"), "tools[0].function.name");
  EXPECT_EQ(ToolRefused(R"({"function":{"name":"f","description":1}})"),
            "tools[0].function.description");
  EXPECT_EQ(ToolRefused(R"({"function":{"name":"f","parameters":"{}"}})"),
            "tools[0].function.parameters");
  EXPECT_EQ(DraftRefused(R"({"messages":[],"tools":{}})"), "tools");
}

TEST(OpenAiMessagesTest, OptionsOfTheTemplateArrive) {
  const std::string_view messages = R"("messages":[{"role":"user"}])";
  ConversationDraft draft = ReadDraft(fmt::format("{{{}}}", messages));
  EXPECT_TRUE(draft.add_generation_prompt);
  EXPECT_FALSE(draft.continue_final_message);
  EXPECT_EQ(draft.template_arguments_json, "");
  draft = ReadDraft(fmt::format(
      R"({{{},"chat_template_kwargs":{{"b":[1],"a":null}},"add_generation_prompt":false}})",
      messages));
  EXPECT_EQ(draft.template_arguments_json, R"({"b":[1],"a":null})");
  EXPECT_FALSE(draft.add_generation_prompt);
  const auto arguments = [&](std::string_view more) {
    return ReadDraft(fmt::format("{{{},{}}}", messages, more)).template_arguments_json;
  };
  EXPECT_EQ(arguments(R"("reasoning_effort":"low")"), R"({"reasoning_effort":"low"})");
  EXPECT_EQ(arguments(R"("reasoning_effort":"low","chat_template_kwargs":{"a":1})"),
            R"({"a":1,"reasoning_effort":"low"})");
  EXPECT_EQ(arguments(R"("reasoning_effort":"low","chat_template_kwargs":{"reasoning_effort":1})"),
            R"({"reasoning_effort":1})");
  EXPECT_EQ(DraftRefused(fmt::format(R"({{{},"reasoning_effort":1}})", messages)),
            "reasoning_effort");
  draft = ReadDraft(fmt::format(R"({{{},"continue_final_message":true}})", messages));
  EXPECT_TRUE(draft.continue_final_message);
  EXPECT_FALSE(draft.add_generation_prompt);
  EXPECT_EQ(DraftRefused(fmt::format(
                R"({{{},"continue_final_message":true,"add_generation_prompt":true}})", messages)),
            "continue_final_message");
}

TEST(OpenAiMessagesTest, ListsAboveTheirLimitsAreCountedAndNotCopied) {
  const RequestLimits limits{.messages_max = 2, .tools_max = 1};
  const auto draft = TryRead(R"({"messages":[{},{},{},7],"tools":[{"function":{}},7,7]})", limits);
  ASSERT_TRUE(draft.ok()) << draft.status();
  EXPECT_EQ(draft->messages.size(), 2u);
  EXPECT_EQ(draft->num_messages, 4u);
  EXPECT_EQ(draft->tools.size(), 1u);
  EXPECT_EQ(draft->num_tools, 3u);
}

}  // namespace
}  // namespace incipit
