// Tests calls of OpenAI's API that do not end as planned: clients that disconnect or do not read,
// failures, and a server that drains or stops.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "tests/server/http/http_test_server.h"

namespace incipit {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string ChatBody(int num_tokens, std::string_view more) {
  return fmt::format(
      R"({{"temperature":0,"seed":0,"max_tokens":{},"messages":[{{"role":"user","content":"hi"}}]{}}})",
      num_tokens, more);
}
std::string Stream(int num_tokens = 900) {
  return HttpPost("/v1/chat/completions", ChatBody(num_tokens, R"(,"stream":true)"));
}
std::string Whole(int num_tokens = 900) {
  return HttpPost("/v1/chat/completions", ChatBody(num_tokens, ""));
}
std::string Prompts(bool streams) {
  return HttpPost(
      "/v1/completions",
      fmt::format(R"({{"prompt":["a","b","c"],"max_tokens":900,"stream":{}}})", streams));
}

// Returns when the thread of the HTTP server has handled all events that happened before the call.
void AwaitHttpThread(HttpTestServer& server) { EXPECT_EQ(server.Get("/livez").status, 200); }

// Returns after the only thread that renders chat templates and tokenizes has submitted all earlier
// requests. The engine can cancel only a submitted request.
void AwaitTextThread(HttpTestServer& server) {
  EXPECT_EQ(server.Post("/tokenize", R"({"prompt":"a"})").status, 200);
}

TestServerConfig OneTextThread() {
  TestServerConfig config = HttpConfig();
  config.options.text_threads = 1;
  return config;
}

enum class Leave { kFin, kReset };

// Sends `request` and disconnects while the first step waits at the gate. Expects that the request
// ends although only the steps in flight may run.
void ExpectCancelled(std::string_view request, Leave leave, uint32_t num_prompts = 1) {
  HttpTestServer server(OneTextThread());
  server.gate().Close();
  HttpClient client(server.port());
  client.Send(request);
  server.gate().AwaitWaiting();
  server.AwaitLoad([&](const v1::GetLoadResponse& load) {
    return load.running() + load.waiting() == num_prompts;
  });
  AwaitTextThread(server);
  if (leave == Leave::kFin) {
    client.EndSending();
    EXPECT_TRUE(client.IsClosed());
  } else {
    client.Reset();
  }
  AwaitHttpThread(server);
  server.gate().Allow(2);
  server.AwaitIdle();
  server.gate().Open();
  EXPECT_EQ(server.Send(Whole(5)).status, 200);
}

TEST(OpenAiLifecycleTest, AClientThatEndsItsConnectionCancelsWithinAStep) {
  ExpectCancelled(Whole(), Leave::kFin);
  ExpectCancelled(Stream(), Leave::kFin);
}

TEST(OpenAiLifecycleTest, AClientThatResetsItsConnectionCancelsWithinAStep) {
  ExpectCancelled(Whole(), Leave::kReset);
  ExpectCancelled(Stream(), Leave::kReset);
}

TEST(OpenAiLifecycleTest, AClientThatLeavesCancelsAllItsPrompts) {
  for (const bool streams : {false, true}) ExpectCancelled(Prompts(streams), Leave::kFin, 3);
}

TEST(OpenAiLifecycleTest, AClientThatLeavesInTheMiddleOfAStreamCancels) {
  for (const Leave leave : {Leave::kFin, Leave::kReset}) {
    HttpTestServer server(OneTextThread());
    server.gate().Close();
    HttpClient client(server.port());
    client.Send(Stream());
    server.gate().Allow(10);
    EXPECT_EQ(client.ReadHead().status, 200);
    EXPECT_THAT(client.ReadEvent(), HasSubstr(R"("role":"assistant")"));
    AwaitTextThread(server);
    if (leave == Leave::kFin) {
      client.EndSending();
      client.ReadToEnd();
    } else {
      client.Reset();
    }
    AwaitHttpThread(server);
    server.gate().Allow(10);  // the engine may need more steps until the request ends
    server.AwaitIdle();
  }
}

TEST(OpenAiLifecycleTest, AnswersToOthersAreTheSameWhileClientsLeave) {
  HttpTestServer server;
  const std::string alone = JsonOf(server.Send(Whole(200)))["choices"].dump();
  HttpClient bystander(server.port());
  bystander.Send(Whole(200));
  for (int i = 0; i < 20; ++i) {
    HttpClient leaves(server.port());
    leaves.Send(i % 2 == 0 ? Stream() : Prompts(true));
    if (i % 3 == 0) leaves.ReadHead();
    if (i % 4 == 0) leaves.Reset();
  }
  EXPECT_EQ(JsonOf(bystander.Read())["choices"].dump(), alone);
  server.AwaitIdle();
}

TEST(OpenAiLifecycleTest, AFailureBeforeTheFirstTokenIsAStatus) {
  for (const bool streams : {false, true}) {
    HttpTestServer server;
    server.gate().PoisonNext(0);
    const HttpReply reply = server.Send(streams ? Stream() : Whole());
    EXPECT_EQ(reply.status, 500);
    EXPECT_EQ(JsonOf(reply)["error"]["type"], "server_error");
    server.AwaitIdle();
    EXPECT_EQ(server.Send(Whole(5)).status, 200);
  }
}

TEST(OpenAiLifecycleTest, AFailureInTheMiddleOfAStreamIsItsLastEvent) {
  HttpTestServer server;
  server.gate().Close();
  HttpClient client(server.port());
  client.Send(Stream());
  server.gate().Allow(3);
  EXPECT_EQ(client.ReadHead().status, 200);
  EXPECT_NE(client.ReadEvent(), "");
  server.gate().AwaitWaiting();
  server.gate().PoisonNext(0);
  server.gate().Open();
  std::string last;
  for (std::string event; !(event = client.ReadEvent()).empty();) last = event;
  const HttpJson error = HttpJson::parse(last)["error"];
  EXPECT_TRUE(error["message"].is_string()) << last;
  EXPECT_EQ(error["type"], "server_error");
  client.Send(Whole(5));
  EXPECT_EQ(client.Read().status, 200) << "the connection goes on";
}

TEST(OpenAiLifecycleTest, AFailureOfOnePromptEndsTheWholeResponse) {
  HttpTestServer server;
  server.gate().Close();
  HttpClient client(server.port());
  client.Send(Prompts(/*streams=*/false));
  server.gate().AwaitWaiting();
  server.gate().PoisonNext(0);
  server.gate().Open();
  EXPECT_EQ(client.Read().status, 500);
  server.AwaitIdle();
}

TEST(OpenAiLifecycleTest, AnEngineThatFailsIsAnErrorAndBadHealth) {
  HttpTestServer server;
  server.gate().Close();
  HttpClient client(server.port());
  client.Send(Whole());
  server.gate().AwaitWaiting();
  server.gate().FailNext(absl::InternalError("the device is gone"));
  server.gate().Open();
  EXPECT_EQ(client.Read().status, 500);
  EXPECT_FALSE(server.AwaitFatal().ok());
  const HttpReply late = server.Send(Whole(5));
  EXPECT_EQ(late.status, 503);
  EXPECT_NE(late.Field("Retry-After"), "");
  EXPECT_EQ(server.Get("/health").status, 503);
  EXPECT_EQ(server.Get("/readyz").status, 503);
  EXPECT_EQ(server.Get("/livez").status, 200);
}

TEST(OpenAiLifecycleTest, ADrainingServerFinishesWhatRunsAndSaysSo) {
  HttpTestServer server;
  const std::string alone = JsonOf(server.Send(Whole(50)))["choices"].dump();
  server.gate().Close();
  HttpClient running(server.port()), idle(server.port());
  running.Send(Whole(50));
  server.gate().AwaitWaiting();
  server.server().BeginDrain();
  for (const std::string& request : {Whole(5), Stream(5), Prompts(false)}) {
    const HttpReply refused = server.Send(request);
    EXPECT_EQ(refused.status, 503);
    EXPECT_NE(refused.Field("Retry-After"), "");
    EXPECT_EQ(JsonOf(refused)["error"]["code"], "draining");
  }
  EXPECT_EQ(server.Get("/health").status, 200)
      << "a liveness probe must not end a server with running requests";
  EXPECT_EQ(server.Get("/livez").status, 200);
  EXPECT_EQ(server.Get("/readyz").status, 503);
  EXPECT_EQ(server.Get("/v1/models").status, 200);
  idle.Send(HttpGet("/health"));
  EXPECT_EQ(idle.Read().status, 200);
  std::promise<void> is_idle;
  server.server().WhenIdle([&] { is_idle.set_value(); });
  server.gate().Open();
  EXPECT_EQ(JsonOf(running.Read())["choices"].dump(), alone);
  is_idle.get_future().wait();
}

TEST(OpenAiLifecycleTest, AServerThatStopsEndsOpenCalls) {
  HttpTestServer server;
  server.gate().Close();
  HttpClient stream(server.port()), whole(server.port()), idle(server.port());
  stream.Send(Stream());
  server.gate().Allow(3);
  EXPECT_EQ(stream.ReadHead().status, 200);
  EXPECT_NE(stream.ReadEvent(), "");
  whole.Send(Whole());
  server.gate().AwaitWaiting();
  std::thread stop([&] { server.Stop(); });
  const std::string end = stream.ReadToEnd();
  // The stream ends with an error if the server stopped early, or with [DONE] if the model had
  // already sent all output.
  EXPECT_THAT(end, AnyOf(HasSubstr(R"("code":"draining")"), HasSubstr("[DONE]")));
  EXPECT_THAT(whole.Read().status, AnyOf(200, 503));
  EXPECT_TRUE(idle.IsClosed());
  stop.join();
}

TEST(OpenAiLifecycleTest, AClientThatDoesNotReadIsDropped) {
  TestServerConfig config = HttpConfig();
  config.options.write_stall_timeout = std::chrono::milliseconds(100);
  HttpTestServer server(std::move(config));
  HttpClient client(server.port(), /*receive_buffer=*/4096);
  // If the client reads before the server closes the connection, the stream ends with an error.
  client.Send(HttpPost("/v1/chat/completions",
                       ChatBody(900, R"(,"stream":true,"n":16,"logprobs":true,"top_logprobs":20)"),
                       "Connection: close\r\n"));
  EXPECT_EQ(client.ReadHead().status, 200);
  std::promise<void> is_idle;
  server.server().WhenIdle([&] { is_idle.set_value(); });
  is_idle.get_future().wait();
  server.AwaitIdle();
  EXPECT_THAT(client.ReadToEnd(), Not(HasSubstr("[DONE]")));
}

TEST(OpenAiLifecycleTest, StreamsAboveTheLimitAre429) {
  TestServerConfig config = HttpConfig();
  config.options.streams_max = 1;
  HttpTestServer server(std::move(config));
  server.gate().Close();
  HttpClient running(server.port());
  running.Send(Stream(5));
  server.gate().AwaitWaiting();
  const HttpReply refused = server.Send(Whole(5));
  EXPECT_EQ(refused.status, 429);
  EXPECT_NE(refused.Field("Retry-After"), "");
  EXPECT_EQ(JsonOf(refused)["error"]["type"], "rate_limit_error");
  server.gate().Open();
  EXPECT_THAT(running.Read().body, HasSubstr("[DONE]"));
  EXPECT_EQ(server.Send(Whole(5)).status, 200);
}

TEST(OpenAiLifecycleTest, AClientThatHasReadAResponseCanSendTheNextRequest) {
  TestServerConfig config = HttpConfig();
  config.options.streams_max = 1;
  config.options.requests_max = 1;
  HttpTestServer server(std::move(config));
  for (int i = 0; i < 100; ++i) {
    HttpClient client(server.port());
    client.Send(Stream(1));
    ASSERT_THAT(client.Read().body, HasSubstr("[DONE]")) << "stream " << i;
    ASSERT_EQ(server.Send(Whole(1)).status, 200) << "request " << i;
  }
}

TEST(OpenAiLifecycleTest, AQueueThatIsFullIs429) {
  TestServerConfig config = HttpConfig();
  config.options.requests_max = 2;
  config.measured_steps = StepsOf(std::chrono::minutes(1));
  HttpTestServer server(std::move(config));
  server.gate().Close();
  HttpClient first(server.port()), second(server.port());
  first.Send(Whole(5));
  server.gate().AwaitWaiting();
  second.Send(Whole(5));
  server.AwaitLoad(
      [](const v1::GetLoadResponse& load) { return load.running() + load.waiting() == 2; });
  const HttpReply refused = server.Send(Whole(5));
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.Field("Retry-After"), "60");  // the longest retry delay
  server.gate().Open();
  EXPECT_EQ(first.Read().status, 200);
  EXPECT_EQ(second.Read().status, 200);
}

TEST(OpenAiLifecycleTest, ARequestThatTakesTooLongIs408) {
  TestServerConfig config = HttpConfig();
  config.options.request_time_max = std::chrono::microseconds(100);
  HttpTestServer server(std::move(config));
  const HttpReply reply = server.Send(Whole());
  EXPECT_EQ(reply.status, 408);
  EXPECT_EQ(JsonOf(reply)["error"]["code"], "deadline_exceeded");
  server.AwaitIdle();
}

TEST(OpenAiLifecycleTest, WithoutTheOptionThereIsNoHttpServer) {
  TestServer server;
  EXPECT_FALSE(server.server().http_port());
}

}  // namespace
}  // namespace incipit
