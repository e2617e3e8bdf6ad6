// Fixture with an HTTP server whose handlers are functions of the test.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/mutex.h"
#include "server/http/http_server.h"
#include "tests/server/http/http_client.h"

namespace incipit {

// Runs an HTTP server whose handler responds with the method, the target and the body of the
// request. For the path /fields, the handler responds with the header fields. For the path /later,
// the handler stores the exchange, so that the test can respond.
class HttpServerTest : public ::testing::Test {
 protected:
  HttpServerTest() {
    options_.limits.head_bytes_max = 1000;
    options_.limits.body_bytes_max = 2000;
  }
  ~HttpServerTest() override {
    if (server_ != nullptr) server_->Stop(Duration::zero());
  }

  void Start() {
    HttpHandlers handlers;
    handlers.check = [](const HttpRequestHead& head) -> std::optional<HttpResponse> {
      if (head.path() != "/refused") return std::nullopt;
      return HttpResponse{.status = 403, .body = "refused"};
    };
    handlers.handle = [this](std::shared_ptr<HttpExchange> exchange) {
      const HttpRequestHead& head = exchange->head();
      if (head.path() == "/fields") {
        std::string fields;
        for (const auto& [name, value] : head.fields) fields += name + "=" + value + ";";
        exchange->Respond({.body = fields});
        return;
      }
      if (head.path() != "/later") {
        exchange->Respond({.body = head.method + " " + head.target + " " + exchange->body()});
        return;
      }
      exchange->OnClosed([this] {
        MutexLock lock(mutex_);
        ++num_closed_;
        changed_.notify_all();
      });
      MutexLock lock(mutex_);
      exchange_ = std::move(exchange);
      changed_.notify_all();
    };
    handlers.error = [](int status, std::string_view message) {
      return HttpResponse{.status = status, .body = std::string(message)};
    };
    auto server =
        HttpServer::Start("http-address", {"127.0.0.1", 0}, options_, std::move(handlers));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  int port() const { return server_->port(); }

  // Waits for a request for the path /later and returns its exchange.
  std::shared_ptr<HttpExchange> AwaitExchange() {
    MutexLock lock(mutex_);
    while (exchange_ == nullptr) changed_.wait(mutex_);
    return std::exchange(exchange_, nullptr);
  }
  // Waits until the server has called the callback that the handler passed to OnClosed.
  void AwaitClosed() {
    MutexLock lock(mutex_);
    while (num_closed_ == 0) changed_.wait(mutex_);
  }
  void ForgetClosed() {
    MutexLock lock(mutex_);
    num_closed_ = 0;
  }
  // Sends `bytes` on a new connection and returns the response.
  HttpReply Ask(std::string_view bytes) const {
    HttpClient client(port());
    client.Send(bytes);
    return client.Read();
  }
  // Expects that the server responds to `bytes` with the status `status` and then closes the
  // connection.
  void ExpectRefused(std::string_view bytes, int status) const {
    HttpClient client(port());
    client.Send(bytes);
    const HttpReply reply = client.Read();
    EXPECT_EQ(reply.status, status) << bytes.substr(0, 200);
    EXPECT_TRUE(reply.is_whole);
    EXPECT_NE(reply.body, "");
    EXPECT_EQ(reply.Field("Connection"), "close");
    EXPECT_TRUE(client.IsClosed()) << bytes.substr(0, 200);
  }

  HttpServerOptions options_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::shared_ptr<HttpExchange> exchange_ ABSL_GUARDED_BY(mutex_);
  int num_closed_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace incipit
