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
  // Maximum number of open connections. At the maximum, each new connection makes the server close
  // the oldest connection that has no request in progress. If all connections have a request in
  // progress, the server closes the new connection.
  int32_t connections_max = 4096;
  // Maximum total size, in bytes, of the request bodies that are being received.
  int64_t body_memory_max = int64_t{1} << 30;
  // Time after which the operating system closes a connection whose client acknowledges no data.
  Duration unacknowledged_max = std::chrono::seconds(20);
};

class HttpServer {
 public:
  // Starts an HTTP server that listens at `address`. Returns UNAVAILABLE if the address cannot be
  // bound. The error message contains `address` and `flag`, the name of the command-line flag that
  // sets the address.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(std::string_view flag,
                                                           const HostPort& address,
                                                           const HttpServerOptions& options,
                                                           HttpHandlers handlers);
  ~HttpServer();  // calls Stop(Duration::zero())

  int port() const;
  // Returns the number of bytes of responses that the operating system has not accepted yet,
  // because clients have not read earlier bytes. Thread-safe.
  int64_t num_unwritten_bytes() const;
  // Stops accepting connections, and waits at most `longest` for the responses to current requests.
  // Then closes all connections and ends the threads. A second call does nothing.
  void Stop(Duration longest);

 private:
  class Threads;
  explicit HttpServer(std::unique_ptr<Threads> threads);

  const std::unique_ptr<Threads> threads_;
};

}  // namespace incipit
