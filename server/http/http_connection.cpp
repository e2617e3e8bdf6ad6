#include "server/http/http_connection.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/error.hpp>
#include <utility>

#include "base/check.h"

namespace incipit {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

// Maximum time for which the server discards bytes from a client after the last response of a
// connection. If the server closed the connection while the client still sends, the client could
// lose the end of the response.
constexpr Duration kLingerTime = std::chrono::seconds(2);
// Maximum number of bytes that the server reads from the socket in its first read of a new request.
constexpr size_t kFirstBytes = 1024;
// Maximum number of bytes that the server reads from the socket at once, except in the first read
// of a new request (kFirstBytes).
constexpr size_t kReadBytesMax = 64 << 10;
// Maximum number of bytes that a client may send between the end of a request and the end of its
// response. The server discards these bytes. If the client sends more, the server closes the
// connection.
constexpr size_t kSurplusBytesMax = 64 << 10;
constexpr std::string_view kChunkEnd = "\r\n";
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

// Removes line ends from the front of `buffer`. A client may send line ends between two requests
// (RFC 9112, section 2.2).
void SkipLineEnds(boost::beast::flat_buffer& buffer) {
  const auto* const bytes = static_cast<const char*>(buffer.data().data());
  size_t length = 0;
  while (length < buffer.size() && (bytes[length] == '\r' || bytes[length] == '\n')) ++length;
  buffer.consume(length);
}

// The parts of a request target. The target is a path with a query, or a whole URL.
struct RequestTarget {
  std::string host;  // host and port of the URL; empty if the target is a path
  std::string path;  // path and query
};

RequestTarget TargetFrom(std::string_view target) {
  constexpr std::string_view kScheme = "http://";
  if (!EqualsIgnoringCase(target.substr(0, kScheme.size()), kScheme)) {
    return {.host = {}, .path = std::string(target)};
  }
  target.remove_prefix(kScheme.size());
  const size_t end = std::min(target.find_first_of("/?"), target.size());
  const std::string_view rest = target.substr(end);
  return {.host = std::string(target.substr(0, end)),
          .path = (rest.starts_with('/') ? "" : "/") + std::string(rest)};
}

HttpRequestHead HeadFrom(const http::request<http::string_body>& message, std::string peer) {
  HttpRequestHead head;
  head.method = std::string(message.method_string());
  const auto text = message.target();
  RequestTarget target = TargetFrom({text.data(), text.size()});
  head.target = std::move(target.path);
  for (const auto& field : message) {
    // The host in a URL replaces the header field Host (RFC 9112, section 3.2.2).
    if (field.name() == http::field::host && !target.host.empty()) continue;
    head.fields.emplace_back(std::string(field.name_string()), std::string(field.value()));
  }
  if (!target.host.empty()) head.fields.emplace_back("Host", std::move(target.host));
  head.peer = std::move(peer);
  return head;
}

}  // namespace

HttpConnection::HttpConnection(asio::ip::tcp::socket socket, std::string peer,
                               const HttpLimits& limits, const HttpHandlers& handlers,
                               HttpMemory& memory, std::function<void()> on_end)
    : socket_(std::move(socket)),
      peer_(std::move(peer)),
      limits_(limits),
      handlers_(handlers),
      memory_(memory),
      on_end_(std::move(on_end)),
      timer_(socket_.get_executor()),
      buffer_(limits.head_bytes_max) {}

HttpConnection::~HttpConnection() = default;

template <typename Function>
void HttpConnection::Post(Function function) {
  asio::post(socket_.get_executor(),
             [self = shared_from_this(), function = std::move(function)]() mutable { function(); });
}

void HttpConnection::Arm(Duration time) {
  const uint64_t generation = ++timer_generation_;
  timer_.expires_after(time);
  timer_.async_wait([self = shared_from_this(), generation](Error error) {
    if (!error && generation == self->timer_generation_) self->Expire();
  });
}

void HttpConnection::Disarm() {
  ++timer_generation_;
  timer_.cancel();
}

void HttpConnection::Expire() {
  if (state_ == State::kReadingHead || state_ == State::kReadingBody) {
    SendError(408, "the complete request did not arrive in time");
  } else {
    CloseNow();
  }
}

void HttpConnection::Run() {
  Post([this] {
    Error ignored;
    // In the non-blocking mode, the function read_some of the socket never waits for bytes.
    socket_.non_blocking(true, ignored);
    AwaitRequest();
  });
}

void HttpConnection::AwaitRequest() {
  if (closes_) {
    CloseNow();
    return;
  }
  state_ = State::kIdle;
  is_head_ = is_http_1_0_ = false;
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(limits_.head_bytes_max));
  parser_->body_limit(limits_.body_bytes_max);
  buffer_.shrink_to_fit();
  Arm(limits_.idle_max);
  AwaitBytes();
}

void HttpConnection::AwaitBytes() {
  socket_.async_wait(asio::ip::tcp::socket::wait_read, [self = shared_from_this()](Error error) {
    if (self->state_ != State::kIdle) return;
    if (!error) {
      const auto space = self->buffer_.prepare(std::min(kFirstBytes, self->buffer_.max_size()));
      self->buffer_.commit(self->socket_.read_some(space, error));
    }
    SkipLineEnds(self->buffer_);
    if (error && error != asio::error::would_block) {
      self->CloseNow();
    } else if (self->buffer_.size() == 0) {
      self->AwaitBytes();
    } else {
      self->ReadHead();
    }
  });
}

void HttpConnection::ReadHead() {
  state_ = State::kReadingHead;
  num_received_bytes_ = 0;
  Arm(limits_.head_time_max);
  ParseHead();
}

void HttpConnection::ReadMore(void (HttpConnection::*parse)()) {
  const size_t num_free = buffer_.max_size() - buffer_.size();
  socket_.async_read_some(
      buffer_.prepare(std::min(num_free, kReadBytesMax)),
      [self = shared_from_this(), parse, state = State(state_)](Error error, size_t num_bytes) {
        if (self->state_ != state) return;
        if (error) {
          self->CloseNow();  // the client has disconnected
          return;
        }
        self->buffer_.commit(num_bytes);
        (self.get()->*parse)();
      });
}

boost::system::error_code HttpConnection::Parse() {
  Error error = http::error::need_more;
  if (buffer_.size() > 0) {
    const size_t num_bytes = parser_->put(buffer_.data(), error);
    num_received_bytes_ += num_bytes;
    buffer_.consume(num_bytes);
  }
  return error;
}

void HttpConnection::ParseHead() {
  const Error error = Parse();
  // Checks the size of the whole head (start line and header fields). The parser checks only the
  // bytes that one call of `put` gets.
  const bool is_complete = !error && parser_->is_header_done();
  const size_t num_bytes = num_received_bytes_ + (is_complete ? 0 : buffer_.size() + 1);
  if (error == http::error::header_limit || num_bytes > limits_.head_bytes_max) {
    SendError(431, "the header fields are too large");
  } else if (error == http::error::body_limit) {
    SendError(413, "the request body is larger than --message-bytes-max allows");
  } else if (error && error != http::error::need_more) {
    SendError(400, "the request is not valid HTTP/1.1");
  } else if (is_complete) {
    OnHead();
  } else {
    ReadMore(&HttpConnection::ParseHead);
  }
}

void HttpConnection::OnHead() {
  is_http_1_0_ = parser_->get().version() < 11;
  is_head_ = parser_->get().method() == http::verb::head;
  closes_ = closes_ || !parser_->get().keep_alive();
  const auto [status, message] = CheckHead();
  if (status != 0) {
    SendError(status, message);
    return;
  }
  head_ = HeadFrom(parser_->get(), peer_);
  if (auto refusal = handlers_.check(head_); refusal) {
    SkipLineEnds(buffer_);
    closes_ = closes_ || !parser_->is_done() || buffer_.size() > 0;
    Send(*std::move(refusal));
    return;
  }
  ReadBody();
}

std::pair<int, std::string_view> HttpConnection::CheckHead() const {
  const auto& message = parser_->get();
  if (message.version() != 10 && message.version() != 11) {
    return {400, "the HTTP version is not supported; the server supports HTTP/1.0 and HTTP/1.1"};
  }
  if (message.count(http::field::host) > 1 ||
      (message.version() == 11 && message.count(http::field::host) == 0)) {
    return {400, "the request must have exactly one header field Host"};
  }
  const size_t num_codings = message.count(http::field::transfer_encoding);
  const auto coding = message[http::field::transfer_encoding];
  if (num_codings > 0 &&
      (!EqualsIgnoringCase(std::string_view(coding.data(), coding.size()), "chunked") ||
       num_codings > 1 || message.version() == 10)) {
    return {400, "the only supported Transfer-Encoding is chunked, and only in HTTP/1.1"};
  }
  const auto length = message[http::field::content_length];
  const size_t num_lengths = message.count(http::field::content_length);
  if (num_codings > 0 && num_lengths > 0) {
    return {400, "the request must not have both Content-Length and Transfer-Encoding"};
  }
  if (num_lengths > 1 || length.find_first_not_of("0123456789") != length.npos) {
    return {400,
            "the request must have at most one field Content-Length; its value must be a number"};
  }
  if (parser_->content_length().value_or(0) > limits_.body_bytes_max) {
    return {413, "the request body is larger than --message-bytes-max allows"};
  }
  const auto expectation = message[http::field::expect];
  if (!expectation.empty() &&
      !EqualsIgnoringCase(std::string_view(expectation.data(), expectation.size()),
                          "100-continue")) {
    return {417, "the only supported value of the header field Expect is 100-continue"};
  }
  return {0, {}};
}

bool HttpConnection::ReserveBody() {
  // The size of a chunked body is unknown until the body ends. The server therefore reserves memory
  // for a body of the maximum size.
  const bool is_chunked = parser_->get().count(http::field::transfer_encoding) > 0;
  num_reserved_bytes_ = static_cast<int64_t>(is_chunked ? limits_.body_bytes_max
                                                        : parser_->content_length().value_or(0));
  if (memory_.num_body_bytes.fetch_add(num_reserved_bytes_) + num_reserved_bytes_ <=
      memory_.body_bytes_max) {
    return true;
  }
  ReleaseBody();
  return false;
}

void HttpConnection::ReleaseBody() {
  memory_.num_body_bytes.fetch_sub(std::exchange(num_reserved_bytes_, 0));
}

void HttpConnection::ReadBody() {
  if (!ReserveBody()) {
    SendError(503, "the request bodies that the server is receiving exceed --receive-memory-max");
    return;
  }
  state_ = State::kReadingBody;
  num_received_bytes_ = 0;
  if (parser_->is_done()) {
    Handle();
    return;
  }
  Arm(limits_.body_time_max);
  parser_->eager(true);
  const bool waits = parser_->get().count(http::field::expect) > 0;
  if (!waits || is_http_1_0_ || buffer_.size() > 0) {
    ParseBody();
    return;
  }
  asio::async_write(socket_, asio::buffer(kContinue),
                    [self = shared_from_this()](Error error, size_t) {
                      if (self->state_ != State::kReadingBody) return;
                      if (error) {
                        self->CloseNow();
                      } else {
                        self->ParseBody();
                      }
                    });
}

void HttpConnection::ParseBody() {
  const Error error = Parse();
  const size_t num_framing_bytes = num_received_bytes_ - parser_->get().body().size();
  if (error == http::error::body_limit) {
    SendError(413, "the request body is larger than --message-bytes-max allows");
  } else if (error && error != http::error::need_more) {
    SendError(400, "the request body is not valid chunked data");
  } else if (num_framing_bytes > limits_.body_bytes_max) {
    SendError(413,
              "the size lines of the chunks and the fields after the last chunk are together "
              "larger than --message-bytes-max allows");
  } else if (parser_->is_done()) {
    Handle();
  } else if (buffer_.size() == buffer_.max_size()) {
    SendError(431,
              "the size line of a chunk, or the fields after the last chunk, are larger than "
              "--metadata-bytes-max allows");
  } else {
    ReadMore(&HttpConnection::ParseBody);
  }
}

void HttpConnection::Handle() {
  Disarm();
  ReleaseBody();
  state_ = State::kResponding;
  has_response_ = response_complete_ = false;
  auto exchange = std::make_shared<HttpExchange>(shared_from_this(), std::exchange(head_, {}),
                                                 std::move(parser_->get().body()));
  parser_.reset();
  // The server does not support pipelining (a client sends a request before the response to its
  // previous request). If bytes follow the request, discards these bytes and closes the connection
  // after the response.
  SkipLineEnds(buffer_);
  closes_ = closes_ || buffer_.size() > 0;
  buffer_.consume(buffer_.size());
  num_surplus_bytes_ = 0;
  WatchClient();
  handlers_.handle(std::move(exchange));
}

void HttpConnection::WatchClient() {
  socket_.async_wait(asio::ip::tcp::socket::wait_read, [self = shared_from_this()](Error error) {
    if (self->state_ == State::kResponding) self->OnClientReadable(error);
  });
}

void HttpConnection::OnClientReadable(Error error) {
  if (response_complete_ || error == asio::error::operation_aborted) return;
  const ssize_t received =
      error ? 0 : recv(socket_.native_handle(), discarded_.data(), discarded_.size(), MSG_DONTWAIT);
  if (received > 0) {
    const std::string_view bytes(discarded_.data(), static_cast<size_t>(received));
    closes_ = closes_ || bytes.find_first_not_of("\r\n") != std::string_view::npos;
    num_surplus_bytes_ += bytes.size();
    if (num_surplus_bytes_ > kSurplusBytesMax) {
      CloseNow();
    } else {
      WatchClient();
    }
  } else if (received == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) {
    CloseNow();
  } else {
    WatchClient();
  }
}

void HttpConnection::CloseLater(bool waits_for_request) {
  Post([this, waits_for_request] {
    closes_ = true;
    if (state_ == State::kIdle || (!waits_for_request && !is_responding())) CloseNow();
  });
}

void HttpConnection::Close() {
  Post([this] { CloseNow(); });
}

void HttpConnection::OnClosed(std::function<void()> on_closed) {
  Post([this, on_closed = std::move(on_closed)]() mutable {
    if (state_ == State::kClosed) {
      on_closed();
    } else if (state_ == State::kResponding && !response_complete_) {
      on_closed_ = std::move(on_closed);
    }
  });
}

void HttpConnection::SendError(int status, std::string_view message) {
  ReleaseBody();
  closes_ = true;
  Send(handlers_.error(status, message));
}

void HttpConnection::Respond(HttpResponse response, std::function<void(bool)> on_written) {
  Post([this, response = std::move(response), on_written = std::move(on_written)]() mutable {
    if (state_ == State::kResponding && !has_response_) {
      Send(std::move(response), std::move(on_written));
    } else if (on_written) {
      on_written(false);
    }
  });
}

void HttpConnection::Send(HttpResponse response, std::function<void(bool)> on_written) {
  state_ = State::kResponding;
  has_response_ = response_complete_ = true;
  closes_ = closes_ || response.closes;
  response.closes = closes_;
  Arm(limits_.write_time_max);
  std::string head = HeadOf(response, HttpBody::kSized);
  if (is_head_) response.body.clear();
  Enqueue({std::move(head), std::move(response.body), {}, std::move(on_written)});
}

void HttpConnection::BeginStream(HttpResponse head) {
  Post([this, head = std::move(head)]() mutable {
    if (state_ != State::kResponding || has_response_) return;
    has_response_ = true;
    response_body_ = is_http_1_0_ ? HttpBody::kToClose : HttpBody::kChunked;
    closes_ = closes_ || head.closes || is_http_1_0_;
    head.closes = closes_;
    Enqueue({HeadOf(head, response_body_), {}, {}, nullptr});
  });
}

void HttpConnection::Write(std::string bytes, std::function<void(bool)> on_written) {
  Post([this, bytes = std::move(bytes), on_written = std::move(on_written)]() mutable {
    if (state_ != State::kResponding || response_complete_) {
      on_written(false);
      return;
    }
    Part part{{}, std::move(bytes), {}, std::move(on_written)};
    if (response_body_ == HttpBody::kChunked && !part.bytes.empty()) {
      part.begin = fmt::format("{:x}\r\n", part.bytes.size());
      part.end = kChunkEnd;
    }
    Enqueue(std::move(part));
  });
}

void HttpConnection::EndStream() {
  Post([this] {
    if (state_ != State::kResponding || response_complete_) return;
    response_complete_ = true;
    Arm(limits_.write_time_max);
    Enqueue({response_body_ == HttpBody::kChunked ? "0\r\n\r\n" : "", {}, {}, nullptr});
  });
}

void HttpConnection::Enqueue(Part part) {
  memory_.num_unwritten_bytes += part.num_bytes();
  parts_.push_back(std::move(part));
  if (parts_.size() == 1) WriteNext();
}

void HttpConnection::WriteNext() {
  const Part& part = parts_.front();
  const std::array buffers = {asio::buffer(part.begin), asio::buffer(part.bytes),
                              asio::buffer(part.end)};
  asio::async_write(socket_, buffers, [self = shared_from_this()](Error error, size_t) {
    if (self->state_ == State::kResponding) self->OnWritten(error);
  });
}

void HttpConnection::OnWritten(Error error) {
  if (error) {
    CloseNow();
    return;
  }
  memory_.num_unwritten_bytes -= parts_.front().num_bytes();
  const std::function<void(bool)> on_written = std::move(parts_.front().on_written);
  parts_.pop_front();
  if (!parts_.empty()) WriteNext();
  if (on_written) on_written(true);
  if (parts_.empty() && response_complete_ && state_ == State::kResponding) FinishResponse();
}

void HttpConnection::FinishResponse() {
  Disarm();
  on_closed_ = nullptr;
  if (closes_) {
    Linger();
  } else {
    Error ignored;
    socket_.cancel(ignored);  // ends WatchClient
    AwaitRequest();
  }
}

void HttpConnection::Linger() {
  state_ = State::kLingering;
  Error ignored;
  socket_.cancel(ignored);
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  Arm(kLingerTime);
  DiscardSome();
}

void HttpConnection::DiscardSome() {
  socket_.async_read_some(asio::buffer(discarded_),
                          [self = shared_from_this()](Error error, size_t) {
                            if (self->state_ != State::kLingering) return;
                            if (error && error != asio::error::operation_aborted) {
                              self->CloseNow();
                            } else {
                              self->DiscardSome();
                            }
                          });
}

void HttpConnection::CloseNow() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  ReleaseBody();
  Disarm();
  Error ignored;
  socket_.close(ignored);
  std::deque<Part> parts = std::exchange(parts_, {});
  for (Part& part : parts) {
    memory_.num_unwritten_bytes -= part.num_bytes();
    if (part.on_written) part.on_written(false);
  }
  if (auto on_closed = std::exchange(on_closed_, nullptr); on_closed) on_closed();
  if (auto on_end = std::exchange(on_end_, nullptr); on_end) on_end();
}

}  // namespace incipit
