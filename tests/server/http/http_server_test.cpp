// Tests requests and responses of the HTTP server, on real sockets.
#include <gtest/gtest.h>

#include "tests/server/http/http_server_fixture.h"

namespace incipit {
namespace {

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
  EXPECT_EQ(Ask("GET HTTP://localhost HTTP/1.1\r\nHost: localhost\r\n\r\n").body, "GET / ");
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

TEST_F(HttpServerTest, ChunkSizesAndExtensionsCountAgainstTheLimitOfABody) {
  Start();
  const std::string head =
      "POST /a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  // Each chunk has one byte of the body and 100 bytes of framing: its size line and its line end.
  // The last chunk has 5 bytes of framing.
  const std::string chunk = "1;" + std::string(94, 'x') + "\r\na\r\n";
  std::string chunks;
  for (int i = 0; i < 19; ++i) chunks += chunk;
  EXPECT_EQ(Ask(head + chunks + "0\r\n\r\n").body, "POST /a " + std::string(19, 'a'));
  EXPECT_EQ(Ask(head + chunks + "0\r\nX: " + std::string(90, 'y') + "\r\n\r\n").status, 200);
  ExpectRefused(head + chunks + "0\r\nX: " + std::string(91, 'y') + "\r\n\r\n", 413);
  ExpectRefused(head + chunks + chunk + "0\r\n\r\n", 413);
}

TEST_F(HttpServerTest, AChunkSizeOrATrailerAboveTheLimitOfTheHeadIs431) {
  Start();
  const std::string head =
      "POST /a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(Ask(head + "1;" + std::string(990, 'x') + "\r\na\r\n0\r\n\r\n").status, 200);
  for (const std::string& start : {std::string("1;"), std::string(), std::string("0\r\nX: ")}) {
    ExpectRefused(head + start + std::string(1001, '0'), 431);
  }
  std::string trailers;
  for (int i = 0; i < 170; ++i) trailers += "X: a\r\n";
  ExpectRefused(head + "0\r\n" + trailers, 431);
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

TEST_F(HttpServerTest, AHeadThatArrivesInPiecesHasTheSameLimit) {
  Start();
  HttpClient client(port());
  client.Send("GET /a HTTP/1.1\r\nHost: localhost\r\n");
  for (int i = 0; i < 20; ++i) {
    client.Send("X: " + std::string(95, 'x') + "\r\n");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(client.Read().status, 431);
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
  EXPECT_EQ(with_body.Read().status, 200)
      << "no 100 Continue if the client has already sent the body";
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

}  // namespace
}  // namespace incipit
