// Fuzzes HttpConnection. The input is the bytes that a client sends on one connection. The server
// must respond to each request that the handler gets, must close the connection after the client
// has ended, and must never pass a request whose end is ambiguous to the handler.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <charconv>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/check.h"
#include "server/http/http_connection.h"

namespace {

using incipit::HttpRequestHead;
using incipit::HttpResponse;

constexpr size_t kHeadBytesMax = 1024, kBodyBytesMax = 2048;
constexpr std::string_view kBody = "response\n";

void CheckRequest(const HttpRequestHead& head, std::string_view body) {
  INCIPIT_CHECK(!head.method.empty() && !head.target.empty());
  INCIPIT_CHECK(head.NumFields("Host") <= 1);
  INCIPIT_CHECK(head.NumFields("Content-Length") + head.NumFields("Transfer-Encoding") <= 1);
  INCIPIT_CHECK(body.size() <= kBodyBytesMax);
  for (const auto& [name, value] : head.fields) {
    INCIPIT_CHECK(name.find_first_of(std::string_view("\r\n\0: \t", 6)) == name.npos);
    INCIPIT_CHECK(value.find_first_of(std::string_view("\r\n\0", 3)) == value.npos);
  }
  const std::string_view length = head.Field("Content-Length");
  size_t num_bytes = 0;
  std::from_chars(length.data(), length.data() + length.size(), num_bytes);
  if (head.NumFields("Transfer-Encoding") == 0) INCIPIT_CHECK(body.size() == num_bytes);
}

// Returns the bytes that can be read from `fd` without waiting.
std::string ReadAll(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT)) > 0;) {
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

size_t Count(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  int ends[2];
  INCIPIT_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  boost::asio::io_context context(1);
  boost::asio::ip::tcp::socket socket(context);
  socket.assign(boost::asio::ip::tcp::v4(), ends[0]);
  incipit::HttpLimits limits;
  limits.head_bytes_max = kHeadBytesMax;
  limits.body_bytes_max = kBodyBytesMax;
  size_t num_requests = 0, num_errors = 0;
  bool has_ended = false;
  incipit::HttpHandlers handlers;
  handlers.check = [](const HttpRequestHead&) { return std::nullopt; };
  handlers.handle = [&](std::shared_ptr<incipit::HttpExchange> exchange) {
    ++num_requests;
    CheckRequest(exchange->head(), exchange->body());
    exchange->Respond({.body = std::string(kBody)});
  };
  handlers.error = [&](int status, std::string_view) {
    ++num_errors;
    INCIPIT_CHECK(status >= 400 && status < 600);
    return HttpResponse{.status = status};
  };
  incipit::HttpMemory memory;
  {
    const auto connection = std::make_shared<incipit::HttpConnection>(
        std::move(socket), "peer", limits, handlers, memory, [&] { has_ended = true; });
    connection->Run();
  }
  const size_t sent = std::min<size_t>(size, 64 << 10);
  INCIPIT_CHECK(send(ends[1], data, sent, MSG_DONTWAIT) == static_cast<ssize_t>(sent) || sent == 0);
  context.poll();
  std::string received = ReadAll(ends[1]);
  shutdown(ends[1], SHUT_WR);
  context.run();
  received += ReadAll(ends[1]);
  close(ends[1]);
  INCIPIT_CHECK(has_ended);
  INCIPIT_CHECK(memory.num_body_bytes == 0 && memory.num_unwritten_bytes == 0);
  INCIPIT_CHECK(num_errors <= 1);
  INCIPIT_CHECK(received.empty() || received.starts_with("HTTP/1.1 "));
  INCIPIT_CHECK(Count(received, "HTTP/1.1 200 OK\r\n") <= num_requests);
  return 0;
}
