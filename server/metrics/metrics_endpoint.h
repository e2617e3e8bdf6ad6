// A small HTTP server for scrapes, with a single thread. The HTTP server of the metrics library
// takes two seconds to stop and uses one thread per client.
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

// Serves GET and HEAD requests for /metrics until destruction. Each connection is closed after one
// response. At most kConnectionsMax clients are connected at a time. If a further client connects,
// the client with the oldest connection is disconnected. A client that has not sent a request and
// read the response within kClientTimeout is disconnected.
class MetricsEndpoint {
 public:
  static constexpr size_t kConnectionsMax = 64;
  static constexpr size_t kRequestBytesMax = 8192;
  static constexpr Duration kClientTimeout = std::chrono::seconds(5);

  // Starts to serve at `address`. `text` returns the metrics and is called on the thread of the
  // endpoint. Returns UNAVAILABLE with the address if `address` cannot be bound.
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
  // Accepts one client. Returns false if a client may wait but no file descriptor is free.
  bool Accept(Time now);
  // Receives the request or sends the response. Returns false when the connection must be closed.
  bool Advance(Client& client) const;
  bool Receive(Client& client) const;
  // Returns the HTTP response to `request`. An empty `request` stands for a request that was too
  // long.
  std::string ResponseTo(std::string_view request) const;

  const OwnedSocket listener_, wake_;
  const std::function<std::string()> text_;
  int port_ = 0;
  // Connected clients, in the order of their arrival; used by `thread_` only.
  std::list<Client> clients_;
  std::thread thread_;
};

}  // namespace incipit
