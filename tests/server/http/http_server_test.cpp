// The HTTP server with handlers of the test, on real sockets.
#include "server/http/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <thread>

#include "base/mutex.h"
#include "tests/server/http/http_client.h"

namespace incipit {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A server whose handler repeats the request: the method, the target and the body; for the path
// /fields, the header fields. The handler keeps the exchange of each request for the path /later.
class HttpServerTest : public ::testing::Test {
 protected:
  HttpServerTest() {
    options_.limits.head_bytes_max = 1000;
    options_.limits.body_bytes_max = 2000;
  }
  ~HttpServerTest() override {
    if (server_ != nullptr) server_->Stop(Duration::zero());
  }

  void Start() {
    HttpHandlers handlers;
    handlers.check = [](const HttpRequestHead& head) -> std::optional<HttpResponse> {
      if (head.path() != "/refused") return std::nullopt;
      return HttpResponse{.status = 403, .body = "refused"};
    };
    handlers.handle = [this](std::shared_ptr<HttpExchange> exchange) {
      const HttpRequestHead& head = exchange->head();
      if (head.path() == "/fields") {
        std::string fields;
        for (const auto& [name, value] : head.fields) fields += name + "=" + value + ";";
        exchange->Respond({.body = fields});
        return;
      }
      if (head.path() != "/later") {
        exchange->Respond({.body = head.method + " " + head.target + " " + exchange->body()});
        return;
      }
      exchange->OnClosed([this] {
        MutexLock lock(mutex_);
        ++num_closed_;
        changed_.notify_all();
      });
      MutexLock lock(mutex_);
      exchange_ = std::move(exchange);
      changed_.notify_all();
    };
    handlers.error = [](int status, std::string_view message) {
      return HttpResponse{.status = status, .body = std::string(message)};
    };
    auto server =
        HttpServer::Start("http-address", {"127.0.0.1", 0}, options_, std::move(handlers));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  int port() const { return server_->port(); }

  // Returns the exchange of a request for /later.
  std::shared_ptr<HttpExchange> AwaitExchange() {
    MutexLock lock(mutex_);
    while (exchange_ == nullptr) changed_.wait(mutex_);
    return std::exchange(exchange_, nullptr);
  }
  // Waits until the callback of OnClosed was called.
  void AwaitClosed() {
    MutexLock lock(mutex_);
    while (num_closed_ == 0) changed_.wait(mutex_);
  }
  void ForgetClosed() {
    MutexLock lock(mutex_);
    num_closed_ = 0;
  }
  // Sends `bytes` on a new connection and returns the response.
  HttpReply Ask(std::string_view bytes) const {
    HttpClient client(port());
    client.Send(bytes);
    return client.Read();
  }
  // Expects that `bytes` get the status `status` and that the connection is closed.
  void ExpectRefused(std::string_view bytes, int status) const {
    HttpClient client(port());
    client.Send(bytes);
    const HttpReply reply = client.Read();
    EXPECT_EQ(reply.status, status) << bytes.substr(0, 200);
    EXPECT_TRUE(reply.is_whole);
    EXPECT_NE(reply.body, "");
    EXPECT_EQ(reply.Field("Connection"), "close");
    EXPECT_TRUE(client.IsClosed()) << bytes.substr(0, 200);
  }

  HttpServerOptions options_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::shared_ptr<HttpExchange> exchange_ ABSL_GUARDED_BY(mutex_);
  int num_closed_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AConnectionServesOneRequestAfterTheOther) {
  Start();
  HttpClient client(port());
  for (int i = 0; i < 50; ++i) {
    client.Send(i % 2 == 0 ? HttpGet("/a?b=c") : HttpPost("/d", "body"));
    const HttpReply reply = client.Read();
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, i % 2 == 0 ? "GET /a?b=c " : "POST /d body");
    EXPECT_EQ(reply.Field("Connection"), "keep-alive");
  }
}

TEST_F(HttpServerTest, ARequestMayArriveByteByByte) {
  Start();
  HttpClient client(port());
  for (const char byte : HttpPost("/a", "xyz")) client.Send({&byte, 1});
  EXPECT_EQ(client.Read().body, "POST /a xyz");
}

TEST_F(HttpServerTest, AClientMayAskForTheEndOfTheConnection) {
  Start();
  HttpClient client(port());
  client.Send(HttpGet("/a", "Connection: close\r\n"));
  EXPECT_EQ(client.Read().Field("Connection"), "close");
  EXPECT_TRUE(client.IsClosed());
}

TEST_F(HttpServerTest, AResponseToHeadHasTheSizeAndNoBody) {
  Start();
  HttpClient client(port());
  client.Send("HEAD /a HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const HttpReply reply = client.Read(/*has_body=*/false);
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.Field("Content-Length"), "8");
  client.Send(HttpGet("/b"));
  EXPECT_EQ(client.Read().body, "GET /b ");
}

TEST_F(HttpServerTest, AnErrorAfterAResponseToHeadHasItsBody) {
  Start();
  HttpClient client(port());
  client.Send("HEAD /a HTTP/1.1\r\nHost: localhost\r\n\r\n");
  client.Read(/*has_body=*/false);
  client.Send("garbage\r\n\r\n");
  const HttpReply reply = client.Read();
  EXPECT_EQ(reply.status, 400);
  EXPECT_TRUE(reply.is_whole);
  EXPECT_NE(reply.body, "");
}

TEST_F(HttpServerTest, LineEndsBetweenRequestsAreIgnored) {
  Start();
  HttpClient client(port());
  for (int i = 0; i < 10; ++i) {
    client.Send("\r\n\r\n" + HttpPost("/a", "b") + "\r\n");
    EXPECT_EQ(client.Read().body, "POST /a b");
  }
}

TEST_F(HttpServerTest, ATargetMayBeAWholeUrl) {
  Start();
  EXPECT_EQ(Ask("GET http://localhost/a?b HTTP/1.1\r\nHost: localhost\r\n\r\n").body, "GET /a?b ");
}

TEST_F(HttpServerTest, AClientOfHttp10GetsItsResponseAndTheEnd) {
  Start();
  HttpClient client(port());
  client.Send("GET /a HTTP/1.0\r\n\r\n");
  const HttpReply reply = client.Read();
  EXPECT_EQ(reply.body, "GET /a ");
  EXPECT_EQ(reply.Field("Connection"), "close");
  EXPECT_TRUE(client.IsClosed());
}

TEST_F(HttpServerTest, AStreamForHttp10HasNoChunks) {
  Start();
  HttpClient client(port());
  client.Send("GET /later HTTP/1.0\r\n\r\n");
  const auto exchange = AwaitExchange();
  exchange->BeginStream({.content_type = "text/plain"});
  exchange->Write("ab", [](bool) {});
  exchange->Write("cd", [](bool) {});
  exchange->EndStream();
  const HttpReply reply = client.Read();
  EXPECT_EQ(reply.Field("Transfer-Encoding"), "");
  EXPECT_EQ(reply.Field("Connection"), "close");
  EXPECT_EQ(reply.body, "abcd");
}

TEST_F(HttpServerTest, AStreamIsSentPieceByPieceAndTheConnectionStays) {
  Start();
  HttpClient client(port());
  client.Send(HttpGet("/later"));
  const auto exchange = AwaitExchange();
  exchange->AddFields({{"Vary", "Origin"}});
  exchange->BeginStream({.content_type = "text/event-stream"});
  const HttpReply head = client.ReadHead();
  EXPECT_EQ(head.Field("Transfer-Encoding"), "chunked");
  EXPECT_EQ(head.Field("Vary"), "Origin");
  std::atomic<int> num_written = 0;
  for (int i = 0; i < 100; ++i) {
    exchange->Write(fmt::format("data: {}\n\n", i), [&](bool ok) { num_written += ok ? 1 : 1000; });
    exchange->Write("", [&](bool ok) { num_written += ok ? 1 : 1000; });
    EXPECT_EQ(client.ReadEvent(), std::to_string(i));
  }
  exchange->EndStream();
  EXPECT_EQ(client.ReadEvent(), "");
  client.Send(HttpGet("/a"));
  EXPECT_EQ(client.Read().body, "GET /a ");
  EXPECT_EQ(num_written, 200);
}

TEST_F(HttpServerTest, ChunksAreABody) {
  Start();
  const std::string head =
      "POST /a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: Chunked\r\n\r\n";
  EXPECT_EQ(Ask(head + "2\r\nab\r\n00003;ext=\"x\"\r\ncde\r\n0\r\n\r\n").body, "POST /a abcde");
  EXPECT_EQ(Ask(head + "0\r\nX-Trailer: 1\r\n\r\n").body, "POST /a ");
  for (const std::string_view bad :
       {"x\r\n", "-1\r\n", "\r\n", "2\r\nabc\r\n0\r\n\r\n", "2 \nab\r\n", "fffffffffffffffff\r\n",
        "0x2\r\nab\r\n0\r\n\r\n", "2\nab\n0\n\n\r\n\r\n", "0\r\nX A: b\r\n\r\n",
        "0\r\nContent-Length: 5\r\n\r\n", "0\r\nTransfer-Encoding: chunked\r\n\r\n"}) {
    ExpectRefused(head + std::string(bad), 400);
  }
}

TEST_F(HttpServerTest, FieldsAfterTheLastChunkAreNoHeaderFields) {
  Start();
  EXPECT_EQ(Ask("POST /fields HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                "1\r\na\r\n0\r\nHost: attacker.example\r\nX-Tenant-Id: other\r\n\r\n")
                .body,
            "Host=localhost;Transfer-Encoding=chunked;");
}

TEST_F(HttpServerTest, ChunksAboveTheLimitOfABodyAre413) {
  Start();
  const std::string head =
      "POST /a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  ExpectRefused(head + "7d1\r\n", 413);
  std::string chunks;
  for (int i = 0; i < 201; ++i) chunks += "a\r\n0123456789\r\n";
  ExpectRefused(head + chunks, 413);
}

TEST_F(HttpServerTest, ASizeAboveTheLimitOfABodyIs413) {
  Start();
  const auto head = [](std::string_view size) {
    return fmt::format("POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", size);
  };
  EXPECT_EQ(Ask(head("2000") + std::string(2000, 'x')).status, 200);
  ExpectRefused(head("2001"), 413);
  ExpectRefused(head("18446744073709551615"), 413);
}

TEST_F(HttpServerTest, ABodyWithoutASizeIsEmpty) {
  Start();
  EXPECT_EQ(Ask("POST /a HTTP/1.1\r\nHost: localhost\r\n\r\n").body, "POST /a ");
}

TEST_F(HttpServerTest, RequestsWhoseEndIsAmbiguousAre400) {
  Start();
  const auto refused = [this](std::string_view fields) {
    ExpectRefused(
        fmt::format("POST /a HTTP/1.1\r\nHost: localhost\r\n{}\r\n0\r\n\r\nGET /b HTTP/1.1\r\n\r\n",
                    fields),
        400);
  };
  refused("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n");
  refused("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n");
  refused("Content-Length: 5\r\nTransfer-Encoding:\r\n");
  refused("Transfer-Encoding:\r\nContent-Length: 5\r\n");
  refused("Transfer-Encoding:\r\nTransfer-Encoding: chunked\r\n");
  refused("Content-Length: 5\r\nContent-Length: 5\r\n");
  refused("Content-Length: 5, 5\r\n");
  refused("Content-Length: 5\r\nContent-Length: 4\r\n");
  refused("Content-Length: 5, 4\r\n");
  refused("Content-Length: -5\r\n");
  refused("Content-Length: +5\r\n");
  refused("Content-Length: 0x5\r\n");
  refused("Content-Length: 5 5\r\n");
  refused("Content-Length:\r\n");
  refused("Content-Length: 18446744073709551621\r\n");
  refused("Content-Length : 5\r\n");
  refused("Transfer-Encoding: gzip\r\n");
  refused("Transfer-Encoding: identity\r\n");
  refused("Transfer-Encoding: gzip, chunked\r\n");
  refused("Transfer-Encoding: chunked, gzip\r\n");
  refused("Transfer-Encoding: chunked, chunked\r\n");
  refused("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n");
  refused("Transfer-Encoding: xchunked\r\n");
  refused("Transfer-Encoding: chunked;a=b\r\n");
  refused("Transfer-Encoding : chunked\r\n");
  refused("X\r\n");
  refused("X: a\x01\r\n");
  ExpectRefused("POST /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400);
}

TEST_F(HttpServerTest, BytesThatAreNoRequestAre400) {
  Start();
  for (const std::string_view bytes :
       {"garbage\r\n\r\n", "GET /a\r\n\r\n", "GET  /a HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /a HTTP/1.2\r\nHost: localhost\r\n\r\n", "GET /a HTTP/2.0\r\nHost: localhost\r\n\r\n",
        "GET /a HTTP/1.1\nHost: localhost\n\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET /a b HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET /\x01 HTTP/1.1\r\n\r\n",
        "\x16\x03\x01\x02\x01\x01\xfc\x03\x03 a client hello of TLS"}) {
    ExpectRefused(bytes, 400);
  }
  ExpectRefused("GET /a HTTP/1.1\r\n\r\n", 400);
  ExpectRefused("GET /a HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400);
  ExpectRefused("GET /a HTTP/1.0\r\nHost: localhost\r\nHost: x\r\n\r\n", 400);
}

TEST_F(HttpServerTest, AHeadAboveItsLimitIs431) {
  Start();
  EXPECT_EQ(Ask(HttpGet("/a", "X: " + std::string(800, 'x') + "\r\n")).status, 200);
  ExpectRefused(HttpGet("/a", "X: " + std::string(1000, 'x') + "\r\n"), 431);
  ExpectRefused(HttpGet("/" + std::string(1000, 'x')), 431);
  std::string fields;
  for (int i = 0; i < 200; ++i) fields += "a: b\r\n";
  ExpectRefused(HttpGet("/a", fields), 431);
  ExpectRefused("GET /a HTTP/1.1\r\nX: " + std::string(10 << 20, 'x'), 431);
}

TEST_F(HttpServerTest, AClientThatWaitsIsAskedToContinue) {
  Start();
  HttpClient client(port());
  client.Send(
      "POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nExpect: 100-Continue\r\n\r\n");
  const HttpReply interim = client.ReadHead();
  EXPECT_EQ(interim.head, "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("abc");
  EXPECT_EQ(client.Read().body, "POST /a abc");
  client.Send(HttpGet("/b"));
  EXPECT_EQ(client.Read().body, "GET /b ");
}

TEST_F(HttpServerTest, ABodyThatIsRefusedIsNotAskedFor) {
  Start();
  const auto head = [](std::string_view path, std::string_view expectation) {
    return fmt::format(
        "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nExpect: {}\r\n\r\n", path,
        expectation);
  };
  ExpectRefused(head("/refused", "100-continue"), 403);
  ExpectRefused(head("/a", "200-ok"), 417);
  HttpClient with_body(port());
  with_body.Send(head("/a", "100-continue") + "abc");
  EXPECT_EQ(with_body.Read().status, 200) << "the client has sent the body already";
}

TEST_F(HttpServerTest, ARefusalWithoutABodyKeepsTheConnection) {
  Start();
  HttpClient client(port());
  client.Send(HttpGet("/refused"));
  EXPECT_EQ(client.Read().status, 403);
  client.Send(HttpGet("/a"));
  EXPECT_EQ(client.Read().status, 200);
}

TEST_F(HttpServerTest, AClientThatStillSendsItsBodyGetsTheRefusal) {
  options_.limits.body_bytes_max = 1 << 20;
  Start();
  HttpClient client(port());
  client.Send(HttpPost("/refused", std::string(1 << 20, 'x')));
  const HttpReply reply = client.Read();
  EXPECT_EQ(reply.status, 403);
  EXPECT_EQ(reply.body, "refused");
}

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
  options_.limits.idle_max = std::chrono::milliseconds(50);
  Start();
  EXPECT_TRUE(HttpClient(port()).IsClosed());
  HttpClient client(port());
  client.Send(HttpGet("/a"));
  EXPECT_EQ(client.Read().status, 200);
  EXPECT_TRUE(client.IsClosed());
}

TEST_F(HttpServerTest, TimeLimitsDoNotEndAResponseThatTakesLonger) {
  options_.limits.idle_max = options_.limits.head_time_max = options_.limits.body_time_max =
      options_.limits.write_time_max = std::chrono::milliseconds(200);
  Start();
  HttpClient slow(port()), idle(port());
  slow.Send(HttpGet("/later"));
  const auto exchange = AwaitExchange();
  EXPECT_TRUE(idle.IsClosed());  // more than the limits has passed
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
  EXPECT_EQ(client.ReadToEnd(), "") << "the stream has no proper end";
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
