// Reads the requests of one HTTP connection, one after the other, and sends the responses.
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

// Counts the memory that all connections of a server use.
struct HttpMemory {
  int64_t body_bytes_max = int64_t{1} << 30;  // maximum of `num_body_bytes`
  // Sum of the sizes of all request bodies that are being received.
  std::atomic<int64_t> num_body_bytes{0};
  // Sum of the sizes of all parts of responses that wait for the operating system or are being
  // passed to the operating system.
  std::atomic<int64_t> num_unwritten_bytes{0};
};

struct HttpLimits {
  size_t head_bytes_max = 16 << 10;  // maximum size of the start line and the header fields
  size_t body_bytes_max = 4 << 20;   // maximum size of the body of a request
  // Maximum time that a connection waits for the first byte of a request. The server then closes
  // the connection.
  Duration idle_max = std::chrono::seconds(75);
  Duration head_time_max = std::chrono::seconds(10);  // maximum time to receive the header fields
  Duration body_time_max = std::chrono::seconds(30);  // maximum time to receive a request body
  // Maximum time to send a response. For a stream, the limit is only for the end of the response.
  Duration write_time_max = std::chrono::seconds(30);
};

// Callbacks that compute the responses to HTTP requests. The server calls the callbacks on its own
// threads.
struct HttpHandlers {
  // Called before the body of a request is read. If the callback returns a response, the connection
  // sends this response and closes, and `handle` is not called.
  std::function<std::optional<HttpResponse>(const HttpRequestHead& head)> check;
  // Called with a complete request. The callback must not wait; another thread may send the
  // response later.
  std::function<void(std::shared_ptr<HttpExchange>)> handle;
  // Returns the response to a request that is not valid HTTP, or that exceeds a limit of size or
  // time.
  std::function<HttpResponse(int status, std::string_view message)> error;
};

// One connection of an HTTP client. A function must be called on the thread that runs the executor
// of the connection's socket, unless the comment of the function permits any thread.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  // Calls `on_end` once, when the connection is closed. REQUIRES: `limits`, `handlers` and `memory`
  // outlive the connection.
  HttpConnection(boost::asio::ip::tcp::socket socket, std::string peer, const HttpLimits& limits,
                 const HttpHandlers& handlers, HttpMemory& memory, std::function<void()> on_end);
  ~HttpConnection();

  // Starts to read requests. May be called on any thread.
  void Run();
  // Closes the connection after the response to the current request. Closes the connection
  // immediately if no request has begun. May be called on any thread.
  void CloseWhenIdle();
  // Closes the connection immediately. May be called on any thread.
  void Close();
  // Closes the connection, but does nothing if the server is responding to a request. May be called
  // on any thread.
  void CloseUnlessResponding();
  // Returns true while the server responds to a request. May be called on any thread.
  bool is_responding() const { return is_responding_; }

  // The functions of HttpExchange with the same names call these functions, on any thread.
  void Respond(HttpResponse response, std::function<void(bool)> on_written);
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
    kResponding,  // computes or sends the response to a request
    kLingering,   // discards bytes from the client, so that the client can read the whole response
    kClosed,
  };
  // Bytes of a response to send: `begin`, then `bytes`, then `end`. For a chunk, `begin` contains
  // the size of the chunk, and `end` is a line end.
  struct Part {
    std::string begin, bytes;
    std::string_view end;
    std::function<void(bool)> on_written;

    int64_t num_bytes() const {
      return static_cast<int64_t>(begin.size() + bytes.size() + end.size());
    }
  };

  // Calls `function` on the thread of the connection.
  template <typename Function>
  void Post(Function function);
  // Starts the timer: calls Expire after `time`, unless Disarm or Arm is called before.
  void Arm(Duration time);
  void Disarm();
  void Expire();

  void AwaitRequest();
  // Waits for the first bytes of a request, and then reads the header fields.
  void AwaitBytes();
  void ReadHead();
  void OnHead(Error error);
  // Checks the header fields of a request. Returns the HTTP status code and the message of an
  // error, or status 0 if the request is valid.
  std::pair<int, std::string_view> CheckHead() const;
  // Counts the body of the request in `memory_`. Returns false if the memory is full.
  bool ReserveBody();
  void ReleaseBody();
  void ReadBody();
  void OnBody(Error error);
  void Handle();
  // Detects that the client disconnects before the response is complete.
  void WatchClient();
  void OnClientReadable(Error error);

  void SendError(int status, std::string_view message);
  void Send(HttpResponse response, std::function<void(bool)> on_written = nullptr);
  void Enqueue(Part part);
  void WriteNext();
  void OnWritten(Error error);
  // Called after a complete response was sent. Waits for the next request, or closes the
  // connection.
  void FinishResponse();
  void Linger();
  void DiscardSome();
  void CloseNow();

  boost::asio::ip::tcp::socket socket_;
  const std::string peer_;
  const HttpLimits& limits_;
  const HttpHandlers& handlers_;
  HttpMemory& memory_;
  int64_t num_reserved_bytes_ = 0;  // bytes in `memory_.num_body_bytes` of this connection
  std::function<void()> on_end_;
  boost::asio::steady_timer timer_;
  uint64_t timer_generation_ = 0;  // total number of calls of Arm and Disarm
  State state_ = State::kIdle;
  std::atomic<bool> is_responding_ = false;  // true in the states kResponding and kLingering

  boost::beast::flat_buffer buffer_;  // received bytes that are not parsed yet
  std::optional<Parser> parser_;
  // Head of the request whose body is being read. Does not contain the fields after the last chunk
  // of the body: no check has seen these fields.
  HttpRequestHead head_;
  bool is_http_1_0_ = false, is_head_ = false;
  // True if the connection must be closed after the current response.
  bool closes_ = false;

  HttpBody response_body_ = HttpBody::kSized;
  size_t num_surplus_bytes_ = 0;    // number of bytes received after the current request
  bool response_complete_ = false;  // true after the last part was added to `parts_`
  bool has_response_ = false;       // true after Respond or BeginStream was called for the request
  std::deque<Part> parts_;  // parts of the response that are not sent; the first part is being sent
  std::function<void()> on_closed_;
  std::array<char, 4096> discarded_;
};

}  // namespace incipit
