// Accepts connections in gRPC's place: its own listener (1.51) accepts none any more once the
// process has run out of file descriptors.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/host_port.h"
#include "server/net/owned_socket.h"

namespace incipit {

class ConnectionListener {
 public:
  // Descriptors that are left for everything but connections: one that would take them is closed.
  static constexpr int kReservedFiles = 32;

  // Takes the descriptors: that of the socket it came through stays ours, the connection's not.
  using OnConnection = std::function<void(int listening, int connection)>;

  // Binds every address that `address` stands for and that can be bound; 0.0.0.0 and [::] take IPv4
  // and IPv6. Port 0 picks one. A connection whose client acknowledges nothing for
  // `unacknowledged_max` is given up. UNAVAILABLE, naming `flag`, the address and the reason.
  static absl::StatusOr<std::unique_ptr<ConnectionListener>> Bind(std::string_view flag,
                                                                  const HostPort& address,
                                                                  Duration unacknowledged_max);
  ~ConnectionListener();  // accepts no more

  int port() const { return port_; }
  // Called once: what has come since Bind waits until then. `on_connection` is called on a thread
  // of the listener's own.
  void Start(OnConnection on_connection);

 private:
  ConnectionListener(std::vector<OwnedSocket> sockets, OwnedSocket wake);
  void Serve();
  bool AcceptSome(int listening);
  void Warn();

  const std::vector<OwnedSocket> sockets_;
  const OwnedSocket wake_;
  int port_ = 0;
  OnConnection on_connection_;
  Time warned_{};  // of the thread alone
  std::thread thread_;
};

}  // namespace incipit
