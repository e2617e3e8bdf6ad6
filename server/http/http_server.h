// An HTTP/1.1 server: accepts connections at an address and calls handlers for their requests.
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
  // Maximum number of open connections. A further connection replaces the oldest connection without
  // a request in progress; if there is none, the new connection is closed.
  int32_t connections_max = 4096;
  // Maximum size in bytes of all request bodies that are being received.
  int64_t body_memory_max = int64_t{1} << 30;
  // The system closes a connection whose client acknowledges no data for this time.
  Duration unacknowledged_max = std::chrono::seconds(20);
};

class HttpServer {
 public:
  // Listens at `address` and starts the threads that call `handlers`. Returns UNAVAILABLE if the
  // address cannot be bound; the error contains the name `flag` and the address.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(std::string_view flag,
                                                           const HostPort& address,
                                                           const HttpServerOptions& options,
                                                           HttpHandlers handlers);
  ~HttpServer();  // calls Stop(Duration::zero())

  int port() const;
  // Stops accepting connections. Waits at most `longest` until the requests in progress have their
  // responses. Then closes all connections and ends the threads. A second call does nothing.
  void Stop(Duration longest);

 private:
  class Threads;
  explicit HttpServer(std::unique_ptr<Threads> threads);

  const std::unique_ptr<Threads> threads_;
};

}  // namespace incipit
