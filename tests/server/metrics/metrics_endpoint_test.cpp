// The HTTP server of the metrics.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <iterator>
#include <list>

#include "base/status.h"
#include "tests/server/metrics/metrics_fixture.h"

namespace incipit {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A client connection to the metrics endpoint. The destructor closes the connection.
class Connection {
 public:
  explicit Connection(int port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    EXPECT_EQ(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~Connection() { close(socket_); }

  std::string Reply(const std::string& request) {
    EXPECT_EQ(write(socket_, request.data(), request.size()), static_cast<ssize_t>(request.size()));
    std::string reply;
    char buffer[4096];
    for (ssize_t got = 0; (got = read(socket_, buffer, sizeof buffer)) > 0;) {
      reply.append(buffer, static_cast<size_t>(got));
    }
    return reply;
  }

 private:
  int socket_;
};

TEST(MetricsTest, ServesTheTextOverHttpOnAPortOfItsChoice) {
  const auto metrics = FilledMetrics(false);
  const auto port = metrics->Start({"127.0.0.1", 0});
  ASSERT_TRUE(port.ok()) << port.status();
  ASSERT_GT(*port, 0);
  const std::string reply = Connection(*port).Reply("GET /metrics HTTP/1.0\r\n\r\n");
  EXPECT_THAT(reply, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(reply, HasSubstr("Content-Type: text/plain; version=0.0.4"));
  EXPECT_EQ(FamiliesServed(reply.substr(reply.find("\r\n\r\n") + 4)),
            FamiliesServed(metrics->Text()));
  const std::string head =
      Connection(*port).Reply("HEAD /metrics?x=1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(head, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(head.ends_with("\r\n\r\n"));
}

TEST(MetricsTest, WhatIsNoScrapeIsRefused) {
  const auto metrics = FilledMetrics(false);
  const auto port = metrics->Start({"127.0.0.1", 0});
  ASSERT_TRUE(port.ok()) << port.status();
  const auto reply = [&](const std::string& request) { return Connection(*port).Reply(request); };
  EXPECT_THAT(reply("GET / HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(reply("GET /metrics/../etc/passwd HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(reply("POST /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(reply("garbage\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(reply(std::string("\0 \r\n\r\n", 6)), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(reply("GET /metrics HTTP/1.1\r\nX: " + std::string(8192, 'x')),
              StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(reply("GET /metrics HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST(MetricsTest, ScrapersThatSayNothingLeaveRoomForOthers) {
  const auto metrics = FilledMetrics(false);
  const auto port = metrics->Start({"127.0.0.1", 0});
  ASSERT_TRUE(port.ok()) << port.status();
  std::list<Connection> silent;
  for (int i = 0; i < 32; ++i) silent.emplace_back(*port);
  EXPECT_THAT(Connection(*port).Reply("GET /metrics HTTP/1.0\r\n\r\n"), HasSubstr("200 OK"));
}

TEST(MetricsTest, ScrapersThatSayNothingMakeRoomWhenThereIsNone) {
  const auto metrics = FilledMetrics(false);
  const auto port = metrics->Start({"127.0.0.1", 0});
  ASSERT_TRUE(port.ok()) << port.status();
  std::list<Connection> silent;
  for (int i = 0; i < 64; ++i) silent.emplace_back(*port);
  EXPECT_THAT(Connection(*port).Reply("GET /metrics HTTP/1.0\r\n\r\n"), HasSubstr("200 OK"));
  // The endpoint has closed only one connection: the connection that was silent for the longest
  // time.
  EXPECT_EQ(silent.front().Reply(""), "");
  EXPECT_THAT(std::next(silent.begin())->Reply("GET /metrics HTTP/1.0\r\n\r\n"),
              HasSubstr("200 OK"));
  EXPECT_THAT(silent.back().Reply("GET /metrics HTTP/1.0\r\n\r\n"), HasSubstr("200 OK"));
}

TEST(MetricsTest, AnAddressThatCannotBeServedIsNamed) {
  Metrics metrics({});
  const auto port = metrics.Start({"127.0.0.1", 0});
  ASSERT_TRUE(port.ok()) << port.status();
  const HostPort taken{"127.0.0.1", static_cast<uint16_t>(*port)};
  const auto again = Metrics({}).Start(taken);
  EXPECT_EQ(again.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(MessageOf(again.status()), HasSubstr(ToString(taken)));
}

}  // namespace
}  // namespace incipit
