// An HTTP request, and functions that send the response to this request.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/http/http_message.h"

namespace incipit {

class HttpConnection;

// An HTTP request, and functions that send the response. Send a response either by one call of
// Respond, or by BeginStream, any number of calls of Write, and EndStream. The functions that send
// may be called on any thread. No function waits. After the client has disconnected, the functions
// send nothing.
class HttpExchange {
 public:
  HttpExchange(std::shared_ptr<HttpConnection> connection, HttpRequestHead head, std::string body)
      : connection_(std::move(connection)), head_(std::move(head)), body_(std::move(body)) {}

  const HttpRequestHead& head() const { return head_; }
  const std::string& body() const { return body_; }
  // Returns the body of the request, and makes the body in the exchange empty.
  std::string TakeBody() { return std::move(body_); }

  // Adds `fields` to the header fields of the response. Replaces the fields that an earlier call of
  // AddFields has added. REQUIRES: Respond and BeginStream were not called.
  void AddFields(std::vector<std::pair<std::string, std::string>> fields);
  // Sends the whole response. If `on_written` is not null, calls `on_written` once. The argument is
  // true after the operating system has accepted all bytes, or false if the connection is closed.
  void Respond(HttpResponse response, std::function<void(bool)> on_written = nullptr);
  // Begins a response in several parts: sends the status and the header fields of `head`. Does not
  // use `head.body`.
  void BeginStream(HttpResponse head);
  // Sends `bytes` as the next part of the response body. Calls `on_written` once, on a thread of
  // the HTTP server. The argument is true after the operating system has accepted all bytes, or
  // false if the connection is closed.
  void Write(std::string bytes, std::function<void(bool)> on_written);
  void EndStream();
  // Closes the connection immediately.
  void Abort();

  // Sets a callback for the case that the connection closes before the response is complete. A
  // thread of the HTTP server then calls `on_closed` once. If the connection is already closed, the
  // thread calls `on_closed` as soon as possible.
  void OnClosed(std::function<void()> on_closed);

 private:
  const std::shared_ptr<HttpConnection> connection_;
  const HttpRequestHead head_;
  std::string body_;
  std::vector<std::pair<std::string, std::string>> fields_;  // header fields that AddFields has set
};

}  // namespace incipit
