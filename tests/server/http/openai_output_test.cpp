#include "server/http/openai_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace incipit {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using Json = nlohmann::ordered_json;

constexpr std::string_view kChunk =
    R"(data: {"id":"id","object":"chat.completion.chunk","created":7,"model":"m","choices":[)";
constexpr std::string_view kTextChunk =
    R"(data: {"id":"id","object":"text_completion","created":7,"model":"m","choices":[)";

OpenAiOutput Output(const OpenAiFormat& format, size_t num_prompts = 1) {
  return OpenAiOutput(format, {.id = "id", .model = "m", .created = 7}, num_prompts, nullptr);
}

OutputDelta Delta(std::string text, std::vector<TokenId> tokens = {1}, int32_t choice = 0) {
  OutputDelta delta;
  delta.choice = choice;
  delta.text = std::move(text);
  delta.tokens = std::move(tokens);
  return delta;
}
OutputDelta Last(OutputDelta delta, FinishReason finish = FinishReason::kStop) {
  delta.finish = finish;
  return delta;
}
OutputPart Part(std::vector<OutputDelta> deltas) {
  OutputPart part;
  part.deltas = std::move(deltas);
  return part;
}
OutputPart WithUsage(OutputPart part, int32_t prompt, int32_t output, int32_t cached) {
  part.usage = OutputUsage{.num_prompt_tokens = prompt,
                           .num_output_tokens = output,
                           .num_cached_tokens = cached,
                           .miss = {},
                           .waits = {},
                           .first_token_seconds = {}};
  return part;
}
ScoredPosition Scored(TokenId token, const std::string& bytes, float logprob,
                      std::vector<ScoredToken> top = {}) {
  return {.token = {.token = token, .logprob = logprob, .bytes = bytes},
          .rank = 1,
          .top = std::move(top)};
}

// Returns the JSON of each event of `stream`, without the event [DONE].
std::vector<Json> EventsOf(std::string_view stream) {
  std::vector<Json> events;
  while (!stream.empty()) {
    EXPECT_THAT(std::string(stream), StartsWith("data: "));
    const size_t end = stream.find("\n\n");
    EXPECT_NE(end, std::string_view::npos);
    if (end == std::string_view::npos) break;
    const std::string_view data = stream.substr(6, end - 6);
    EXPECT_EQ(data.find('\n'), std::string_view::npos);
    if (data != "[DONE]") events.push_back(Json::parse(data));
    stream.remove_prefix(end + 2);
  }
  return events;
}

TEST(OpenAiOutputTest, AStreamOfAChat) {
  OpenAiOutput output = Output({.is_chat = true, .streams = true});
  EXPECT_EQ(output.Add(0, Part({Delta("a\n")})),
            std::string(kChunk) +
                R"({"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,)"
                R"("finish_reason":null}]})"
                "\n\n" +
                std::string(kChunk) +
                R"({"index":0,"delta":{"content":"a\n"},"logprobs":null,"finish_reason":null}]})"
                "\n\n");
  EXPECT_EQ(output.Add(0, WithUsage(Part({Last(Delta(""))}), 3, 2, 1)),
            std::string(kChunk) +
                R"({"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"stop",)"
                R"("stop_reason":null}]})"
                "\n\n");
  EXPECT_EQ(output.StreamEnd(), "data: [DONE]\n\n");
  EXPECT_EQ(output.num_kept_bytes(), 0u);
}

TEST(OpenAiOutputTest, AStreamOfACompletionHasNoFirstEvent) {
  OpenAiOutput output = Output({.streams = true});
  EXPECT_EQ(output.Add(0, Part({Last(Delta("b"), FinishReason::kLength)})),
            std::string(kTextChunk) +
                R"({"index":0,"text":"b","logprobs":null,"finish_reason":"length",)"
                R"("stop_reason":null}]})"
                "\n\n");
}

TEST(OpenAiOutputTest, UsageIsNullUntilALastEventWithoutChoices) {
  OpenAiOutput output = Output({.is_chat = true, .streams = true, .include_usage = true});
  const std::string stream = output.Add(0, WithUsage(Part({Last(Delta("a"))}), 30, 4, 16));
  for (const Json& event : EventsOf(stream)) EXPECT_EQ(event["usage"], nullptr);
  EXPECT_EQ(output.StreamEnd(),
            std::string(kChunk) +
                R"(],"usage":{"prompt_tokens":30,"completion_tokens":4,"total_tokens":34,)"
                R"("prompt_tokens_details":{"cached_tokens":16}}})"
                "\n\ndata: [DONE]\n\n");
}

TEST(OpenAiOutputTest, WithoutTheOptionAStreamHasNoUsage) {
  OpenAiOutput output = Output({.is_chat = true, .streams = true});
  EXPECT_THAT(output.Add(0, WithUsage(Part({Last(Delta("a"))}), 30, 4, 16)),
              Not(HasSubstr("usage")));
}

TEST(OpenAiOutputTest, APartThatAClientCannotUseIsNoEvent) {
  OpenAiOutput output = Output({.streams = true});
  EXPECT_EQ(output.Add(0, Part({Delta("", {200})})), "") << "half of a character";
  EXPECT_EQ(output.Add(0, OutputPart()), "");
  EXPECT_EQ(EventsOf(output.Add(0, Part({Delta("ü", {201})}))).size(), 1u);
  OpenAiOutput with_ids = Output({.streams = true, .return_token_ids = true});
  EXPECT_EQ(EventsOf(with_ids.Add(0, Part({Delta("", {200})}))).size(), 2u);
}

TEST(OpenAiOutputTest, AWholeChat) {
  OpenAiOutput output = Output({.is_chat = true});
  EXPECT_EQ(output.Add(0, Part({Delta("a\"")})), "");
  EXPECT_EQ(output.Add(0, WithUsage(Part({Last(Delta("b"))}), 5, 2, 0)), "");
  EXPECT_EQ(
      output.Whole(),
      R"({"id":"id","object":"chat.completion","created":7,"model":"m","choices":[)"
      R"({"index":0,"message":{"role":"assistant","content":"a\"b"},"logprobs":null,)"
      R"("finish_reason":"stop","stop_reason":null}],"usage":{"prompt_tokens":5,)"
      R"("completion_tokens":2,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":0}}})");
  EXPECT_GE(output.num_kept_bytes(), 3u);
}

TEST(OpenAiOutputTest, AWholeCompletion) {
  OpenAiOutput output = Output({});
  output.Add(0, WithUsage(Part({Last(Delta("b"), FinishReason::kLength)}), 1, 1, 0));
  EXPECT_EQ(
      output.Whole(),
      R"({"id":"id","object":"text_completion","created":7,"model":"m","choices":[)"
      R"({"index":0,"text":"b","logprobs":null,"finish_reason":"length","stop_reason":null}],)"
      R"("usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2,)"
      R"("prompt_tokens_details":{"cached_tokens":0}}})");
}

TEST(OpenAiOutputTest, TheReasonOfAStopIsATextOrAToken) {
  OpenAiOutput output = Output({.num_choices = 2});
  OutputDelta by_text = Last(Delta("a"));
  by_text.stop_string = "\"end\"";
  OutputDelta by_token = Last(Delta("b", {9}, 1));
  by_token.stop_token = 9;
  output.Add(0, Part({by_text, by_token}));
  const Json json = Json::parse(output.Whole());
  EXPECT_EQ(json["choices"][0]["stop_reason"], "\"end\"");
  EXPECT_EQ(json["choices"][1]["stop_reason"], 9);
}

TEST(OpenAiOutputTest, ChoicesAreNumberedOverAllPrompts) {
  for (const bool streams : {false, true}) {
    OpenAiOutput output = Output({.streams = streams, .num_choices = 2}, 3);
    std::string stream;
    for (const size_t prompt : {2u, 0u, 1u}) {
      stream +=
          output.Add(prompt, WithUsage(Part({Last(Delta(std::to_string(prompt) + "b", {1}, 1)),
                                             Last(Delta(std::to_string(prompt) + "a", {1}, 0))}),
                                       10, 2, 3));
    }
    std::vector<std::string> texts(6);
    const std::vector<Json> events =
        streams ? EventsOf(stream) : std::vector<Json>{Json::parse(output.Whole())};
    for (const Json& event : events) {
      for (const Json& choice : event["choices"]) {
        texts.at(choice["index"].get<size_t>()) += choice["text"].get<std::string>();
      }
    }
    EXPECT_THAT(texts, ElementsAre("0a", "0b", "1a", "1b", "2a", "2b"));
    if (streams) continue;
    EXPECT_EQ(events[0]["usage"]["total_tokens"], 36);
    EXPECT_EQ(events[0]["usage"]["prompt_tokens_details"]["cached_tokens"], 9);
  }
}

TEST(OpenAiOutputTest, EachChoiceOfAChatBeginsWithItsRole) {
  OpenAiOutput output = Output({.is_chat = true, .streams = true, .num_choices = 2});
  std::string stream = output.Add(0, Part({Delta("a"), Delta("b", {1}, 1)}));
  stream += output.Add(0, Part({Delta("c"), Delta("d", {1}, 1)}));
  const auto events = EventsOf(stream);
  ASSERT_EQ(events.size(), 6u);
  std::vector<int> roles(2);
  for (const Json& event : events) {
    const Json& choice = event["choices"][0];
    const auto index = choice["index"].get<size_t>();
    if (choice["delta"].contains("role")) ++roles[index];
    EXPECT_EQ(roles[index], 1) << "only the first event of a choice has the role";
  }
}

TEST(OpenAiOutputTest, LogprobsOfAChat) {
  OpenAiOutput output = Output({.is_chat = true, .logprobs = true});
  OutputDelta delta = Last(Delta("é", {5}));
  delta.logprobs = {Scored(5, "é", -0.5f, {{6, -0.25f, "\x80"}, {5, -0.5f, "é"}}),
                    Scored(7, "", -1)};
  output.Add(0, Part({delta}));
  EXPECT_THAT(
      output.Whole(),
      HasSubstr(R"("logprobs":{"content":[{"token":"é","logprob":-0.5,"bytes":[195,169],)"
                R"("top_logprobs":[{"token":"�","logprob":-0.25,"bytes":[128]},)"
                R"({"token":"é","logprob":-0.5,"bytes":[195,169]}]},)"
                R"({"token":"","logprob":-1,"bytes":[],"top_logprobs":[]}],"refusal":null})"));
}

TEST(OpenAiOutputTest, LogprobsOfACompletion) {
  OpenAiOutput output = Output({.logprobs = true});
  OutputDelta first = Delta("é", {5});
  first.logprobs = {Scored(5, "é", -0.5f, {{6, -0.25f, "x"}})};
  OutputDelta second = Last(Delta("ab", {7}));
  second.logprobs = {Scored(7, "ab", -1, {{7, -1, "ab"}, {8, -2, "c"}})};
  output.Add(0, Part({first}));
  output.Add(0, Part({second}));
  EXPECT_THAT(output.Whole(),
              HasSubstr(R"("logprobs":{"tokens":["é","ab"],"token_logprobs":[-0.5,-1],)"
                        R"("top_logprobs":[{"x":-0.25,"é":-0.5},{"ab":-1,"c":-2}],)"
                        R"("text_offset":[0,1]})"));
}

TEST(OpenAiOutputTest, OffsetsGoOnOverTheEventsOfAStream) {
  OpenAiOutput output = Output({.streams = true, .logprobs = true});
  std::vector<int> offsets;
  for (const char* text : {"é", "abc", "d"}) {
    OutputDelta delta = Delta(text);
    delta.logprobs = {Scored(1, text, -1)};
    const auto events = EventsOf(output.Add(0, Part({delta})));
    offsets.push_back(events.at(0)["choices"][0]["logprobs"]["text_offset"][0].get<int>());
  }
  EXPECT_THAT(offsets, ElementsAre(0, 1, 4));
}

OutputPart Echoed() {
  OutputPart part = Part({Last(Delta("z", {30}))});
  part.deltas[0].logprobs = {Scored(30, "z", -3)};
  part.prompt_logprobs = {Scored(20, "q", -2, {{21, -1, "r"}})};
  return WithUsage(std::move(part), 2, 1, 0);
}

TEST(OpenAiOutputTest, AnEchoBeginsWithThePromptAndItsLogprobs) {
  OpenAiOutput output = Output({.echo = true, .logprobs = true});
  output.SetPrompt(0, {.text = "pq", .tokens = {10, 20}});
  output.Add(0, Echoed());
  EXPECT_THAT(
      output.Whole(),
      HasSubstr(R"("text":"pqz","logprobs":{"tokens":["","q","z"],)"
                R"("token_logprobs":[null,-2,-3],)"
                R"("top_logprobs":[null,{"r":-1,"q":-2},{"z":-3}],"text_offset":[0,0,1]})"));
}

TEST(OpenAiOutputTest, AnEchoIsTheFirstEventOfEachChoice) {
  OpenAiOutput output = Output({.streams = true, .echo = true, .num_choices = 2});
  output.SetPrompt(0, {.text = "pq", .tokens = {10, 20}});
  const auto events =
      EventsOf(output.Add(0, Part({Delta("a"), Delta("b", {1}, 1)})) + output.StreamEnd());
  std::vector<std::string> texts(2);
  for (const Json& event : events) {
    const Json& choice = event["choices"][0];
    texts[choice["index"].get<size_t>()] += choice["text"].get<std::string>();
  }
  EXPECT_THAT(texts, ElementsAre("pqa", "pqb"));
}

TEST(OpenAiOutputTest, TokenIdsAreOnRequest) {
  OpenAiOutput output = Output({.return_token_ids = true});
  output.SetPrompt(0, {.text = {}, .tokens = {1, 2}});
  output.Add(0, Part({Delta("a", {3})}));
  output.Add(0, Part({Last(Delta("b", {4, 5}))}));
  const Json choice = Json::parse(output.Whole())["choices"][0];
  EXPECT_EQ(choice["token_ids"], Json({3, 4, 5}));
  EXPECT_EQ(choice["prompt_token_ids"], Json({1, 2}));
  EXPECT_EQ(choice["text"], "ab");

  OpenAiOutput plain = Output({});
  plain.Add(0, Part({Last(Delta("a", {3}))}));
  EXPECT_THAT(plain.Whole(), Not(HasSubstr("token_ids")));
}

// Joins all events of a stream. Returns one choice with the whole text, token ids and log
// probabilities.
Json Joined(const std::vector<Json>& events, bool is_chat) {
  std::string text;
  Json ids = Json::array(), logprobs = Json::array(), prompt, finish, stop_reason;
  for (const Json& event : events) {
    if (event["choices"].empty()) continue;
    const Json& choice = event["choices"][0];
    text += (is_chat ? choice["delta"]["content"] : choice["text"]).get<std::string>();
    for (const Json& id : choice.value("token_ids", Json::array())) ids.push_back(id);
    if (choice.contains("prompt_token_ids")) prompt = choice["prompt_token_ids"];
    EXPECT_EQ(finish, nullptr) << "an event follows the last event";
    finish = choice["finish_reason"];
    if (choice.contains("stop_reason")) stop_reason = choice["stop_reason"];
    if (choice["logprobs"].is_null()) continue;
    for (const Json& one : choice["logprobs"][is_chat ? "content" : "token_logprobs"]) {
      logprobs.push_back(one);
    }
  }
  return {text, ids, prompt, finish, stop_reason, logprobs};
}

TEST(OpenAiOutputTest, TheEventsOfAStreamMakeTheWhole) {
  for (const bool is_chat : {false, true}) {
    OpenAiFormat format{
        .is_chat = is_chat, .echo = !is_chat, .return_token_ids = true, .logprobs = true};
    const auto add_all = [](OpenAiOutput& output) {
      output.SetPrompt(0, {.text = "prompt ", .tokens = {10, 20}});
      std::string events;
      for (int i = 0; i < 20; ++i) {
        OutputDelta delta = Delta(i % 3 == 0 ? "" : "é\"\n" + std::to_string(i), {i});
        delta.logprobs = {Scored(i, "t", -0.1f * static_cast<float>(i), {{i, -1, "u"}})};
        OutputPart part = Part({i == 19 ? Last(delta, FinishReason::kLength) : delta});
        if (i == 0) part.prompt_logprobs = {Scored(20, "q", -2)};
        if (i == 19) part = WithUsage(std::move(part), 2, 20, 0);
        events += output.Add(0, std::move(part));
      }
      return events;
    };
    OpenAiOutput whole = Output(format);
    EXPECT_EQ(add_all(whole), "");
    const Json choice = Json::parse(whole.Whole())["choices"][0];
    format.streams = format.include_usage = true;
    OpenAiOutput stream = Output(format);
    const Json joined = Joined(EventsOf(add_all(stream)), is_chat);
    EXPECT_EQ(joined[0], is_chat ? choice["message"]["content"] : choice["text"]);
    EXPECT_EQ(joined[1], choice["token_ids"]);
    EXPECT_EQ(joined[2], choice["prompt_token_ids"]);
    EXPECT_EQ(joined[3], choice["finish_reason"]);
    EXPECT_EQ(joined[4], choice["stop_reason"]);
    EXPECT_EQ(joined[5], choice["logprobs"][is_chat ? "content" : "token_logprobs"]);
  }
}

TEST(OpenAiOutputTest, TextOfTheModelStaysInsideItsEvent) {
  OpenAiOutput output = Output({.is_chat = true, .streams = true});
  const std::string text = "\n\ndata: [DONE]\r\n\r\n\"}]}\xE2\x80\xA8<img onerror=x>";
  const auto events = EventsOf(output.Add(0, Part({Delta(text)})));
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1]["choices"][0]["delta"]["content"], text);
}

OutputDelta WithCall(OutputDelta delta) {
  delta.tool_calls.push_back(
      {.index = 0, .id = "abc", .name = "f", .arguments_json = R"({"a":1})"});
  return delta;
}

TEST(OpenAiOutputTest, AToolCallIsAFieldAndTheFinishReason) {
  const OpenAiFormat format{.is_chat = true};
  OpenAiOutput output(format, {.id = "id", .model = "m", .created = 7}, 1, nullptr);
  output.Add(0, Part({Last(WithCall(Delta("")))}));
  const Json choice = Json::parse(output.Whole())["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_TRUE(choice["message"]["content"].is_null());
  EXPECT_EQ(choice["message"]["tool_calls"].dump(),
            R"([{"id":"abc","type":"function","function":{"name":"f",)"
            R"("arguments":"{\"a\":1}"}}])");
}

TEST(OpenAiOutputTest, AStreamSendsAToolCallWholeWithItsIndex) {
  const OpenAiFormat format{.is_chat = true, .streams = true};
  OpenAiOutput output(format, {.id = "id", .model = "m", .created = 7}, 1, nullptr);
  std::string stream = output.Add(0, Part({WithCall(Delta("Yes."))}));
  stream += output.Add(0, Part({Last(Delta(""))}));
  const std::vector<Json> events = EventsOf(stream);
  // The stream has one event for the role, one for the content and the tool call, and one for the
  // end.
  ASSERT_EQ(events.size(), 3u);
  const Json& delta = events[1]["choices"][0]["delta"];
  EXPECT_EQ(delta["content"], "Yes.");
  EXPECT_EQ(delta["tool_calls"][0]["index"], 0);
  EXPECT_EQ(delta["tool_calls"][0]["id"], "abc");
  EXPECT_EQ(events[2]["choices"][0]["finish_reason"], "tool_calls");
}

TEST(OpenAiOutputTest, ReasoningHasBothOfItsNames) {
  const OpenAiFormat format{.is_chat = true};
  OpenAiOutput output = Output(format);
  OutputDelta delta = Last(Delta("Yes."));
  delta.reasoning = "why";
  output.Add(0, Part({delta}));
  const Json message = Json::parse(output.Whole())["choices"][0]["message"];
  EXPECT_EQ(message["content"], "Yes.");
  EXPECT_EQ(message["reasoning"], "why");
  EXPECT_EQ(message["reasoning_content"], "why");
}

}  // namespace
}  // namespace incipit
