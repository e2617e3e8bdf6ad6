// Tests time limits, disconnections and the stop of the HTTP server, on real sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/server/http/http_server_fixture.h"

namespace incipit {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(HttpServerTest, AHeadThatDoesNotEndIs408) {
  options_.limits.head_time_max = std::chrono::milliseconds(50);
  Start();
  ExpectRefused("GET /a HTTP/1.1\r\nHost: loc", 408);
  HttpClient client(port());
  client.Send(HttpGet("/a"));
  EXPECT_EQ(client.Read().status, 200);
  client.Send("G");
  EXPECT_EQ(client.Read().status, 408) << "also for a later request";
}

TEST_F(HttpServerTest, ABodyThatDoesNotEndIs408) {
  options_.limits.body_time_max = std::chrono::milliseconds(50);
  Start();
  ExpectRefused("POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nabc", 408);
  ExpectRefused(
      "POST /a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", 408);
}

TEST_F(HttpServerTest, AnIdleConnectionIsClosed) {
  // On a busy machine, the server may close the connection before the request arrives. Then the
  // test repeats with a longer limit.
  int status = 0;
  for (std::chrono::milliseconds limit(50); status == 0; limit *= 2) {
    ASSERT_LT(limit, std::chrono::minutes(1));
    server_.reset();
    options_.limits.idle_max = limit;
    Start();
    EXPECT_TRUE(HttpClient(port()).IsClosed());
    HttpClient client(port());
    client.Send(HttpGet("/a"));
    status = client.Read().status;
    EXPECT_TRUE(client.IsClosed());
  }
  EXPECT_EQ(status, 200);
}

TEST_F(HttpServerTest, TimeLimitsDoNotEndAResponseThatTakesLonger) {
  options_.limits.idle_max = options_.limits.head_time_max = options_.limits.body_time_max =
      options_.limits.write_time_max = std::chrono::milliseconds(200);
  Start();
  HttpClient slow(port());
  slow.Send(HttpGet("/later"));
  const auto exchange = AwaitExchange();
  // IsClosed returns after all time limits have passed.
  EXPECT_TRUE(HttpClient(port()).IsClosed());
  exchange->Respond({.body = "late"});
  EXPECT_EQ(slow.Read().body, "late");
}

TEST_F(HttpServerTest, FurtherBytesEndTheConnectionAfterTheResponse) {
  Start();
  HttpClient client(port());
  client.Send(HttpGet("/later") + HttpGet("/a"));
  AwaitExchange()->Respond({.body = "first"});
  const HttpReply reply = client.Read();
  EXPECT_EQ(reply.body, "first");
  EXPECT_EQ(reply.Field("Connection"), "close");
  EXPECT_TRUE(client.IsClosed());
}

TEST_F(HttpServerTest, FurtherBytesAfterARefusedRequestEndTheConnection) {
  Start();
  HttpClient client(port());
  client.Send(HttpGet("/refused") + HttpGet("/a"));
  const HttpReply reply = client.Read();
  EXPECT_EQ(reply.status, 403);
  EXPECT_EQ(reply.Field("Connection"), "close");
  EXPECT_TRUE(client.IsClosed());
}

TEST_F(HttpServerTest, BytesDuringAStreamEndTheConnectionAfterTheStream) {
  Start();
  HttpClient client(port());
  client.Send(HttpGet("/later"));
  const auto exchange = AwaitExchange();
  exchange->BeginStream({});
  exchange->Write("data: a\n\n", [](bool) {});
  client.ReadHead();
  EXPECT_EQ(client.ReadEvent(), "a");
  client.Send(HttpGet("/a"));
  exchange->Write("data: b\n\n", [](bool) {});
  EXPECT_EQ(client.ReadEvent(), "b");
  exchange->EndStream();
  EXPECT_EQ(client.ReadEvent(), "");
}

TEST_F(HttpServerTest, AClientThatDisconnectsIsReportedAtOnce) {
  for (const bool resets : {false, true}) {
    for (const bool streams : {false, true}) {
      server_.reset();
      ForgetClosed();
      Start();
      HttpClient client(port());
      client.Send(HttpPost("/later", "abc"));
      const auto exchange = AwaitExchange();
      if (streams) {
        exchange->BeginStream({});
        client.ReadHead();
      }
      if (resets) {
        client.Reset();
      } else {
        client.EndSending();
      }
      AwaitClosed();
      Mutex mutex;
      std::condition_variable_any changed;
      std::optional<bool> written;
      exchange->Write("late", [&](bool ok) {
        MutexLock lock(mutex);
        written = ok;
        changed.notify_all();
      });
      {
        MutexLock lock(mutex);
        while (!written) changed.wait(mutex);
      }
      EXPECT_FALSE(*written);
      exchange->EndStream();
      exchange->Respond({.body = "late"});
    }
  }
}

TEST_F(HttpServerTest, AClientThatSendsFurtherBytesAndDisconnectsIsReported) {
  for (const std::string_view further : {"\r\n", "GET /b HTTP/1.1\r\n\r\n"}) {
    for (const bool at_once : {true, false}) {
      server_.reset();
      ForgetClosed();
      Start();
      HttpClient client(port());
      client.Send(HttpPost("/later", "abc") + std::string(at_once ? further : ""));
      const auto exchange = AwaitExchange();
      if (!at_once) client.Send(further);
      client.EndSending();
      AwaitClosed();
    }
  }
}

TEST_F(HttpServerTest, AClosedConnectionIsReportedToALateCallback) {
  Start();
  HttpClient client(port());
  client.Send(HttpGet("/later"));
  const auto exchange = AwaitExchange();
  client.Close();
  AwaitClosed();
  ForgetClosed();
  exchange->OnClosed([this] {
    MutexLock lock(mutex_);
    ++num_closed_;
    changed_.notify_all();
  });
  AwaitClosed();
}

TEST_F(HttpServerTest, AClientThatReadsNoResponseIsDropped) {
  options_.limits.write_time_max = std::chrono::milliseconds(100);
  Start();
  HttpClient client(port(), /*receive_buffer=*/4096);
  client.Send(HttpGet("/later"));
  const auto exchange = AwaitExchange();
  exchange->Respond({.body = std::string(64 << 20, 'x')});
  AwaitClosed();
}

TEST_F(HttpServerTest, AConnectionAboveTheLimitReplacesTheOldestWithoutARequest) {
  options_.connections_max = 2;
  Start();
  HttpClient first(port()), second(port());
  for (HttpClient* client : {&first, &second}) {
    client->Send(HttpGet("/a"));
    EXPECT_EQ(client->Read().status, 200);
  }
  HttpClient third(port());
  EXPECT_TRUE(first.IsClosed());
  for (HttpClient* client : {&second, &third}) {
    client->Send(HttpGet("/a"));
    EXPECT_EQ(client->Read().status, 200);
  }
}

TEST_F(HttpServerTest, WhileAllConnectionsHaveRequestsAFurtherOneIsClosed) {
  options_.connections_max = 2;
  Start();
  HttpClient first(port()), second(port());
  first.Send(HttpGet("/later"));
  const auto first_exchange = AwaitExchange();
  second.Send(HttpGet("/later"));
  const auto second_exchange = AwaitExchange();
  EXPECT_TRUE(HttpClient(port()).IsClosed());
  first_exchange->Respond({.body = "1"});
  second_exchange->Respond({.body = "2"});
  EXPECT_EQ(first.Read().body, "1");
  EXPECT_EQ(second.Read().body, "2");
}

TEST_F(HttpServerTest, AServerThatStopsWaitsForResponses) {
  Start();
  HttpClient idle(port()), busy(port());
  idle.Send(HttpGet("/a"));
  EXPECT_EQ(idle.Read().status, 200);
  busy.Send(HttpGet("/later"));
  const auto exchange = AwaitExchange();
  std::thread stop([&] { server_->Stop(std::chrono::seconds(60)); });
  EXPECT_TRUE(idle.IsClosed());
  exchange->Respond({.body = "last"});
  EXPECT_EQ(busy.Read().body, "last");
  EXPECT_TRUE(busy.IsClosed());
  busy.Close();
  stop.join();
}

TEST_F(HttpServerTest, AServerThatStopsEndsOpenStreamsAfterTheTime) {
  Start();
  HttpClient client(port()), half(port());
  half.Send("GET /a HTT");
  client.Send(HttpGet("/later"));
  const auto exchange = AwaitExchange();
  exchange->BeginStream({});
  client.ReadHead();
  server_->Stop(std::chrono::milliseconds(10));
  AwaitClosed();
  EXPECT_EQ(client.ReadToEnd(), "") << "the server must not send the end of an aborted stream";
  half.ReadToEnd();
  exchange->Write("late", [](bool) {});
  exchange->EndStream();
}

TEST_F(HttpServerTest, AnAddressInUseIsNamed) {
  Start();
  const auto second =
      HttpServer::Start("http-address", {"127.0.0.1", static_cast<uint16_t>(port())}, options_, {});
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()), StartsWith("--http-address 127.0.0.1:"));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("in use"));
}

}  // namespace
}  // namespace incipit
