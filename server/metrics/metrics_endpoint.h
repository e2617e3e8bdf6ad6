// An HTTP server with one thread, from which Prometheus reads the metrics. The HTTP server of the
// metrics library is not used, because it takes two seconds to stop and needs a thread for each
// client.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/host_port.h"
#include "server/net/owned_socket.h"

namespace incipit {

// An HTTP server that responds to GET and HEAD requests for /metrics. The server closes each
// connection after one response, or after kClientTimeout. At most kConnectionsMax clients are
// connected at a time: if another client connects, the client that connected first is disconnected.
class MetricsEndpoint {
 public:
  static constexpr size_t kConnectionsMax = 64;
  static constexpr size_t kRequestBytesMax = 8192;
  static constexpr Duration kClientTimeout = std::chrono::seconds(5);

  // Starts an HTTP server at `address`. The server calls `text` on its own thread to get the text
  // of the metrics. Returns UNAVAILABLE if the server cannot listen at `address`; the error names
  // `address`.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Start(const HostPort& address,
                                                                std::function<std::string()> text);
  ~MetricsEndpoint();  // disconnects all clients

  int port() const { return port_; }

 private:
  struct Client {
    OwnedSocket socket;
    std::string request, response;
    size_t num_sent = 0;
    Time deadline{};
  };

  MetricsEndpoint(OwnedSocket listener, OwnedSocket wake, std::function<std::string()> text);
  void Serve();
  // Accepts the connection of one client. Returns false if a connection waits but cannot be
  // accepted, for example because no file descriptor is free.
  bool Accept(Time now);
  // Receives a part of the request of `client`, or sends a part of the response. Returns false if
  // the connection must be closed.
  bool Advance(Client& client) const;
  bool Receive(Client& client) const;
  // Returns the HTTP response to `request`. An empty `request` means that the client sent a request
  // of more than kRequestBytesMax bytes.
  std::string ResponseTo(std::string_view request) const;

  const OwnedSocket listener_, wake_;
  const std::function<std::string()> text_;
  int port_ = 0;
  // Connected clients, in the order in which the clients connected. Used only by `thread_`.
  std::list<Client> clients_;
  std::thread thread_;
};

}  // namespace incipit
