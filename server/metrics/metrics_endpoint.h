// A small HTTP server for scrapes. The one that comes with the metrics library takes two seconds to
// stop and lends a thread to every client; this one polls on a single thread and sleeps when idle.
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

// Serves GET and HEAD of /metrics until it is destroyed, and closes after every answer. At most
// kConnectionsMax clients are served at a time: one more takes the place of the one that has been
// there for longest. One that has not sent its request and read its answer after kClientTimeout is
// cut off.
class MetricsEndpoint {
 public:
  static constexpr size_t kConnectionsMax = 64;
  static constexpr size_t kRequestBytesMax = 8192;
  static constexpr Duration kClientTimeout = std::chrono::seconds(5);

  // Calls `text` on the endpoint's thread. UNAVAILABLE, naming the address, if it cannot be bound.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Start(const HostPort& address,
                                                                std::function<std::string()> text);
  ~MetricsEndpoint();  // cuts off whoever is being served

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
  bool Accept(Time now);
  bool Advance(Client& client) const;
  bool Receive(Client& client) const;
  std::string ResponseTo(std::string_view request) const;

  const OwnedSocket listener_, wake_;
  const std::function<std::string()> text_;
  int port_ = 0;
  std::list<Client> clients_;  // of the thread alone; first come first
  std::thread thread_;
};

}  // namespace incipit
