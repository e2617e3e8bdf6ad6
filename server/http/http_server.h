// An HTTP/1.1 server that accepts connections at an address and calls handlers for the requests.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/host_port.h"
#include "server/http/http_connection.h"

namespace incipit {

struct HttpServerOptions {
  HttpLimits limits;
  int32_t num_threads = 1;
  // Maximum number of open connections. At the maximum, the server closes the oldest connection
  // without a current request for each new connection. If every connection has a current request,
  // the server closes the new connection.
  int32_t connections_max = 4096;
  // Maximum sum of the sizes, in bytes, of all request bodies that are being received.
  int64_t body_memory_max = int64_t{1} << 30;
  // Time after which the operating system closes a connection whose client acknowledges no data.
  Duration unacknowledged_max = std::chrono::seconds(20);
};

class HttpServer {
 public:
  // Starts a server at `address`. Returns UNAVAILABLE if the address cannot be bound. The error
  // message contains `address` and the name `flag` of the command-line flag.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(std::string_view flag,
                                                           const HostPort& address,
                                                           const HttpServerOptions& options,
                                                           HttpHandlers handlers);
  ~HttpServer();  // calls Stop(Duration::zero())

  int port() const;
  // Returns the number of bytes of responses that the operating system has not accepted yet,
  // because clients have not read earlier bytes. Thread-safe.
  int64_t num_unwritten_bytes() const;
  // Stops accepting connections, waits at most `longest` for the responses to current requests,
  // then closes all connections and ends the threads. A second call does nothing.
  void Stop(Duration longest);

 private:
  class Threads;
  explicit HttpServer(std::unique_ptr<Threads> threads);

  const std::unique_ptr<Threads> threads_;
};

}  // namespace incipit
