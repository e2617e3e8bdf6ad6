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

// Counts the bytes that all connections of a server together use for request bodies and for unsent
// responses.
struct HttpMemory {
  // Maximum total size, in bytes, of the request bodies that are being received.
  int64_t body_bytes_max = int64_t{1} << 30;
  // Total size, in bytes, of the request bodies that are being received. A chunked body, whose size
  // is not known, counts as a body of the maximum size.
  std::atomic<int64_t> num_body_bytes{0};
  // Total size, in bytes, of all parts of responses that the operating system has not accepted
  // completely.
  std::atomic<int64_t> num_unwritten_bytes{0};
};

struct HttpLimits {
  // Maximum size, in bytes, of the start line and the header fields of a request together. The same
  // limit applies to each size line of a chunked body, and to its trailer fields (fields after the
  // last chunk) together.
  size_t head_bytes_max = 16 << 10;
  // Maximum size of a request body in bytes, without size lines and trailer fields. The size lines
  // and trailer fields (fields after the last chunk) of a chunked body together have a separate
  // limit of the same size.
  size_t body_bytes_max = 4 << 20;
  // Maximum time that a connection waits for the first byte of a request. After this time, the
  // server closes the connection.
  Duration idle_max = std::chrono::seconds(75);
  // Maximum time from the first byte of a request to the end of its header fields.
  Duration head_time_max = std::chrono::seconds(10);
  Duration body_time_max = std::chrono::seconds(30);  // maximum time to receive a request body
  // Maximum time to send the unsent rest of a response, from the moment when the server has
  // computed the whole response.
  Duration write_time_max = std::chrono::seconds(30);
};

// Callbacks that compute the responses to HTTP requests. The threads of the HTTP server call the
// callbacks.
struct HttpHandlers {
  // Called when the header fields of a request have arrived, before the server reads the body. If
  // the callback returns a response, the server sends this response and does not call `handle`. If
  // the request has a body, the server then closes the connection.
  std::function<std::optional<HttpResponse>(const HttpRequestHead& head)> check;
  // Called with a complete request. The callback must not wait. Any thread may send the response
  // later.
  std::function<void(std::shared_ptr<HttpExchange>)> handle;
  // Returns the response, with the status code `status`, to a request that is not valid HTTP or
  // that exceeds a limit of size or time.
  std::function<HttpResponse(int status, std::string_view message)> error;
};

// One connection from an HTTP client to the server. Call each function only on the thread that runs
// the executor of the connection's socket, unless the comment of the function permits any thread.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  // Creates a connection that calls `on_end` once, when the connection is closed. `peer` is the
  // address and port of the client, as HOST:PORT. REQUIRES: `limits`, `handlers` and `memory`
  // outlive the connection.
  HttpConnection(boost::asio::ip::tcp::socket socket, std::string peer, const HttpLimits& limits,
                 const HttpHandlers& handlers, HttpMemory& memory, std::function<void()> on_end);
  ~HttpConnection();

  // Starts to read requests. May be called on any thread.
  void Run();
  // Closes the connection immediately if no request has begun to arrive. Otherwise, closes the
  // connection after the response to the current request. May be called on any thread.
  void CloseWhenIdle() { CloseLater(/*waits_for_request=*/true); }
  // Closes the connection immediately. May be called on any thread.
  void Close();
  // If the server is responding to a request, closes the connection after the response. Otherwise,
  // closes the connection immediately. May be called on any thread.
  void CloseUnlessResponding() { CloseLater(/*waits_for_request=*/false); }
  // Returns true while the server responds to a request. May be called on any thread.
  bool is_responding() const {
    const State state = state_;
    return state == State::kResponding || state == State::kLingering;
  }

  // These functions implement the functions of HttpExchange (a request and its response) that have
  // the same names. May be called on any thread.
  void Respond(HttpResponse response, std::function<void(bool)> on_written);
  void BeginStream(HttpResponse head);
  void Write(std::string bytes, std::function<void(bool)> on_written);
  void EndStream();
  void OnClosed(std::function<void()> on_closed);

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  using Error = boost::system::error_code;
  enum class State : uint8_t {
    kIdle,  // the connection waits for the first byte of a request
    kReadingHead,
    kReadingBody,
    kResponding,  // the server computes or sends the response to a request
    kLingering,   // the server discards bytes from the client before it closes the connection
    kClosed,
  };
  // Bytes of a response to send: `begin`, then `bytes`, then `end`. If the bytes are a chunk of the
  // chunked transfer coding, `begin` contains the size of the chunk, and `end` is a line end.
  struct Part {
    std::string begin, bytes;
    std::string_view end;
    std::function<void(bool)> on_written;

    int64_t num_bytes() const {
      return static_cast<int64_t>(begin.size() + bytes.size() + end.size());
    }
  };

  // Queues `function` for the thread of the connection, and returns without waiting.
  template <typename Function>
  void Post(Function function);
  // If the server is responding to a request, closes the connection after the response. If a
  // request has begun to arrive and `waits_for_request` is true, closes the connection after the
  // response to this request. Otherwise, closes the connection immediately.
  void CloseLater(bool waits_for_request);
  // Starts the timer: the timer calls Expire after `time`, unless Arm or Disarm is called earlier.
  void Arm(Duration time);
  void Disarm();
  void Expire();

  void AwaitRequest();
  // Waits for the first bytes of a request, and then reads the header fields.
  void AwaitBytes();
  void ReadHead();
  // Starts to wait for further bytes of the request. When bytes have arrived, appends the bytes to
  // `buffer_` and calls `parse`. REQUIRES: `buffer_` is not full.
  void ReadMore(void (HttpConnection::*parse)());
  // Parses the bytes in `buffer_`, and removes the parsed bytes. Returns the error of the parser.
  // The error is `need_more` if the parser needs further bytes.
  Error Parse();
  void ParseHead();
  void OnHead();
  // Checks the header fields of a request. Returns the HTTP status code and the message of an
  // error, or status 0 if the request is valid.
  std::pair<int, std::string_view> CheckHead() const;
  // Adds the size of the request body to `memory_.num_body_bytes`. Returns false, and adds nothing,
  // if the sum would exceed `memory_.body_bytes_max`.
  bool ReserveBody();
  void ReleaseBody();
  void ReadBody();
  void ParseBody();
  void Handle();
  // Starts to watch the socket, so that the connection closes if the client disconnects before the
  // response is complete.
  void WatchClient();
  void OnClientReadable(Error error);

  void SendError(int status, std::string_view message);
  void Send(HttpResponse response, std::function<void(bool)> on_written = nullptr);
  void Enqueue(Part part);
  void WriteNext();
  void OnWritten(Error error);
  // Waits for the next request, or closes the connection. Called after a complete response was
  // sent.
  void FinishResponse();
  void Linger();
  void DiscardSome();
  void CloseNow();

  boost::asio::ip::tcp::socket socket_;
  const std::string peer_;
  const HttpLimits& limits_;
  const HttpHandlers& handlers_;
  HttpMemory& memory_;
  // Number of bytes that this connection has added to `memory_.num_body_bytes`.
  int64_t num_reserved_bytes_ = 0;
  std::function<void()> on_end_;
  boost::asio::steady_timer timer_;
  // Number of calls of Arm and Disarm so far. If a timer from an earlier call expires, the
  // connection ignores the timer.
  uint64_t timer_generation_ = 0;
  // State of the connection. Written only by the thread of the connection; read by any thread.
  std::atomic<State> state_ = State::kIdle;

  // Received bytes that are not parsed yet. The capacity is `limits_.head_bytes_max` bytes.
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  // Start line and header fields of the request whose body is being read. Trailer fields (fields
  // after the last chunk of the body) are left out, because the server does not check trailer
  // fields.
  HttpRequestHead head_;
  // Number of parsed bytes in the current part of the request. The first part is the start line
  // with the header fields. The second part is the body with chunk size lines and trailer fields.
  size_t num_received_bytes_ = 0;
  bool is_http_1_0_ = false, is_head_ = false;
  // True if the connection must be closed after the current response.
  bool closes_ = false;

  HttpBody response_body_ = HttpBody::kSized;
  // Number of bytes that the client has sent after the end of the current request.
  size_t num_surplus_bytes_ = 0;
  // True after the last part of the response was added to `parts_`.
  bool response_complete_ = false;
  // True after Respond or BeginStream was called for the current request.
  bool has_response_ = false;
  // Parts of the response that are not sent completely. The first part is being sent.
  std::deque<Part> parts_;
  std::function<void()> on_closed_;
  std::array<char, 4096> discarded_;
};

}  // namespace incipit
