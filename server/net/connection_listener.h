// Accepts TCP connections for the gRPC servers and the HTTP server. The server does not use the
// listener of gRPC 1.51. After the process has once run out of file descriptors, that listener
// never accepts a connection again.
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

// Listens at an address on a thread of its own, and calls a callback for each accepted connection.
class ConnectionListener {
 public:
  // Number of file descriptors that are reserved for files. The listener closes a new connection
  // that would use a reserved file descriptor.
  static constexpr int kReservedFiles = 32;

  // A callback for a new connection. `listening` is the file descriptor of the listening socket,
  // which the ConnectionListener owns. `connection` is the file descriptor of the new connection,
  // which the callback must close.
  using OnConnection = std::function<void(int listening, int connection)>;

  // Resolves the host name in `address`, and listens at each resulting address that can be bound.
  // If the port is 0, the system selects a free port. Returns UNAVAILABLE if no address can be
  // bound; the error message contains `flag`. The system closes a connection if the client does not
  // acknowledge sent data (TCP ACK) for `unacknowledged_max`.
  static absl::StatusOr<std::unique_ptr<ConnectionListener>> Bind(std::string_view flag,
                                                                  const HostPort& address,
                                                                  Duration unacknowledged_max);
  ~ConnectionListener();  // stops accepting connections and closes the listening sockets

  int port() const { return port_; }
  // Starts a thread that accepts connections and calls `on_connection`. Also accepts the
  // connections that arrived between Bind and Start. REQUIRES: Start has not been called before.
  void Start(OnConnection on_connection);

 private:
  ConnectionListener(std::vector<OwnedSocket> sockets, OwnedSocket wake);
  void Serve();
  // Accepts the connections that wait at the socket `listening`. Returns false if a waiting
  // connection cannot be accepted, usually because no file descriptor is free.
  bool AcceptSome(int listening);
  void Warn();

  const std::vector<OwnedSocket> sockets_;
  const OwnedSocket wake_;
  int port_ = 0;
  OnConnection on_connection_;
  // Time of the last warning in the log that new connections are closed. Only `thread_` uses
  // `warned_`.
  Time warned_{};
  std::thread thread_;
};

}  // namespace incipit
