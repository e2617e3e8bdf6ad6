#include "server/http/openai_request.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "server/session/request/request_error.h"

namespace incipit {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::Pair;

const RequestLimits kRequestLimits;
const OpenAiLimits kLimits{.request = kRequestLimits};

// Returns a JSON body with a valid prompt. `more` contains further members of the JSON object.
std::string Body(std::string_view more) {
  return fmt::format(R"({{"prompt":"a"{}{}}})", more.empty() ? "" : ",", more);
}
std::string ChatBody(std::string_view more) {
  return fmt::format(R"({{"messages":[{{"role":"user","content":"hi"}}]{}{}}})",
                     more.empty() ? "" : ",", more);
}

OpenAiRequest Read(std::string_view more) {
  auto request = ReadCompletionRequest(Body(more), kLimits);
  EXPECT_TRUE(request.ok()) << more << ": " << request.status();
  if (request.ok()) return *std::move(request);
  OpenAiRequest empty;
  empty.drafts.emplace_back();
  return empty;
}
OpenAiRequest ReadChat(std::string_view more) {
  auto request = ReadChatRequest(ChatBody(more), kLimits);
  EXPECT_TRUE(request.ok()) << more << ": " << request.status();
  if (request.ok()) return *std::move(request);
  OpenAiRequest empty;
  empty.drafts.emplace_back();
  return empty;
}
RequestDraft Draft(std::string_view more) { return Read(more).drafts.at(0); }

// Returns the name of the field in the error `status`. Returns "(accepted)" if `status` is OK.
std::string FieldOf(const absl::Status& status) {
  if (status.ok()) return "(accepted)";
  EXPECT_EQ(ErrorOf(status).reason, Reason::kInvalidField) << status;
  return ErrorOf(status).field;
}
std::string Refused(std::string_view more) {
  return FieldOf(ReadCompletionRequest(Body(more), kLimits).status());
}
std::string ChatRefused(std::string_view more) {
  return FieldOf(ReadChatRequest(ChatBody(more), kLimits).status());
}
std::string BodyRefused(std::string_view body) {
  const std::string field = FieldOf(ReadCompletionRequest(body, kLimits).status());
  EXPECT_EQ(FieldOf(ReadChatRequest(body, kLimits).status()), field);
  EXPECT_EQ(FieldOf(ReadTokenizeRequest(body, kLimits).status()), field);
  EXPECT_EQ(FieldOf(ReadDetokenizeRequest(body, kLimits).status()), field);
  return field;
}

TEST(OpenAiRequestTest, WithoutFieldsACompletionHasTheDefaultsOfOpenAi) {
  const OpenAiRequest request = Read("");
  EXPECT_FALSE(request.format.is_chat || request.format.streams || request.format.echo ||
               request.format.include_usage || request.format.return_token_ids ||
               request.format.logprobs);
  EXPECT_EQ(request.format.num_choices, 1);
  ASSERT_EQ(request.drafts.size(), 1u);
  const RequestDraft& draft = request.drafts[0];
  EXPECT_EQ(std::get<std::string>(draft.prompt), "a");
  EXPECT_EQ(draft.output.max_tokens, 16u);
  EXPECT_EQ(draft.model, "");
  EXPECT_EQ(draft.priority, 0);
  EXPECT_FALSE(draft.sampling.temperature || draft.sampling.top_p || draft.sampling.top_k ||
               draft.sampling.seed || draft.sampling.repetition_penalty);
  EXPECT_FALSE(draft.output.keep_special_tokens || draft.output.ignore_eos ||
               draft.output.include_stop);
}

TEST(OpenAiRequestTest, WithoutFieldsAChatUsesTheRestOfTheContext) {
  const OpenAiRequest request = ReadChat("");
  EXPECT_TRUE(request.format.is_chat);
  EXPECT_EQ(request.drafts.at(0).output.max_tokens, 0u);
}

TEST(OpenAiRequestTest, EveryFieldArrives) {
  const OpenAiRequest request = Read(
      R"("model":"m","request_id":"r","temperature":0.5,"top_p":0.25,"top_k":7,"min_p":0.125,)"
      R"("repetition_penalty":1.5,"presence_penalty":-1,"frequency_penalty":2,"seed":-3,)"
      R"("logit_bias":{"5":-100,"7":1.5},"n":3,"best_of":3,"max_tokens":9,"min_tokens":2,)"
      R"("ignore_eos":true,"include_stop_str_in_output":true,"skip_special_tokens":false,)"
      R"("stop":["x","yy"],"stop_token_ids":[1,2],"cache_salt":"s","priority":4,"stream":true,)"
      R"("stream_options":{"include_usage":true},"return_token_ids":true,"echo":true,"logprobs":2)");
  EXPECT_TRUE(request.format.streams && request.format.include_usage &&
              request.format.return_token_ids && request.format.echo && request.format.logprobs);
  EXPECT_EQ(request.format.num_choices, 3);
  const RequestDraft& draft = request.drafts.at(0);
  EXPECT_EQ(draft.model, "m");
  EXPECT_EQ(draft.label, "r");
  EXPECT_EQ(draft.cache.salt, "s");
  EXPECT_EQ(draft.priority, -4) << "vLLM serves a request with a lower priority number first";
  EXPECT_THAT(draft.sampling.temperature, Optional(0.5f));
  EXPECT_THAT(draft.sampling.top_p, Optional(0.25f));
  EXPECT_THAT(draft.sampling.top_k, Optional(7u));
  EXPECT_THAT(draft.sampling.repetition_penalty, Optional(1.5f));
  EXPECT_THAT(draft.sampling.seed, Optional(static_cast<uint64_t>(-3)));
  EXPECT_EQ(draft.sampling.min_p, 0.125f);
  EXPECT_EQ(draft.sampling.presence_penalty, -1.0f);
  EXPECT_EQ(draft.sampling.frequency_penalty, 2.0f);
  EXPECT_THAT(draft.sampling.logit_bias, ElementsAre(Pair(5u, -100.0f), Pair(7u, 1.5f)));
  EXPECT_EQ(draft.output.num_choices, 3u);
  EXPECT_EQ(draft.output.max_tokens, 9u);
  EXPECT_EQ(draft.output.min_tokens, 2u);
  EXPECT_TRUE(draft.output.ignore_eos && draft.output.include_stop &&
              draft.output.keep_special_tokens);
  EXPECT_THAT(draft.output.stop, ElementsAre("x", "yy"));
  EXPECT_THAT(draft.output.stop_token_ids, ElementsAre(1, 2));
  EXPECT_THAT(draft.output.logprobs, Optional(2u));
  EXPECT_THAT(draft.output.prompt_logprobs, Optional(2u))
      << "with echo, the prompt also has log probabilities";
}

TEST(OpenAiRequestTest, NullIsAbsent) {
  constexpr std::string_view kFields[] = {"model",
                                          "request_id",
                                          "temperature",
                                          "top_p",
                                          "top_k",
                                          "min_p",
                                          "repetition_penalty",
                                          "presence_penalty",
                                          "frequency_penalty",
                                          "seed",
                                          "logit_bias",
                                          "n",
                                          "best_of",
                                          "max_tokens",
                                          "max_completion_tokens",
                                          "min_tokens",
                                          "ignore_eos",
                                          "include_stop_str_in_output",
                                          "skip_special_tokens",
                                          "stop",
                                          "stop_token_ids",
                                          "cache_salt",
                                          "priority",
                                          "stream",
                                          "stream_options",
                                          "return_token_ids",
                                          "echo",
                                          "logprobs",
                                          "top_logprobs",
                                          "response_format",
                                          "structured_outputs",
                                          "guided_json",
                                          "guided_regex",
                                          "guided_choice",
                                          "guided_grammar",
                                          "tool_choice",
                                          "allowed_token_ids",
                                          "bad_words",
                                          "prompt_embeds",
                                          "suffix",
                                          "functions",
                                          "function_call",
                                          "tools",
                                          "chat_template_kwargs",
                                          "continue_final_message",
                                          "add_generation_prompt",
                                          "user",
                                          "prompt_cache_key"};
  std::string all;
  for (const std::string_view field : kFields) {
    all += fmt::format("{}\"{}\":null", all.empty() ? "" : ",", field);
  }
  EXPECT_EQ(Draft(all).output.max_tokens, 16u);
  EXPECT_EQ(ReadChat(all).drafts.at(0).output.max_tokens, 0u);
  EXPECT_EQ(FieldOf(ReadCompletionRequest(R"({"prompt":null})", kLimits).status()), "prompt");
  EXPECT_EQ(FieldOf(ReadChatRequest(R"({"messages":null})", kLimits).status()), "messages");
}

TEST(OpenAiRequestTest, AWrongTypeNamesTheField) {
  constexpr std::string_view kWrong = R"({"a":1})";
  for (const std::string_view field : {"model",
                                       "request_id",
                                       "temperature",
                                       "top_p",
                                       "top_k",
                                       "min_p",
                                       "repetition_penalty",
                                       "presence_penalty",
                                       "frequency_penalty",
                                       "seed",
                                       "n",
                                       "best_of",
                                       "max_tokens",
                                       "min_tokens",
                                       "ignore_eos",
                                       "include_stop_str_in_output",
                                       "skip_special_tokens",
                                       "stop",
                                       "stop_token_ids",
                                       "cache_salt",
                                       "priority",
                                       "stream",
                                       "return_token_ids",
                                       "echo",
                                       "logprobs"}) {
    EXPECT_EQ(Refused(fmt::format("\"{}\":{}", field, kWrong)), field);
    EXPECT_EQ(Refused(fmt::format("\"{}\":[[]]", field)), field);
  }
  for (const std::string_view field : {"logprobs", "top_logprobs", "max_completion_tokens", "tools",
                                       "continue_final_message", "add_generation_prompt"}) {
    EXPECT_EQ(ChatRefused(fmt::format("\"{}\":{}", field, kWrong)), field);
  }
  EXPECT_EQ(Refused(R"("logit_bias":[1])"), "logit_bias");
  EXPECT_EQ(Refused(R"("stream":true,"stream_options":[])"), "stream_options");
  EXPECT_EQ(Refused(R"("stream":true,"stream_options":{"include_usage":1})"),
            "stream_options.include_usage");
  EXPECT_EQ(ChatRefused(R"("chat_template_kwargs":"{}")"), "chat_template_kwargs");
  EXPECT_EQ(Refused(R"("temperature":"0.5")"), "temperature");
  EXPECT_EQ(Refused(R"("temperature":true)"), "temperature");
  EXPECT_EQ(Refused(R"("stream":1)"), "stream");
  EXPECT_EQ(Refused(R"("logprobs":true)"), "logprobs");
}

TEST(OpenAiRequestTest, IntegersHaveTheirRange) {
  for (const std::string_view more : {R"("n":0)", R"("n":-1)", R"("n":17)", R"("n":2147483647)",
                                      R"("n":2147483648)", R"("n":1.5)", R"("n":"1")"}) {
    EXPECT_EQ(Refused(more), "n");
  }
  for (const std::string_view more : {R"("max_tokens":0)", R"("max_tokens":-1)",
                                      R"("max_tokens":4294967296)", R"("max_tokens":1e30)"}) {
    EXPECT_EQ(Refused(more), "max_tokens");
  }
  EXPECT_EQ(Refused(R"("top_k":-2)"), "top_k");
  EXPECT_EQ(Refused(R"("logprobs":-1)"), "logprobs");
  EXPECT_EQ(Refused(R"("logprobs":21)"), "logprobs");
  EXPECT_EQ(ChatRefused(R"("logprobs":true,"top_logprobs":21)"), "top_logprobs");
  EXPECT_EQ(Refused(R"("min_tokens":-1)"), "min_tokens");
  EXPECT_EQ(Refused(R"("priority":2147483648)"), "priority");
  EXPECT_EQ(Refused(R"("priority":-2147483648)"), "priority");
  EXPECT_EQ(Refused(R"("stop_token_ids":[-1])"), "stop_token_ids");
  EXPECT_EQ(Refused(R"("stop_token_ids":[2147483648])"), "stop_token_ids");
  EXPECT_EQ(Refused(R"("stop_token_ids":[1.0])"), "stop_token_ids");
  EXPECT_EQ(Draft(R"("n":2.0)").output.num_choices, 2u) << "2.0 and 2 are the same number in JSON";
  EXPECT_THAT(Draft(R"("top_k":-1)").sampling.top_k, Optional(0u)) << "-1 means all tokens";
  EXPECT_THAT(Draft(R"("top_k":0)").sampling.top_k, Optional(0u));
  EXPECT_EQ(Draft(R"("priority":-2147483647)").priority, 2147483647);
  EXPECT_THAT(Draft(R"("seed":9223372036854775807)").sampling.seed,
              Optional(uint64_t{9223372036854775807u}));
  EXPECT_THAT(Draft(R"("seed":-9223372036854775808)").sampling.seed, Optional(uint64_t{1} << 63));
  EXPECT_THAT(Draft(R"("seed":18446744073709551615)").sampling.seed, Optional(~uint64_t{0}));
  EXPECT_EQ(Refused(R"("seed":18446744073709551616)"), "seed");
}

TEST(OpenAiRequestTest, FieldsThatWouldChangeTheOutputAreRefused) {
  for (const std::string_view field :
       {"structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar",
        "allowed_token_ids", "bad_words", "prompt_embeds", "suffix", "functions", "function_call",
        "chat_template", "documents", "use_beam_search", "audio", "truncate_prompt_tokens",
        "logits_processors"}) {
    for (const std::string_view value : {R"("x")", "[1]", R"({"a":1})", "1"}) {
      EXPECT_EQ(Refused(fmt::format("\"{}\":{}", field, value)), field) << value;
      EXPECT_EQ(ChatRefused(fmt::format("\"{}\":{}", field, value)), field) << value;
    }
  }
  for (const std::string_view value :
       {R"({"type":"json_object"})", R"({"type":"json_schema"})", R"("text")", "{}", "[]", "1",
        R"({"type":["text"]})", R"({"type":null})"}) {
    EXPECT_EQ(ChatRefused(fmt::format("\"response_format\":{}", value)), "response_format");
  }
  for (const std::string_view value :
       {R"("required")", R"({"type":"function","function":{"name":"f"}})", "true", R"("")"}) {
    EXPECT_EQ(ChatRefused(fmt::format("\"tool_choice\":{}", value)), "tool_choice");
  }
  for (const std::string_view field : {"echo", "add_special_tokens"}) {
    EXPECT_EQ(ChatRefused(fmt::format("\"{}\":true", field)), field);
  }
  EXPECT_EQ(Refused(R"("best_of":2)"), "best_of");
  EXPECT_EQ(Refused(R"("n":2,"best_of":1)"), "best_of");
  EXPECT_EQ(Refused(R"("best_of":0)"), "best_of");
}

TEST(OpenAiRequestTest, TheirHarmlessValuesAreAccepted) {
  ReadChat(R"("response_format":{"type":"text"},"tool_choice":"auto","functions":[])");
  ReadChat(R"("tool_choice":"none","bad_words":[])");
  ReadChat(R"("echo":false,"add_special_tokens":false)");
  Read(R"("use_beam_search":false,"documents":[])");
  Read(R"("suffix":"","best_of":1,"user":"u","prompt_cache_key":"k")");
}

TEST(OpenAiRequestTest, OtherUnknownFieldsAreIgnored) {
  Read(R"("store":true,"metadata":{"a":["b"]},"service_tier":"auto","":0)");
  const RequestDraft draft = Draft(R"("prompt_cache_key":"k","user":"u")");
  EXPECT_EQ(draft.cache.salt, "") << "prompt_cache_key must not separate the prefix cache";
}

TEST(OpenAiRequestTest, OfEqualMembersTheLastCounts) {
  EXPECT_EQ(Draft(R"("n":2,"n":3)").output.num_choices, 3u);
  EXPECT_EQ(Draft(R"("max_tokens":2,"max_tokens":null)").output.max_tokens, 16u);
  std::string many;
  for (int i = 0; i < 100; ++i) many += fmt::format(R"("x{}":0,"max_tokens":{},)", i, i + 1);
  EXPECT_EQ(Draft(many + R"("y":0)").output.max_tokens, 100u);
}

TEST(OpenAiRequestTest, AnEchoMayHaveNoOutput) {
  const OpenAiRequest scored = Read(R"("echo":true,"max_tokens":0,"logprobs":1)");
  EXPECT_TRUE(scored.format.echo_only && scored.format.echo);
  EXPECT_EQ(scored.drafts.at(0).output.max_tokens, 1u);
  EXPECT_FALSE(Read(R"("echo":true,"max_tokens":1)").format.echo_only);
  EXPECT_EQ(Refused(R"("max_tokens":0)"), "max_tokens");
  EXPECT_EQ(Refused(R"("echo":false,"max_tokens":0)"), "max_tokens");
}

TEST(OpenAiRequestTest, APromptIsATextIdsOrAListOfThem) {
  const auto read = [](std::string_view prompt) {
    auto request = ReadCompletionRequest(fmt::format(R"({{"prompt":{},"n":2}})", prompt), kLimits);
    EXPECT_TRUE(request.ok()) << prompt << ": " << request.status();
    return request.ok() ? request->drafts : std::vector<RequestDraft>();
  };
  const auto ids = [&](std::string_view prompt, size_t i) {
    return std::get<TokensDraft>(read(prompt).at(i).prompt);
  };
  EXPECT_EQ(std::get<std::string>(read(R"("a\u0000b")").at(0).prompt), std::string("a\0b", 3));
  EXPECT_THAT(ids("[1,2,3]", 0), ElementsAre(1, 2, 3));
  EXPECT_THAT(ids("[2147483647,2147483648,18446744073709551615]", 0),
              ElementsAre(2147483647, -1, -1));
  EXPECT_THAT(ids("[[1,2],[3]]", 1), ElementsAre(3));
  EXPECT_THAT(ids("[[]]", 0), IsEmpty());
  EXPECT_EQ(read("[[1,2],[3]]").size(), 2u);
  EXPECT_THAT(ids(R"(["a",[3]])", 1), ElementsAre(3));
  const auto texts = read(R"(["a","b","c"])");
  ASSERT_EQ(texts.size(), 3u);
  EXPECT_EQ(std::get<std::string>(texts[2].prompt), "c");
  EXPECT_EQ(texts[2].output.num_choices, 2u);
}

TEST(OpenAiRequestTest, OtherPromptsAreRefused) {
  for (const std::string_view prompt :
       {"[]", "1", "true", "{}", "[true]", "[null]", "[{}]", "[-1]", "[1.5]", R"([1,"a"])",
        R"(["a",1])", R"(["a",null])", "[1,[2]]", "[[1],2]"}) {
    EXPECT_EQ(
        FieldOf(ReadCompletionRequest(fmt::format(R"({{"prompt":{}}})", prompt), kLimits).status()),
        "prompt")
        << prompt;
  }
  EXPECT_EQ(FieldOf(ReadCompletionRequest("{}", kLimits).status()), "prompt");
  EXPECT_EQ(FieldOf(ReadCompletionRequest(R"({"prompt":[[1],[-1]]})", kLimits).status()),
            "prompt[1]");
  EXPECT_EQ(FieldOf(ReadCompletionRequest(R"({"prompt":[[[1]]]})", kLimits).status()), "prompt[0]");
}

TEST(OpenAiRequestTest, TheNumberOfPromptsIsBounded) {
  const auto body = [](int count) {
    std::string list = "\"a\"";
    for (int i = 1; i < count; ++i) list += ",\"a\"";
    return "{\"prompt\":[" + list + "]}";
  };
  EXPECT_TRUE(ReadCompletionRequest(body(128), kLimits).ok());
  EXPECT_EQ(FieldOf(ReadCompletionRequest(body(129), kLimits).status()), "prompt");
}

TEST(OpenAiRequestTest, AStopIsATextOrAListOfTexts) {
  EXPECT_THAT(Draft(R"("stop":"end")").output.stop, ElementsAre("end"));
  EXPECT_THAT(Draft(R"("stop":"")").output.stop, IsEmpty());
  EXPECT_THAT(Draft(R"("stop":[])").output.stop, IsEmpty());
  EXPECT_THAT(Draft(R"("stop":["a"])").output.stop, ElementsAre("a"));
  for (const std::string_view stop :
       {"1", "true", R"({"a":"b"})", "[1]", "[null]", R"(["a",[]])"}) {
    EXPECT_EQ(Refused(fmt::format("\"stop\":{}", stop)), "stop");
  }
  std::string many = "\"a\"";
  for (int i = 0; i < 16; ++i) many += ",\"a\"";
  EXPECT_EQ(Refused("\"stop\":[" + many + "]"), "stop");
  std::string ids = "1";
  for (int i = 0; i < 64; ++i) ids += ",1";
  EXPECT_EQ(Refused("\"stop_token_ids\":[" + ids + "]"), "stop_token_ids");
}

TEST(OpenAiRequestTest, ABiasHasTokenIdsAndNumbers) {
  for (const std::string_view bias :
       {R"({"a":1})", R"({"":1})", R"({"-1":1})", R"({"1.5":1})", R"({"4294967296":1})",
        R"({"1":"2"})", R"({"1":null})", R"({"1":[1]})", R"({"1":1,"01":2})", R"({"0x1":1})"}) {
    EXPECT_EQ(Refused(fmt::format("\"logit_bias\":{}", bias)), "logit_bias") << bias;
  }
  EXPECT_THAT(Draft(R"("logit_bias":{"1":1,"1":2})").sampling.logit_bias,
              ElementsAre(Pair(1u, 2.0f)));
  std::string many = R"("0":1)";
  for (int i = 1; i <= 1024; ++i) many += fmt::format(",\"{}\":1", i);
  EXPECT_EQ(Refused("\"logit_bias\":{" + many + "}"), "logit_bias");
}

TEST(OpenAiRequestTest, SpecialTokensOfATextPromptAreAnOption) {
  EXPECT_TRUE(Draft("").add_special_tokens);
  EXPECT_TRUE(Draft(R"("add_special_tokens":true)").add_special_tokens);
  EXPECT_FALSE(Draft(R"("add_special_tokens":false)").add_special_tokens);
  EXPECT_EQ(Refused(R"("add_special_tokens":1)"), "add_special_tokens");
}

TEST(OpenAiRequestTest, OptionsOfAStreamNeedAStream) {
  EXPECT_EQ(Refused(R"("stream_options":{"include_usage":true})"), "stream_options");
  EXPECT_FALSE(Read(R"("stream":true,"stream_options":{})").format.include_usage);
  EXPECT_FALSE(
      Read(R"("stream":true,"stream_options":{"include_usage":null})").format.include_usage);
}

TEST(OpenAiRequestTest, LogprobsOfAChatAreAFlagAndANumber) {
  EXPECT_THAT(ReadChat(R"("logprobs":true)").drafts.at(0).output.logprobs, Optional(0u));
  const OpenAiRequest request = ReadChat(R"("logprobs":true,"top_logprobs":5)");
  EXPECT_TRUE(request.format.logprobs);
  EXPECT_THAT(request.drafts.at(0).output.logprobs, Optional(5u));
  EXPECT_FALSE(ReadChat(R"("logprobs":false)").drafts.at(0).output.logprobs);
  for (const std::string_view harmless :
       {R"("top_logprobs":0)", R"("logprobs":false,"top_logprobs":0)"}) {
    EXPECT_FALSE(ReadChat(harmless).drafts.at(0).output.logprobs) << harmless;
  }
  EXPECT_EQ(ChatRefused(R"("top_logprobs":5)"), "top_logprobs");
  EXPECT_EQ(ChatRefused(R"("logprobs":false,"top_logprobs":5)"), "top_logprobs");
  EXPECT_EQ(ChatRefused(R"("logprobs":2)"), "logprobs");
}

TEST(OpenAiRequestTest, TheNewNameOfTheTokenLimitWins) {
  EXPECT_EQ(ReadChat(R"("max_tokens":3)").drafts.at(0).output.max_tokens, 3u);
  EXPECT_EQ(ReadChat(R"("max_completion_tokens":5,"max_tokens":3)").drafts.at(0).output.max_tokens,
            5u);
  EXPECT_EQ(ChatRefused(R"("max_completion_tokens":0)"), "max_completion_tokens");
}

TEST(OpenAiRequestTest, ABodyMustBeAJsonObject) {
  for (const std::string_view body : {"",
                                      " ",
                                      "[]",
                                      "null",
                                      "1",
                                      "\"a\"",
                                      "{",
                                      "{}x",
                                      "{} {}",
                                      "{\"prompt\":\"a\"",
                                      "{'a':1}",
                                      "{\"a\":}",
                                      "{\"a\":1,}",
                                      "{a:1}",
                                      "{\"a\":NaN}",
                                      "{\"a\":Infinity}",
                                      "{\"a\":01}",
                                      "{\"a\":+1}",
                                      "{\"a\":.5}",
                                      "{\"a\":1e400}",
                                      "{\"a\":\"\n\"}",
                                      "{\"a\":\"\\x\"}",
                                      "{\"a\":\"\\ud800\"}",
                                      "// c\n{}",
                                      "\xff\xfe{\0}"}) {
    EXPECT_EQ(BodyRefused(body), "body") << body;
  }
}

TEST(OpenAiRequestTest, ABodyWithANulByteOrWithoutUtf8IsRefused) {
  EXPECT_EQ(BodyRefused(std::string_view("{\"prompt\":\"a\"}\0", 15)), "body");
  EXPECT_EQ(BodyRefused(std::string_view("\0{\"prompt\":\"a\"}", 15)), "body");
  EXPECT_EQ(BodyRefused(std::string_view("{\"prompt\":\"a\0\"}", 15)), "body");
  for (const std::string_view bytes :
       {"\xff", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80"}) {
    EXPECT_EQ(BodyRefused(fmt::format("{{\"prompt\":\"a{}\"}}", bytes)), "body");
    EXPECT_EQ(BodyRefused(fmt::format("{{\"{}\":\"a\"}}", bytes)), "body");
  }
}

TEST(OpenAiRequestTest, ABodyThatIsTooDeepIsRefused) {
  const auto nested = [](int levels) {
    return "{\"prompt\":\"a\",\"x\":" + std::string(static_cast<size_t>(levels), '[') +
           std::string(static_cast<size_t>(levels), ']') + "}";
  };
  EXPECT_TRUE(ReadCompletionRequest(nested(32), kLimits).ok());
  for (const int levels : {100, 500'000}) {
    const absl::Status status = ReadCompletionRequest(nested(levels), kLimits).status();
    EXPECT_EQ(FieldOf(status), "body");
    EXPECT_THAT(std::string(status.message()), HasSubstr("nested deeper"));
  }
  EXPECT_EQ(BodyRefused(std::string(1 << 20, '[')), "body");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_EQ(BodyRefused(objects), "body");
}

TEST(OpenAiRequestTest, TheNumberOfValuesIsBoundedExceptForTokenIds) {
  const auto list = [](std::string_view element, int count) {
    std::string out = "[";
    for (int i = 0; i < count; ++i) out += std::string(element) + ",";
    return out + std::string(element) + "]";
  };
  const auto body = [](std::string_view name, const std::string& value) {
    return fmt::format(R"({{"prompt":"a","messages":[],"tokens":[],"{}":{}}})", name, value);
  };
  constexpr int kMany = 200'000;
  for (const std::string_view element : {"1", "null", "\"\"", "[]", "{}", "1.5", R"({"a":1})"}) {
    EXPECT_EQ(BodyRefused(body("x", list(element, kMany))), "body") << element;
  }
  for (const std::string_view element : {"null", "\"\"", "[]", "1.5", "[1]"}) {
    EXPECT_EQ(BodyRefused(body("prompt", list(element, kMany))), "body") << element;
  }
  EXPECT_EQ(BodyRefused(body("x", R"({"prompt":)" + list("1", kMany) + "}")), "body");
  EXPECT_EQ(BodyRefused(body("prompt", list("1", 9) + R"(,"x":)" + list("1", kMany))), "body");

  auto request = ReadCompletionRequest(body("prompt", list("1", kMany)), kLimits);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(std::get<TokensDraft>(request->drafts.at(0).prompt).size(), kMany + 1u);
  request = ReadCompletionRequest(body("prompt", list(list("1", kMany / 4), 3)), kLimits);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->drafts.size(), 4u);
  EXPECT_TRUE(ReadDetokenizeRequest(body("tokens", list("1", kMany)), kLimits).ok());
  // A tool schema may have as many JSON values as in the gRPC API.
  const std::string schema = fmt::format(R"({{"type":"object","enum":{}}})", list("\"x\"", 65'000));
  EXPECT_TRUE(
      ReadChatRequest(
          ChatBody(fmt::format(
              R"("tools":[{{"type":"function","function":{{"name":"f","parameters":{}}}}}])",
              schema)),
          kLimits)
          .ok());
}

// Returns `text` repeated up to `size` bytes.
std::string Repeated(std::string_view text, size_t size = 1 << 20) {
  std::string out;
  while (out.size() < size) out += text;
  return out;
}

TEST(OpenAiRequestTest, OneMegabyteOfAnythingTakesLinearTime) {
  std::string members, biases;
  for (int i = 0; members.size() < 1 << 20; ++i) members += fmt::format("\"m{}\":0,", i);
  for (int i = 0; biases.size() < 1 << 20; ++i) biases += fmt::format("\"{}\":0,", i);
  const std::string bodies[] = {
      "{" + members + R"("prompt":"a"})",
      "{" + Repeated(R"("m":0,)") + R"("prompt":"a"})",
      "{" + Repeated(R"("prompt":"a",)") + R"("prompt":"a"})",
      R"({"prompt":[)" + Repeated("1,") + "1]}",
      R"({"prompt":[)" + Repeated("[1],") + "1]}",
      R"({"prompt":")" + Repeated("\\n") + R"("})",
      R"({"prompt":")" + Repeated("\\u00e9") + R"("})",
      R"({"prompt":"a","stop":[)" + Repeated(R"("",)") + R"(""]})",
      R"({"prompt":"a","stop_token_ids":[)" + Repeated("1,") + R"(1]})",
      R"({"prompt":"a","logit_bias":{)" + biases + R"("x":0}})",
      R"({"prompt":"a","x":)" + Repeated("[") + Repeated("]") + "}",
      R"({"prompt":"a","x":1)" + Repeated("0") + "}",
      R"({"prompt":"a","x":0.)" + Repeated("1") + "}",
      R"({"messages":[)" + Repeated("{},") + R"({}]})",
      R"({"messages":[{"content":[)" + Repeated(R"({"text":""},)") + R"({"text":""}]}]})",
      R"({"messages":[{"tool_calls":[)" + Repeated(R"({"function":{}},)") + R"(0]}]})",
      R"({"messages":[],"tools":[)" + Repeated(R"({"function":{}},)") + R"(0]})",
      R"({"messages":[{"role":"user",)" + members + R"("x":0}]})"};
  for (const std::string& body : bodies) {
    const auto begin = std::chrono::steady_clock::now();
    (void)ReadCompletionRequest(body, kLimits);
    (void)ReadChatRequest(body, kLimits);
    const auto time = std::chrono::steady_clock::now() - begin;
    // The limit of 10 s excludes quadratic time, which would be minutes. Linear time is below 0.2
    // s, or about 1 s with AddressSanitizer.
    EXPECT_LT(time, std::chrono::seconds(10)) << body.substr(0, 60);
  }
}

TEST(OpenAiRequestTest, AnErrorNamesNoTextOfTheClient) {
  for (const std::string_view more :
       {R"("n":"canary")", R"("stop":{"canary":1})", R"("logit_bias":{"canary":1})",
        R"("suffix":"canary")", R"("response_format":{"type":"canary"})", R"("canary)"}) {
    const absl::Status status = ReadCompletionRequest(Body(more), kLimits).status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), ::testing::Not(HasSubstr("canary")));
  }
}

}  // namespace
}  // namespace incipit
