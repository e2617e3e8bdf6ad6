// A connection of an HTTP client: reads one request after the other and sends the responses.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "server/http/http_exchange.h"
#include "server/http/http_message.h"

namespace incipit {

// The memory for request bodies that all connections of a server have in common.
struct HttpBodyMemory {
  int64_t bytes_max = int64_t{1} << 30;
  // Sum of the sizes of all bodies that are being received.
  std::atomic<int64_t> num_bytes{0};
};

struct HttpLimits {
  size_t head_bytes_max = 16 << 10;  // maximum size of the start line and the header fields
  size_t body_bytes_max = 4 << 20;   // maximum size of the body of a request
  // Time without a request after which the server closes a connection.
  Duration idle_max = std::chrono::seconds(75);
  Duration head_time_max = std::chrono::seconds(10);  // maximum time to receive a request head
  Duration body_time_max = std::chrono::seconds(30);  // maximum time to receive a body
  // Maximum time to send a response that is not a stream. The sender of a stream watches the time
  // itself.
  Duration write_time_max = std::chrono::seconds(30);
};

// Reacts to the requests of all connections. Called on the threads of the HTTP server.
struct HttpHandlers {
  // Checks a request before its body is read. A returned response is sent instead of calling
  // `handle`, and the connection is then closed.
  std::function<std::optional<HttpResponse>(const HttpRequestHead& head)> check;
  // Handles a request. The callback must not wait. The response may be sent later.
  std::function<void(std::shared_ptr<HttpExchange>)> handle;
  // Returns the response to a request that is not valid HTTP or exceeds a limit.
  std::function<HttpResponse(int status, std::string_view message)> error;
};

// All functions run on the thread of the connection's executor unless the comment says otherwise.
// An HttpConnection exists until its socket is closed and its last operation has ended.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  // `limits` and `handlers` must outlive the connection. `on_end` is called once, when the
  // connection is closed.
  HttpConnection(boost::asio::ip::tcp::socket socket, std::string peer, const HttpLimits& limits,
                 const HttpHandlers& handlers, HttpBodyMemory& body_memory,
                 std::function<void()> on_end);
  ~HttpConnection();

  // Reads requests until the connection ends. Called on any thread.
  void Run();
  // Closes the connection if no request is in progress. Otherwise, closes the connection after the
  // response. Called on any thread.
  void CloseWhenIdle();
  // Closes the connection. Called on any thread.
  void Close();
  // Closes the connection unless a request is in progress. Called on any thread.
  void CloseUnlessResponding();
  // Returns true while a request is in progress. Called on any thread.
  bool is_responding() const { return is_responding_; }

  // Called by HttpExchange, on any thread.
  void Respond(HttpResponse response);
  void BeginStream(HttpResponse head);
  void Write(std::string bytes, std::function<void(bool)> on_written);
  void EndStream();
  void OnClosed(std::function<void()> on_closed);

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  using Error = boost::system::error_code;
  enum class State : uint8_t {
    kIdle,  // waits for the first byte of a request
    kReadingHead,
    kReadingBody,
    kResponding,  // the handler has the request
    kLingering,   // discards what the client still sends, so that it can read the response
    kClosed,
  };
  // A part of a response. `begin` and `end` frame the part in chunked transfer coding.
  struct Part {
    std::string begin, bytes;
    std::string_view end;
    std::function<void(bool)> on_written;
  };

  // Calls `function` on the thread of the connection.
  template <typename Function>
  void Post(Function function);
  // Calls Expire after `time`, unless Disarm or another Arm comes first.
  void Arm(Duration time);
  void Disarm();
  void Expire();

  void AwaitRequest();
  // Waits for the first bytes of a request.
  void AwaitBytes();
  void ReadHead();
  void OnHead(Error error);
  // Returns the status and the message for a head that must be refused, or status 0.
  std::pair<int, std::string_view> CheckHead() const;
  // Counts the body of the request in `body_memory_`. Returns false if the memory is full.
  bool ReserveBody();
  void ReleaseBody();
  void ReadBody();
  void OnBody(Error error);
  void Handle();
  // Waits until the client sends or disconnects while the response is not complete.
  void WatchClient();
  void OnClientReadable(Error error);

  void SendError(int status, std::string_view message);
  void Send(HttpResponse response);
  void Enqueue(Part part);
  void WriteNext();
  void OnWritten(Error error);
  // Ends the response: begins to wait for the next request, or closes the connection.
  void FinishResponse();
  void Linger();
  void DiscardSome();
  void CloseNow();

  boost::asio::ip::tcp::socket socket_;
  const std::string peer_;
  const HttpLimits& limits_;
  const HttpHandlers& handlers_;
  HttpBodyMemory& body_memory_;
  int64_t num_reserved_bytes_ = 0;  // part of `body_memory_` that this connection uses
  std::function<void()> on_end_;
  boost::asio::steady_timer timer_;
  uint64_t timer_generation_ = 0;  // number of calls of Arm and Disarm
  State state_ = State::kIdle;
  std::atomic<bool> is_responding_ = false;  // true in the states kResponding and kLingering

  boost::beast::flat_buffer buffer_;  // received bytes that are not parsed yet
  std::optional<Parser> parser_;
  bool is_http_1_0_ = false, is_head_ = false;
  // True if the connection must be closed after the current response.
  bool closes_ = false;

  HttpBody response_body_ = HttpBody::kSized;
  size_t num_surplus_bytes_ = 0;    // number of bytes received since the end of the request
  bool response_complete_ = false;  // true after the last part of the response was enqueued
  bool has_response_ = false;       // true after Respond or BeginStream
  std::deque<Part> parts_;          // parts that are being sent or wait; the first is being sent
  std::function<void()> on_closed_;
  std::array<char, 4096> discarded_;
};

}  // namespace incipit
