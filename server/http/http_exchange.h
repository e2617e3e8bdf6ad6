// One request and its response on an HTTP connection.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/http/http_message.h"

namespace incipit {

class HttpConnection;

// The request, and functions that send the response. The functions may be called on any thread and
// never wait. If the client has disconnected, they do nothing except to report the failure of a
// write.
//
// A response is one call of Respond; or BeginStream, any number of Write, and EndStream.
class HttpExchange {
 public:
  HttpExchange(std::shared_ptr<HttpConnection> connection, HttpRequestHead head, std::string body)
      : connection_(std::move(connection)), head_(std::move(head)), body_(std::move(body)) {}

  const HttpRequestHead& head() const { return head_; }
  const std::string& body() const { return body_; }
  // Returns the body and removes it from the exchange.
  std::string TakeBody() { return std::move(body_); }

  // Adds `fields` to the header fields of the response. REQUIRES: the response has not begun.
  void AddFields(std::vector<std::pair<std::string, std::string>> fields);
  void Respond(HttpResponse response);
  // Sends the status and the header fields of `head`. The member `head.body` is not used.
  void BeginStream(HttpResponse head);
  // Sends `bytes` as the next part of the body. Calls `on_written` once, on a thread of the HTTP
  // server: with true when the operating system has accepted the bytes, or with false if the
  // connection has ended.
  void Write(std::string bytes, std::function<void(bool)> on_written);
  void EndStream();
  // Closes the connection immediately.
  void Abort();

  // Sets a callback that is called once if the connection ends before the response does. Called
  // immediately if the connection has already ended. Called on a thread of the HTTP server.
  void OnClosed(std::function<void()> on_closed);

 private:
  const std::shared_ptr<HttpConnection> connection_;
  const HttpRequestHead head_;
  std::string body_;
  std::vector<std::pair<std::string, std::string>> fields_;  // of AddFields
};

}  // namespace incipit
