// An HTTP client on a raw socket, which can send any bytes and read a response in parts.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>

namespace incipit {

struct HttpReply {
  int status = 0;    // 0: the connection ended before a response
  std::string head;  // status line and header fields
  std::string body;  // body without the framing of chunked transfer coding
  bool is_whole = false;

  // Returns the value of the first header field `name`, or an empty text.
  std::string Field(std::string_view name) const {
    const std::string begin = fmt::format("\r\n{}: ", name);
    const size_t found = head.find(begin);
    if (found == std::string::npos) return {};
    const size_t value = found + begin.size();
    return head.substr(value, head.find("\r\n", value) - value);
  }
};

class HttpClient {
 public:
  // `receive_buffer` is the size of the receive buffer of the socket in bytes; 0 means the default
  // of the system.
  explicit HttpClient(int port, int receive_buffer = 0)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer > 0) {
      setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    // Time limit of each read, so that a test without a response fails instead of waiting for ever.
    const timeval longest{.tv_sec = 60, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~HttpClient() { Close(); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Sends `bytes`. Returns false if the server has closed the connection.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  // Sends a FIN. The client can still receive bytes.
  void EndSending() { shutdown(fd_, SHUT_WR); }
  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }
  // Closes the connection with an RST.
  void Reset() {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    Close();
  }

  // Reads the status line and the header fields of the next response.
  HttpReply ReadHead() {
    HttpReply reply;
    const size_t end = Find("\r\n\r\n");
    if (end == std::string::npos) return reply;
    reply.head = Take(end + 4);
    EXPECT_TRUE(reply.head.starts_with("HTTP/1.1 ")) << reply.head;
    const std::string_view status = std::string_view(reply.head).substr(9, 3);
    std::from_chars(status.data(), status.data() + status.size(), reply.status);
    return reply;
  }
  // Reads the next response. `has_body` is false for the response to a HEAD request.
  HttpReply Read(bool has_body = true) {
    HttpReply reply = ReadHead();
    if (reply.status == 0) return reply;
    const std::string size = reply.Field("Content-Length");
    reply.is_whole = true;
    if (!has_body || reply.status == 100) return reply;
    if (!size.empty()) {
      const auto num_bytes = static_cast<size_t>(std::stoull(size));
      while (received_.size() < num_bytes && Receive()) {
      }
      reply.is_whole = received_.size() >= num_bytes;
      reply.body = Take(std::min(num_bytes, received_.size()));
    } else if (reply.Field("Transfer-Encoding") == "chunked") {
      bool ends = false;
      while (!ends) {
        const std::string chunk = ReadChunk(ends);
        if (chunk.empty()) break;
        reply.body += chunk;
      }
      reply.is_whole = ends;
    } else {
      reply.body = ReadToEnd();
    }
    return reply;
  }
  // Reads the next event of a stream in chunked transfer coding, without "data: " and the line
  // ends. Returns an empty text at the end of the stream. REQUIRES: ReadHead was called.
  std::string ReadEvent() {
    size_t end = 0;
    while ((end = events_.find("\n\n")) == std::string::npos) {
      bool ends = false;
      const std::string chunk = ReadChunk(ends);
      if (chunk.empty()) {
        EXPECT_EQ(events_, "");
        return {};
      }
      events_ += chunk;
    }
    std::string event = events_.substr(0, end);
    events_.erase(0, end + 2);
    EXPECT_TRUE(event.starts_with("data: ")) << event;
    return event.substr(6);
  }
  // Reads until the server closes the connection and returns the bytes.
  std::string ReadToEnd() {
    while (Receive()) {
    }
    return std::exchange(received_, {});
  }
  // Returns true if the server closes the connection without further bytes.
  bool IsClosed() { return ReadToEnd().empty() && !timed_out_; }

 private:
  bool Receive() {
    char buffer[16384];
    const ssize_t got = recv(fd_, buffer, sizeof buffer, 0);
    if (got < 0 && errno == EAGAIN) {
      timed_out_ = true;
      ADD_FAILURE() << "the server sent nothing for 60 s";
    }
    if (got <= 0) return false;
    received_.append(buffer, static_cast<size_t>(got));
    return true;
  }
  size_t Find(std::string_view text) {
    size_t found = 0;
    while ((found = received_.find(text)) == std::string::npos && Receive()) {
    }
    return found;
  }
  std::string Take(size_t num_bytes) {
    std::string taken = received_.substr(0, num_bytes);
    received_.erase(0, num_bytes);
    return taken;
  }
  // Returns the next chunk. Sets `ends` at the last chunk, which is empty. Returns an empty text
  // also if the connection ends.
  std::string ReadChunk(bool& ends) {
    const size_t line = Find("\r\n");
    if (line == std::string::npos) return {};
    size_t size = 0;
    std::from_chars(received_.data(), received_.data() + line, size, 16);
    while (received_.size() < line + size + 4 && Receive()) {
    }
    if (received_.size() < line + size + 4) return {};
    ends = size == 0;
    return Take(line + size + 4).substr(line + 2, size);
  }

  int fd_;
  std::string received_, events_;
  bool timed_out_ = false;
};

inline constexpr std::string_view kHttpHost = "Host: localhost\r\n";

inline std::string HttpGet(std::string_view path, std::string_view fields = "") {
  return fmt::format("GET {} HTTP/1.1\r\n{}{}\r\n", path, kHttpHost, fields);
}
inline std::string HttpPost(std::string_view path, std::string_view body,
                            std::string_view fields = "") {
  return fmt::format(
      "POST {} HTTP/1.1\r\n{}Content-Type: application/json\r\nContent-Length: {}\r\n{}\r\n{}",
      path, kHttpHost, body.size(), fields, body);
}

}  // namespace incipit
