#include "server/session/request/conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <incipit/v1/inference.pb.h>

#include <functional>

#include "base/status.h"
#include "server/rpc/request_reader.h"
#include "server/session/request/checked_request.h"
#include "server/session/request/request_error.h"

namespace incipit {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ServedModel ChatModel() {
  ServedModel model;
  model.vocab_size = 512;
  model.max_model_len = 128;
  model.has_tokenizer = true;
  model.has_chat_template = true;
  return model;
}

v1::ChatRequest ValidChat() {
  v1::ChatRequest message;
  auto& first = *message.add_messages();
  first.set_role("user");
  first.set_content("hello");
  return message;
}

absl::Status Wanted() { return absl::OkStatus(); }

absl::StatusOr<CheckedRequest> CheckChatRequest(v1::ChatRequest message, const ServedModel& model,
                                                const RequestLimits& limits) {
  return CheckDraft(DraftOf(std::move(message), limits), model, limits, Wanted);
}

absl::StatusOr<Conversation> CheckConversation(v1::ChatRequest message,
                                               const RequestLimits& limits) {
  RequestDraft draft = DraftOf(std::move(message), limits);
  return incipit::CheckConversation(std::get<ConversationDraft>(std::move(draft.prompt)), limits,
                                    Wanted);
}

std::string Nested(int levels) {
  std::string text = "{\"a\":";
  for (int i = 0; i < levels; ++i) text += '[';
  for (int i = 0; i < levels; ++i) text += ']';
  return text + "}";
}

struct BadChat {
  std::string name;
  std::function<void(v1::ChatRequest&)> spoil;
  std::string field;
  std::string text;
};

void PrintTo(const BadChat& bad, std::ostream* out) { *out << bad.name; }

class BadChatRequest : public ::testing::TestWithParam<BadChat> {};

TEST_P(BadChatRequest, NamesTheFieldAndTheBoundAndEchoesNothing) {
  v1::ChatRequest message = ValidChat();
  GetParam().spoil(message);
  const absl::Status status = CheckChatRequest(message, ChatModel(), {}).status();
  ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(MessageOf(status), testing::StartsWith(GetParam().field + " "));
  EXPECT_THAT(MessageOf(status), HasSubstr(GetParam().text));
  EXPECT_THAT(MessageOf(status), Not(HasSubstr("canary")));
}

const BadChat kBadCases[] = {
    {"NoMessages", [](auto& m) { m.clear_messages(); }, "messages", "empty"},
    {"ManyMessages",
     [](auto& m) {
       for (int i = 0; i < 10'000; ++i) *m.add_messages() = m.messages(0);
     },
     "messages", "has 10001 messages; at most 1000"},
    {"NoRole", [](auto& m) { m.mutable_messages(0)->clear_role(); }, "messages[0].role", "1 to 64"},
    {"RoleWithControlTokens",
     [](auto& m) { m.mutable_messages(0)->set_role("<|im_start|>canary"); }, "messages[0].role",
     "lower-case"},
    {"LongRole", [](auto& m) { m.mutable_messages(0)->set_role(std::string(65, 'r')); },
     "messages[0].role", "has 65 bytes"},
    {"LongAuthor", [](auto& m) { m.mutable_messages(0)->set_name(std::string(300, 'n')); },
     "messages[0].name", "at most 256"},
    {"ToolCallWithoutName", [](auto& m) { m.mutable_messages(0)->add_tool_calls(); },
     "messages[0].tool_calls[0].name", "empty"},
    {"ToolCallArgumentsNoObject",
     [](auto& m) {
       auto& call = *m.mutable_messages(0)->add_tool_calls();
       call.set_name("f");
       call.set_arguments_json("[\"canary\"]");
     },
     "messages[0].tool_calls[0].arguments_json", "not a JSON object"},
    {"ManyTools",
     [](auto& m) {
       for (int i = 0; i < 129; ++i) m.add_tools()->set_name("f");
     },
     "tools", "has 129 tools; at most 128"},
    {"ToolParametersBroken",
     [](auto& m) {
       auto& tool = *m.add_tools();
       tool.set_name("f");
       tool.set_parameters_json("{\"canary\":");
     },
     "tools[0].parameters_json", "not a JSON object"},
    {"ReservedArgument",
     [](auto& m) { m.set_template_arguments_json(R"({"messages": "canary"})"); },
     "template_arguments_json", "sets messages, which is reserved"},
    {"LongArguments",
     [](auto& m) {
       m.set_template_arguments_json("{\"a\": \"" + std::string(1 << 16, 'x') + "\"}");
     },
     "template_arguments_json", "at most 65536"},
    {"DeepArguments", [](auto& m) { m.set_template_arguments_json(Nested(30'000)); },
     "template_arguments_json", "deeper than 32"},
    {"NanArgument", [](auto& m) { m.set_template_arguments_json("{\"a\": NaN}"); },
     "template_arguments_json", "not a JSON object"},
    {"BytesAfterNul", [](auto& m) { m.set_template_arguments_json(std::string("{}\0canary", 9)); },
     "template_arguments_json", "not a JSON object"},
    {"HugeNumber", [](auto& m) { m.set_template_arguments_json("{\"a\": 1e999}"); },
     "template_arguments_json", "not a JSON object"},
};

INSTANTIATE_TEST_SUITE_P(All, BadChatRequest, ::testing::ValuesIn(kBadCases),
                         [](const auto& info) { return info.param.name; });

TEST(ChatRequestTest, EveryReservedNameIsRefused) {
  for (const std::string name :
       {"messages", "tools", "documents", "add_generation_prompt", "chat_template", "bos_token",
        "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token",
        "additional_special_tokens"}) {
    v1::ChatRequest message = ValidChat();
    message.set_template_arguments_json("{\"" + name + "\": 1}");
    const absl::Status status = CheckConversation(message, {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(MessageOf(status), HasSubstr("sets " + name + ", which is reserved"));
  }
}

TEST(ChatRequestTest, TheTemplateSeesWhatTemplatesExpect) {
  v1::ChatRequest message = ValidChat();
  auto& assistant = *message.add_messages();
  assistant.set_role("assistant");
  auto& call = *assistant.add_tool_calls();
  call.set_id("c1");
  call.set_name("weather");
  call.set_arguments_json(R"({"city": "Paris", "days": 2})");
  auto& tool = *message.add_tools();
  tool.set_name("weather");
  tool.set_description("Tells it.");
  tool.set_parameters_json(R"({"type": "object"})");
  message.set_template_arguments_json(R"({"enable_thinking": false})");
  const auto conversation = CheckConversation(message, {});
  ASSERT_TRUE(conversation.ok()) << conversation.status();
  EXPECT_EQ(conversation->variables.dump(),
            R"({"messages":[{"role":"user","content":"hello"},)"
            R"({"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function",)"
            R"("function":{"name":"weather","arguments":{"city":"Paris","days":2}}}]}],)"
            R"("tools":[{"type":"function","function":{"name":"weather","description":"Tells it.",)"
            R"("parameters":{"type":"object"}}}],"documents":null,"add_generation_prompt":true,)"
            R"("enable_thinking":false})");
}

std::string ManyMembers(int num_members) {
  std::string text = "{";
  for (int i = 0; i < num_members; ++i) {
    if (i > 0) text += ',';
    text += "\"k" + std::to_string(i) + "\":0";
  }
  return text + "}";
}

TEST(ChatRequestTest, OfEqualNamesTheLastValueCountsInTheFirstsPosition) {
  // Few names are searched one by one, and many names with an index.
  for (const int num_others : {1, 100}) {
    v1::ChatRequest message = ValidChat();
    std::string text = ManyMembers(num_others);
    text.insert(1, R"("twice": 1, )");
    text.insert(text.size() - 1, R"(, "twice": 2)");
    message.set_template_arguments_json(text);
    const auto conversation = CheckConversation(message, {});
    ASSERT_TRUE(conversation.ok()) << conversation.status();
    EXPECT_EQ(conversation->variables.at("twice"), 2);
    EXPECT_THAT(conversation->variables.dump(), HasSubstr(R"(,"twice":2,"k0":0)"));
  }
}

TEST(ChatRequestTest, TheValuesOfAllJsonTextsTogetherAreBounded) {
  RequestLimits limits;
  limits.json_values_max = 100;
  v1::ChatRequest message = ValidChat();
  for (int i = 0; i < 2; ++i) {
    auto& tool = *message.add_tools();
    tool.set_name("f");
    tool.set_parameters_json(ManyMembers(50));
  }
  EXPECT_TRUE(CheckConversation(message, limits).ok());
  message.set_template_arguments_json(R"({"a": 1})");
  const absl::Status status = CheckConversation(message, limits).status();
  EXPECT_EQ(ErrorOf(status).field, "template_arguments_json");
  EXPECT_EQ(ErrorOf(status).bound, 100);
}

TEST(ChatRequestTest, AToolCallCountsAsFiveValues) {
  RequestLimits limits;
  limits.json_values_max = 10;
  v1::ChatRequest message = ValidChat();
  auto& reply = *message.add_messages();
  reply.set_role("assistant");
  for (int i = 0; i < 2; ++i) reply.add_tool_calls()->set_name("f");
  EXPECT_TRUE(CheckConversation(message, limits).ok());
  reply.mutable_tool_calls(1)->set_arguments_json(R"({"a": 1})");
  absl::Status status = CheckConversation(message, limits).status();
  EXPECT_EQ(ErrorOf(status).field, "messages[1].tool_calls[1].arguments_json");
  EXPECT_EQ(ErrorOf(status).bound, 10);
  reply.add_tool_calls()->set_name("f");
  status = CheckConversation(message, limits).status();
  EXPECT_EQ(ErrorOf(status).field, "messages[1].tool_calls");
  EXPECT_EQ(ErrorOf(status).bound, 10);
}

// If each name were compared with all earlier names, this test would take minutes.
TEST(ChatRequestTest, ManyNamesTakeTimeByTheirNumber) {
  RequestLimits limits;
  limits.template_arguments_bytes_max = 16 << 20;
  limits.json_values_max = 1 << 24;
  v1::ChatRequest message = ValidChat();
  message.set_template_arguments_json(ManyMembers(400'000));
  const auto conversation = CheckConversation(message, limits);
  ASSERT_TRUE(conversation.ok());
  EXPECT_EQ(conversation->variables.size(), 400'004u);
}

TEST(ChatRequestTest, WorkThatIsNotWantedAnyMoreEndsBetweenTwoTexts) {
  RequestDraft draft = DraftOf(ValidChat(), {});
  auto& conversation = std::get<ConversationDraft>(draft.prompt);
  conversation.tools.assign(100, {.name = "f", .description = "", .parameters_json = "{}"});
  int num_asked = 0;
  const absl::Status status = incipit::CheckConversation(conversation, {}, [&]() -> absl::Status {
                                if (++num_asked < 10) return absl::OkStatus();
                                return Refuse(Reason::kCancelled, "the client is gone");
                              }).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(num_asked, 10);
}

TEST(ChatRequestTest, AbsentListsAreNull) {
  v1::ChatRequest message = ValidChat();
  message.set_add_generation_prompt(false);
  const auto conversation = CheckConversation(message, {});
  ASSERT_TRUE(conversation.ok());
  EXPECT_EQ(conversation->variables.dump(),
            R"({"messages":[{"role":"user","content":"hello"}],"tools":null,"documents":null,)"
            R"("add_generation_prompt":false})");
}

TEST(ChatRequestTest, AModelWithoutTemplateOrTokenizerCannotChat) {
  ServedModel model = ChatModel();
  model.has_chat_template = false;
  absl::Status status = CheckChatRequest(ValidChat(), model, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorOf(status).reason, Reason::kNoChatTemplate);
  model.has_tokenizer = false;
  status = CheckChatRequest(ValidChat(), model, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorOf(status).reason, Reason::kNoTokenizer);
}

}  // namespace
}  // namespace incipit
