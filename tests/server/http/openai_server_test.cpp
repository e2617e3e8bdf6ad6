// Tests OpenAI's API over HTTP, from the bytes of a request to the tokens of the model.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/http/openai_output.h"
#include "tests/server/http/http_test_server.h"

namespace incipit {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::string_view kCompletions = "/v1/completions";
constexpr std::string_view kChat = "/v1/chat/completions";

// Returns a JSON body for greedy sampling of `num_tokens` tokens. `more` contains further members
// of the JSON object.
std::string Body(int num_tokens, std::string_view more) {
  return fmt::format(R"({{"temperature":0,"seed":0,"max_tokens":{},"return_token_ids":true,{}}})",
                     num_tokens, more);
}
std::string User(std::string_view content) {
  return fmt::format(R"("messages":[{{"role":"user","content":{}}}])", content);
}
HttpJson Ids(const std::vector<TokenId>& ids) { return HttpJson(ids); }

// Expects that `reply` is an error in the format of OpenAI's API.
void ExpectError(const HttpReply& reply, int status, const HttpJson& param, const HttpJson& code) {
  EXPECT_EQ(reply.status, status) << reply.body;
  EXPECT_EQ(reply.Field("Content-Type"), "application/json");
  const HttpJson error = JsonOf(reply).value("error", HttpJson::object());
  EXPECT_TRUE(error.value("message", HttpJson()).is_string()) << reply.body;
  EXPECT_EQ(error.value("param", HttpJson("none")), param) << reply.body;
  EXPECT_EQ(error.value("code", HttpJson("none")), code) << reply.body;
}

TEST(OpenAiServerTest, ACompletionHasTheTokensOfTheModel) {
  HttpTestServer server;
  const HttpReply reply = server.Post(kCompletions, Body(20, R"("prompt":"hello")"));
  ASSERT_EQ(reply.status, 200) << reply.body;
  const HttpJson json = JsonOf(reply);
  EXPECT_EQ(json["object"], "text_completion");
  EXPECT_EQ(json["model"], "fake");
  EXPECT_THAT(json["id"].get<std::string>(), StartsWith("cmpl-"));
  const HttpJson& choice = json["choices"][0];
  EXPECT_EQ(choice["token_ids"], Ids(Expected(BytesAsTokens("hello"), 20)));
  EXPECT_EQ(choice["prompt_token_ids"], Ids(BytesAsTokens("hello")));
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(json["usage"]["prompt_tokens"], 5);
  EXPECT_EQ(json["usage"]["completion_tokens"], 20);
}

TEST(OpenAiServerTest, UsageSaysHowMuchOfThePromptWasCached) {
  HttpTestServer server;
  const std::string body = Body(1, fmt::format(R"("prompt":"{}")", std::string(100, 'x')));
  const auto cached = [&] {
    const HttpJson json = JsonOf(server.Post(kCompletions, body));
    return json["usage"]["prompt_tokens_details"]["cached_tokens"];
  };
  EXPECT_EQ(cached(), 0);
  EXPECT_EQ(cached(), 96);
}

TEST(OpenAiServerTest, AChatGoesThroughTheTemplate) {
  HttpTestServer server;
  const auto prompt = [&](std::string_view members) {
    const HttpReply reply = server.Post(kChat, Body(5, members));
    EXPECT_EQ(reply.status, 200) << reply.body;
    const HttpJson choice = JsonOf(reply)["choices"][0];
    EXPECT_EQ(choice["message"]["role"], "assistant");
    const auto ids = choice["prompt_token_ids"].get<std::vector<TokenId>>();
    EXPECT_EQ(choice["token_ids"], Ids(Expected(ids, 5)));
    std::string text;
    for (const TokenId id : ids) {
      text += id >= kFirstByte ? std::string(1, static_cast<char>(id - kFirstByte))
                               : fmt::format("({})", id);
    }
    return text;
  };
  EXPECT_EQ(prompt(User(R"("hi </s>")")), "(2)hi </s>(3)")
      << "text of a client must not become a special token";
  EXPECT_EQ(prompt(User(R"([{"type":"text","text":"a"},{"type":"text","text":"b"}])")),
            "(2)a\nb(3)");
  EXPECT_EQ(prompt(R"("messages":[{"role":"developer","content":"be"}])"), "<|system|>be(3)");
  EXPECT_EQ(prompt(R"("messages":[{"role":"user","content":"q"},{"role":"assistant",)"
                   R"("content":null,"tool_calls":[{"id":"c","type":"function",)"
                   R"("function":{"name":"f","arguments":"{\"x\": 7}"}}]}])"),
            "(2)q(3)f7(3)");
  EXPECT_EQ(prompt(User(R"("a")") + R"(,"add_generation_prompt":false)"), "(2)a");
  EXPECT_EQ(prompt(User(R"("a")") + R"(,"chat_template_kwargs":{"suffix":"S"})"), "(2)a(3)S");
  EXPECT_EQ(prompt(User(R"("a")") + R"(,"tools":[{"type":"function","function":{"name":"t"}}])"),
            "(2)a(3)t");
}

TEST(OpenAiServerTest, AStreamHasTheSameOutputAsTheWhole) {
  HttpTestServer server;
  for (const bool is_chat : {false, true}) {
    const std::string_view path = is_chat ? kChat : kCompletions;
    const std::string members =
        (is_chat ? User(R"("hello")") : R"("prompt":"hello")") + std::string(R"(,"n":3)");
    const HttpReply whole_reply = server.Post(path, Body(40, members));
    ASSERT_EQ(whole_reply.status, 200) << whole_reply.body;
    const HttpReply reply = server.Post(
        path, Body(40, members + R"(,"stream":true,"stream_options":{"include_usage":true})"));
    ASSERT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(reply.Field("Content-Type"), "text/event-stream");
    EXPECT_EQ(reply.Field("Cache-Control"), "no-cache");
    EXPECT_EQ(reply.Field("X-Accel-Buffering"), "no");
    bool is_done = false;
    const auto events = EventsOf(reply.body, is_done);
    EXPECT_TRUE(is_done);
    std::vector<std::string> texts(3);
    std::vector<HttpJson> ids(3, HttpJson::array());
    for (const HttpJson& event : events) {
      EXPECT_TRUE(event.contains("usage"));
      for (const HttpJson& choice : event["choices"]) {
        const auto index = choice["index"].get<size_t>();
        texts.at(index) +=
            (is_chat ? choice["delta"]["content"] : choice["text"]).get<std::string>();
        for (const HttpJson& id : choice.value("token_ids", HttpJson::array())) {
          ids.at(index).push_back(id);
        }
      }
    }
    const HttpJson whole = JsonOf(whole_reply);
    for (size_t i = 0; i < 3; ++i) {
      const HttpJson& choice = whole["choices"][i];
      EXPECT_EQ(texts[i], is_chat ? choice["message"]["content"] : choice["text"]);
      EXPECT_EQ(ids[i], choice["token_ids"]);
    }
    EXPECT_TRUE(events.back()["choices"].empty());
    EXPECT_EQ(events.back()["usage"]["completion_tokens"], 120);
    EXPECT_EQ(events.back()["usage"]["prompt_tokens"], whole["usage"]["prompt_tokens"]);
  }
}

TEST(OpenAiServerTest, SeveralPromptsAreOneResponse) {
  HttpTestServer server;
  const HttpJson json =
      JsonOf(server.Post(kCompletions, Body(10, R"("prompt":["one",[70,71,72],"three"],"n":2)")));
  ASSERT_EQ(json["choices"].size(), 6u);
  const std::vector<std::vector<TokenId>> prompts = {
      BytesAsTokens("one"), {70, 71, 72}, BytesAsTokens("three")};
  for (size_t i = 0; i < 6; ++i) {
    const HttpJson& choice = json["choices"][i];
    EXPECT_EQ(choice["index"], i);
    EXPECT_EQ(choice["prompt_token_ids"], Ids(prompts[i / 2]));
    EXPECT_EQ(choice["token_ids"], Ids(Expected(prompts[i / 2], 10, static_cast<int32_t>(i % 2))));
  }
  EXPECT_EQ(json["usage"]["prompt_tokens"], 11);
  EXPECT_EQ(json["usage"]["completion_tokens"], 60);
}

TEST(OpenAiServerTest, SeveralPromptsAreSubmittedAllOrNone) {
  HttpTestServer server;
  for (const bool streams : {false, true}) {
    const double before =
        server.Metric(R"(incipit_requests_rejected_total{reason="invalid_argument"})");
    ExpectError(server.Post(kCompletions,
                            Body(10, fmt::format(R"("prompt":["one",[70,9999],"x"],"stream":{})",
                                                 streams))),
                400, "prompt[1]", "invalid_field");
    EXPECT_EQ(server.Metric(R"(incipit_requests_rejected_total{reason="invalid_argument"})"),
              before + 1);
    server.AwaitIdle();
  }
  EXPECT_EQ(JsonOf(server.Post(kCompletions, Body(1, R"("prompt":["a","b"])")))["choices"].size(),
            2u);
}

TEST(OpenAiServerTest, PromptsAboveTheRequestsThatFitAreRefusedAndHoldNoRoom) {
  TestServerConfig config = HttpConfig();
  config.options.requests_max = 3;
  HttpTestServer server(std::move(config));
  for (int i = 0; i < 5; ++i) {
    const HttpReply refused =
        server.Post(kCompletions, Body(2, R"("prompt":["a","b","c","d"],"stream":true)"));
    ExpectError(refused, 429, nullptr, "queue_full");
    EXPECT_NE(refused.Field("Retry-After"), "");
    EXPECT_EQ(server.Post(kCompletions, Body(2, R"("prompt":["a","b","c"])")).status, 200);
  }
}

TEST(OpenAiServerTest, AnEchoRepeatsThePromptAndItsLogprobs) {
  HttpTestServer server;
  const HttpJson json =
      JsonOf(server.Post(kCompletions, Body(1, R"("prompt":"abc","echo":true,"logprobs":1)")));
  const HttpJson& choice = json["choices"][0];
  EXPECT_THAT(choice["text"].get<std::string>(), StartsWith("abc"));
  EXPECT_EQ(choice["logprobs"]["tokens"].size(), 4u);
  EXPECT_EQ(choice["logprobs"]["tokens"][1], "b");
  EXPECT_EQ(choice["logprobs"]["token_logprobs"][0], nullptr);
  EXPECT_TRUE(choice["logprobs"]["token_logprobs"][1].is_number());
  EXPECT_EQ(choice["logprobs"]["text_offset"], HttpJson({0, 1, 2, 3}));
}

TEST(OpenAiServerTest, AnEchoWithoutOutputScoresThePrompt) {
  HttpTestServer server;
  for (const bool streams : {false, true}) {
    const HttpReply reply =
        server.Post(kCompletions, Body(0, fmt::format(R"("prompt":"abc","echo":true,"logprobs":1,)"
                                                      R"("return_token_ids":true,"stream":{})",
                                                      streams)));
    ASSERT_EQ(reply.status, 200) << reply.body;
    std::string text;
    size_t num_tokens = 0;
    std::string finish;
    bool is_done = !streams;
    const auto events =
        streams ? EventsOf(reply.body, is_done) : std::vector<HttpJson>{JsonOf(reply)};
    for (const HttpJson& event : events) {
      const HttpJson& choice = event["choices"][0];
      text += choice["text"].get<std::string>();
      if (choice["logprobs"].is_object()) num_tokens += choice["logprobs"]["tokens"].size();
      EXPECT_EQ(choice["token_ids"], HttpJson::array());
      if (choice["finish_reason"].is_string()) finish = choice["finish_reason"];
    }
    EXPECT_TRUE(is_done);
    EXPECT_EQ(text, "abc");
    EXPECT_EQ(num_tokens, 3u);
    EXPECT_EQ(finish, "length");
    if (!streams) {
      EXPECT_EQ(events[0]["usage"]["completion_tokens"], 0);
      EXPECT_EQ(events[0]["usage"]["prompt_tokens"], 3);
    }
  }
}

// Returns the member `text_offset` of a choice whose request echoes the prompt. `text` and `prompt`
// are the text and the ids of the prompt, and `tokens` are the ids of the output.
HttpJson OffsetsOf(const OpenAiFormat& format, std::string text, std::vector<TokenId> prompt,
                   const std::vector<TokenId>& tokens) {
  const auto tokenizer = MakeByteTokenizer();
  OpenAiOutput output(format, {.id = "id", .model = "m", .created = 7}, 1, tokenizer.get());
  const auto scored = [&](TokenId id) {
    return ScoredPosition{
        .token = {.token = id, .bytes = tokenizer->TokenBytes(id)}, .rank = 1, .top = {}};
  };
  OutputPart part;
  for (size_t i = 1; i < prompt.size(); ++i) part.prompt_logprobs.push_back(scored(prompt[i]));
  output.SetPrompt(0, {.text = std::move(text), .tokens = std::move(prompt)});
  OutputDelta& delta = part.DeltaOf(0);
  for (const TokenId id : tokens) delta.logprobs.push_back(scored(id));
  output.Add(0, std::move(part));
  return HttpJson::parse(output.Whole())["choices"][0]["logprobs"]["text_offset"];
}

TEST(OpenAiServerTest, OffsetsDoNotCountSpecialTokensThatTheTextDoesNotContain) {
  constexpr TokenId kA = kFirstByte + 'a';
  const OpenAiFormat format{.echo = true, .logprobs = true};
  EXPECT_EQ(OffsetsOf(format, "aa", {kByteBos, kA, kA}, {kByteEos, kA, kA}),
            HttpJson({0, 0, 1, 2, 2, 3}));
  EXPECT_EQ(OffsetsOf(format, "<s>aa", {kByteBos, kA, kA}, {kA, kA}), HttpJson({0, 3, 4, 5, 6}));
  const OpenAiFormat keeps{.echo = true, .keeps_special_tokens = true, .logprobs = true};
  EXPECT_EQ(OffsetsOf(keeps, "a", {kByteBos, kA}, {kByteEos, kA}), HttpJson({0, 0, 1, 5}));
}

TEST(OpenAiServerTest, TheResponseHasTheNameOfTheRequest) {
  TestServerConfig config = HttpConfig();
  config.options.model_aliases = {"other"};
  HttpTestServer server(std::move(config));
  const auto name = [&](std::string_view more) {
    return JsonOf(
        server.Post(kCompletions, Body(1, fmt::format(R"("prompt":"a"{})", more))))["model"];
  };
  EXPECT_EQ(name(R"(,"model":"other")"), "other");
  EXPECT_EQ(name(""), JsonOf(server.Get("/v1/models"))["data"][0]["id"]);
}

TEST(OpenAiServerTest, ReasoningOfEarlierMessagesReachesTheTemplate) {
  TestServerConfig config = HttpConfig();
  config.chat_template =
      "{% for m in messages %}{{ m.reasoning_content or '' }}{{ m.content }}{% endfor %}";
  HttpTestServer server(std::move(config));
  const auto prompt = [&](std::string_view message) {
    const HttpJson tokens =
        JsonOf(server.Post("/tokenize", fmt::format(R"({{"messages":[{}]}})", message)))["tokens"];
    return JsonOf(
        server.Post("/detokenize", fmt::format(R"({{"tokens":{}}})", tokens.dump())))["prompt"];
  };
  EXPECT_EQ(prompt(R"({"role":"assistant","content":"a","reasoning_content":"why </s>"})"),
            "why </s>a");
  EXPECT_EQ(prompt(R"({"role":"assistant","content":"a","reasoning":"why"})"), "whya");
  EXPECT_EQ(prompt(R"({"role":"assistant","content":"a"})"), "a");
}

TEST(OpenAiServerTest, LargeResponsesAreWhole) {
  HttpTestServer server;
  const HttpJson json = JsonOf(server.Post(
      kCompletions, Body(800, R"("prompt":"a","n":4,"logprobs":20,"ignore_eos":true)")));
  ASSERT_EQ(json["choices"].size(), 4u);
  for (const HttpJson& choice : json["choices"]) {
    EXPECT_EQ(choice["logprobs"]["tokens"].size(), 800u);
  }
  server.AwaitIdle();
}

TEST(OpenAiServerTest, RefusalsNameTheFieldOfTheClient) {
  HttpTestServer server;
  const auto post = [&](std::string_view body) { return server.Post(kCompletions, body); };
  ExpectError(post("{"), 400, "body", "invalid_field");
  ExpectError(post("{}"), 400, "prompt", "invalid_field");
  ExpectError(post(R"({"prompt":""})"), 400, "prompt", "invalid_field");
  ExpectError(post(R"({"prompt":[[]]})"), 400, "prompt", "invalid_field");
  ExpectError(post(R"({"prompt":[260]})"), 400, "prompt[0]", "invalid_field");
  ExpectError(post(R"({"prompt":"a","top_p":0})"), 400, "top_p", "invalid_field");
  ExpectError(post(R"({"prompt":"a","temperature":1e39})"), 400, "temperature", "invalid_field");
  ExpectError(post(R"({"prompt":"a","logit_bias":{"1":1e39}})"), 400, "logit_bias[1]",
              "invalid_field");
  ExpectError(post(R"({"prompt":"a","logit_bias":{"260":1}})"), 400, "logit_bias[260]",
              "invalid_field");
  ExpectError(post(R"({"prompt":"a","n":2147483647})"), 400, "n", "invalid_field");
  ExpectError(post(R"({"prompt":"a","min_tokens":9,"max_tokens":8})"), 400, "min_tokens",
              "invalid_field");
  ExpectError(post(R"({"prompt":"a","stop":[""]})"), 400, "stop[0]", "invalid_field");
  ExpectError(post(R"({"prompt":"a","cache_salt":")" + std::string(257, 's') + R"("})"), 400,
              "cache_salt", "invalid_field");
  ExpectError(post(R"({"prompt":"a","request_id":"a\nb"})"), 400, "request_id", "invalid_field");
  ExpectError(post(R"({"prompt":"a","model":"other"})"), 404, nullptr, "model_not_found");
  ExpectError(post(R"({"prompt":")" + std::string(2000, 'x') + R"("})"), 400, "prompt",
              "context_length_exceeded");
  const auto chat = [&](std::string_view body) { return server.Post(kChat, body); };
  ExpectError(chat("{}"), 400, "messages", "invalid_field");
  ExpectError(chat(R"({"messages":[]})"), 400, "messages", "invalid_field");
  ExpectError(chat(R"({"messages":[{"content":"a"}]})"), 400, "messages[0].role", "invalid_field");
  ExpectError(chat("{" + User(R"([{"type":"image_url","image_url":{"url":"x"}}])") + "}"), 400,
              "messages[0].content[0].type", "invalid_field");
  ExpectError(chat("{" + User(R"("a")") + R"(,"chat_template_kwargs":{"messages":[]}})"), 400,
              "chat_template_kwargs", "invalid_field");
  ExpectError(chat(R"({"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f",)"
                   R"("arguments":"[1]"}}]}]})"),
              400, "messages[0].tool_calls[0].function.arguments", "invalid_field");
  ExpectError(chat("{" + User(R"("a")") + R"(,"tools":[{"function":{"name":""}}]})"), 400,
              "tools[0].function.name", "invalid_field");
  ExpectError(chat("{" + User("\"" + std::string(2000, 'x') + "\"") + "}"), 400, "messages",
              "context_length_exceeded");
  EXPECT_EQ(post(Body(1, R"("prompt":"a")")).status, 200);
}

TEST(OpenAiServerTest, HostileBodiesAreRefused) {
  HttpTestServer server;
  const std::string bodies[] = {
      std::string(1 << 20, '['),
      R"({"prompt":"a","x":)" + std::string(500'000, '[') + std::string(500'000, ']') + "}",
      "{\"prompt\":\"\xff\xfe\"}",
      "{\"prompt\":\"\xed\xa0\x80\"}",
      R"({"prompt":"\ud800"})",
      std::string("{\"prompt\":\"a\"}\0", 15),
      R"({"prompt":"a"} {})"};
  for (const std::string& body : bodies) {
    for (const std::string_view path : {kCompletions, kChat}) {
      ExpectError(server.Post(path, body), 400, "body", "invalid_field");
    }
  }
  EXPECT_EQ(server.Post(kCompletions, Body(1, R"("prompt":"a")")).status, 200);
}

TEST(OpenAiServerTest, ABodyAboveTheLimitIs413) {
  TestServerConfig config = HttpConfig();
  config.options.message_bytes_max = 10'000;
  HttpTestServer server(std::move(config));
  EXPECT_EQ(server.Post(kCompletions, std::string(10'001, ' ')).status, 413);
  EXPECT_EQ(server.Post(kCompletions, std::string(10'000, ' ')).status, 400);
}

TEST(OpenAiServerTest, TenantsDoNotShareCachedPrompts) {
  HttpTestServer server;
  const std::string body = Body(1, fmt::format(R"("prompt":"{}")", std::string(100, 'x')));
  const auto cached = [&](std::string_view fields) {
    const HttpJson json = JsonOf(server.Post(kCompletions, body, fields));
    return json["usage"]["prompt_tokens_details"]["cached_tokens"];
  };
  EXPECT_EQ(cached("X-Tenant-Id: a\r\n"), 0);
  EXPECT_EQ(cached("x-tenant-id: b\r\n"), 0);
  EXPECT_EQ(cached("x-tenant-id: a\r\n"), 96);
  EXPECT_EQ(cached("Authorization: Bearer whatever\r\n"), 0);
  EXPECT_EQ(server.Post(kCompletions, body, "x-tenant-id: a\r\nx-tenant-id: a\r\n").status, 400);
  EXPECT_EQ(server.Post(kCompletions, body, "x-tenant-id: a\xff\r\n").status, 400);
  EXPECT_EQ(server.Post(kCompletions, body, "x-tenant-id:\r\n").status, 400)
      << "an empty tenant name is refused, as in the gRPC API";
}

TEST(OpenAiServerTest, ARequestIdIsPartOfTheId) {
  HttpTestServer server;
  const std::string body = Body(1, R"("prompt":"a")");
  EXPECT_EQ(JsonOf(server.Post(kCompletions, body, "X-Request-Id: r-1\r\n"))["id"], "cmpl-r-1");
  EXPECT_EQ(JsonOf(server.Post(kChat, Body(1, User(R"("a")") + R"(,"request_id":"r-2")")))["id"],
            "chatcmpl-r-2");
  // A proxy may send any request id. The server replaces an id that is too long.
  const HttpReply reply =
      server.Post(kCompletions, body, "X-Request-Id: " + std::string(129, 'x') + "\r\n");
  EXPECT_EQ(reply.status, 200);
  EXPECT_LT(JsonOf(reply)["id"].get<std::string>().size(), 64u);
}

TEST(OpenAiServerTest, ModelsAreListed) {
  HttpTestServer server;
  const HttpJson list = JsonOf(server.Get("/v1/models"));
  EXPECT_EQ(list["object"], "list");
  ASSERT_EQ(list["data"].size(), 1u);
  EXPECT_EQ(list["data"][0]["id"], "fake");
  EXPECT_EQ(list["data"][0]["object"], "model");
  EXPECT_EQ(list["data"][0]["max_model_len"], 1024);
  EXPECT_EQ(JsonOf(server.Get("/v1/models/fake?x")), list["data"][0]);
  EXPECT_EQ(JsonOf(server.Get("/v1/models/f%61ke"))["id"], "fake");
  for (const std::string_view name : {"", "other", "org/fake", "fake/", "..%2f..%2fetc/passwd"}) {
    ExpectError(server.Get(fmt::format("/v1/models/{}", name)), 404, nullptr, "model_not_found");
  }
}

TEST(OpenAiServerTest, TextBecomesTokensAndBack) {
  HttpTestServer server;
  const HttpJson tokens = JsonOf(server.Post("/tokenize", R"({"prompt":"aé"})"));
  EXPECT_EQ(tokens["tokens"], Ids(BytesAsTokens("aé")));
  EXPECT_EQ(tokens["count"], 3);
  EXPECT_EQ(tokens["max_model_len"], 1024);
  EXPECT_EQ(JsonOf(server.Post("/tokenize", "{" + User(R"("a")") + "}"))["tokens"],
            Ids({kByteUser, kFirstByte + 'a', kByteAssistant}));
  EXPECT_EQ(
      JsonOf(server.Post("/detokenize", fmt::format(R"({{"tokens":{}}})",
                                                    Ids(BytesAsTokens("aé\n")).dump())))["prompt"],
      "aé\n");
  ExpectError(server.Post("/detokenize", R"({"tokens":[260]})"), 400, "tokens[0]", "invalid_field");
  ExpectError(server.Post("/detokenize", R"({"tokens":[-1]})"), 400, "tokens", "invalid_field");
  ExpectError(server.Post("/detokenize", "{}"), 400, "tokens", "invalid_field");
  ExpectError(server.Post("/tokenize", R"({"prompt":"a","model":"x"})"), 404, nullptr,
              "model_not_found");
  ExpectError(server.Post("/detokenize", R"({"tokens":[],"model":"x"})"), 404, nullptr,
              "model_not_found");
  ExpectError(server.Post("/tokenize", "[]"), 400, "body", "invalid_field");
  EXPECT_EQ(JsonOf(server.Post("/detokenize", R"({"tokens":[]})"))["prompt"], "");
}

TEST(OpenAiServerTest, PagesForPeopleAndProbes) {
  HttpTestServer server;
  EXPECT_TRUE(JsonOf(server.Get("/version"))["version"].is_string());
  for (const std::string_view path : {"/health", "/readyz", "/livez"}) {
    EXPECT_EQ(server.Get(path).status, 200);
    HttpClient client(server.port());
    client.Send(fmt::format("HEAD {} HTTP/1.1\r\n{}\r\n", path, kHttpHost));
    EXPECT_EQ(client.Read(/*has_body=*/false).status, 200);
  }
  const HttpReply metrics = server.Get("/metrics");
  EXPECT_THAT(metrics.Field("Content-Type"), StartsWith("text/plain; version=0.0.4"));
  EXPECT_THAT(metrics.body, HasSubstr("\nincipit_requests_rejected_total{"));
}

TEST(OpenAiServerTest, OtherPathsAndMethodsAreErrorsToo) {
  HttpTestServer server;
  ExpectError(server.Get("/nowhere"), 404, nullptr, nullptr);
  ExpectError(server.Get("/v1"), 404, nullptr, nullptr);
  ExpectError(server.Get("/v1/models/../../etc/passwd"), 404, nullptr, "model_not_found");
  for (const std::string_view path : {kCompletions, kChat}) {
    const HttpReply wrong = server.Get(path);
    ExpectError(wrong, 405, nullptr, nullptr);
    EXPECT_EQ(wrong.Field("Allow"), "POST");
  }
  const HttpReply wrong = server.Post("/v1/models", "{}");
  ExpectError(wrong, 405, nullptr, nullptr);
  EXPECT_EQ(wrong.Field("Allow"), "GET, HEAD");
  for (const std::string_view method : {"PUT", "DELETE", "TRACE", "CONNECT", "PATCH", "GETT"}) {
    const HttpReply reply =
        server.Send(fmt::format("{} /v1/models HTTP/1.1\r\n{}\r\n", method, kHttpHost));
    EXPECT_THAT(reply.status, ::testing::AnyOf(400, 405)) << method;
  }
}

TEST(OpenAiServerTest, APageOfAnotherSiteIsRefused) {
  TestServerConfig config = HttpConfig();
  config.options.http_origins = {"https://app.example"};
  HttpTestServer server(std::move(config));
  const std::string body = Body(1, R"("prompt":"a")");
  const auto post = [&](std::string_view fields) {
    return server.Post(kCompletions, body, fields);
  };
  ExpectError(post("Origin: https://attacker.example\r\n"), 403, nullptr, nullptr);
  ExpectError(post("Sec-Fetch-Site: cross-site\r\n"), 403, nullptr, nullptr);
  const HttpReply allowed = post("Origin: https://app.example\r\n");
  EXPECT_EQ(allowed.status, 200);
  EXPECT_EQ(allowed.Field("Access-Control-Allow-Origin"), "https://app.example");
  ExpectError(server.Send(fmt::format("POST {} HTTP/1.1\r\n{}Content-Type: text/plain\r\n"
                                      "Content-Length: {}\r\n\r\n{}",
                                      kCompletions, kHttpHost, body.size(), body)),
              415, nullptr, nullptr);
  const auto preflight = [&](std::string_view origin) {
    return server.Send(
        fmt::format("OPTIONS {} HTTP/1.1\r\n{}Origin: {}\r\n"
                    "Access-Control-Request-Method: POST\r\nConnection: close\r\n\r\n",
                    kCompletions, kHttpHost, origin));
  };
  EXPECT_EQ(preflight("https://app.example").status, 204);
  EXPECT_THAT(preflight("https://app.example").head, HasSubstr("Access-Control-Allow-Headers"));
  EXPECT_EQ(preflight("https://attacker.example").status, 403);
  EXPECT_THAT(preflight("https://attacker.example").head, Not(HasSubstr("Access-Control")));
}

TEST(OpenAiServerTest, ANameThatWasReboundIsRefused) {
  HttpTestServer server;
  const auto get = [&](std::string_view host) {
    return server.Send(fmt::format("GET /v1/models HTTP/1.1\r\nHost: {}\r\n\r\n", host));
  };
  ExpectError(get("attacker.example"), 421, nullptr, nullptr);
  ExpectError(get(fmt::format("attacker.example:{}", server.port())), 421, nullptr, nullptr);
  EXPECT_EQ(get(fmt::format("localhost:{}", server.port())).status, 200);
  EXPECT_EQ(get("[::1]").status, 200);
  // The host in a whole URL has precedence over the header field Host (RFC 9112, section 3.2.2).
  const auto get_url = [&](std::string_view url, std::string_view host) {
    return server.Send(fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", url, host));
  };
  ExpectError(get_url("http://attacker.example/v1/models", "localhost"), 421, nullptr, nullptr);
  ExpectError(get_url("HTTP://attacker.example/v1/models", "localhost"), 421, nullptr, nullptr);
  EXPECT_EQ(get_url("http://localhost/v1/models", "attacker.example").status, 200);
}

TEST(OpenAiServerTest, WithoutATokenizerPromptsAreIds) {
  TestServerConfig config = HttpConfig();
  config.has_tokenizer = false;
  config.chat_template = "";
  HttpTestServer server(std::move(config));
  ExpectError(server.Post(kCompletions, Body(1, R"("prompt":"a")")), 400, nullptr, "no_tokenizer");
  ExpectError(server.Post("/tokenize", R"({"prompt":"a"})"), 400, nullptr, "no_tokenizer");
  ExpectError(server.Post(kChat, "{" + User(R"("a")") + "}"), 400, nullptr, "no_tokenizer");
  const HttpJson json = JsonOf(server.Post(kCompletions, Body(3, R"("prompt":[7,8])")));
  EXPECT_EQ(json["choices"][0]["token_ids"], Ids(Expected({7, 8}, 3)));
}

TEST(OpenAiServerTest, OutputThatWaitsForItsEndIsBounded) {
  TestServerConfig config = HttpConfig();
  config.options.output_queue_bytes_max = 2000;
  HttpTestServer server(std::move(config));
  const HttpReply whole = server.Post(kCompletions, Body(900, R"("prompt":"a")"));
  ExpectError(whole, 503, nullptr, "write_stalled");
  server.AwaitIdle();
  EXPECT_EQ(server.Post(kCompletions, Body(10, R"("prompt":"a")")).status, 200);
}

TEST(OpenAiServerTest, OutputThatWaitsForItsEndIsCounted) {
  HttpTestServer server;
  const std::string kept = "incipit_unread_output_bytes{state=\"kept\"}";
  EXPECT_EQ(server.Metric(kept), 0);
  server.gate().Close();
  HttpClient client(server.port());
  client.Send(HttpPost(kCompletions, Body(50, R"("prompt":"a")")));
  server.gate().Allow(20);
  while (server.Metric(kept) == 0) {
  }
  server.gate().Open();
  EXPECT_EQ(client.Read().status, 200);
  while (server.Metric(kept) != 0) {
  }
}

}  // namespace
}  // namespace incipit
