// Accepts connections for the gRPC server. The listener of gRPC 1.51 is not used, because it never
// accepts a connection again after the process has once run out of file descriptors.
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

// Listens at an address on a separate thread, and calls a callback for each accepted connection.
class ConnectionListener {
 public:
  // Number of file descriptors that connections may not use, so that files can still be opened. A
  // connection that would use a reserved file descriptor is closed.
  static constexpr int kReservedFiles = 32;

  // A callback for a new connection. `listening` is the file descriptor of the listening socket,
  // which the ConnectionListener owns. `connection` is the file descriptor of the new connection,
  // which the callback must close.
  using OnConnection = std::function<void(int listening, int connection)>;

  // Resolves the host name in `address`, and listens at each resulting address that can be bound.
  // If the port is 0, the system selects a free port. Returns UNAVAILABLE if no address can be
  // bound; the error names `flag`. A connection is closed if its client acknowledges no data (TCP
  // ACK) for `unacknowledged_max`.
  static absl::StatusOr<std::unique_ptr<ConnectionListener>> Bind(std::string_view flag,
                                                                  const HostPort& address,
                                                                  Duration unacknowledged_max);
  ~ConnectionListener();  // stops accepting connections

  int port() const { return port_; }
  // Starts to accept connections on a separate thread, which calls `on_connection`. Connections
  // that arrived between Bind and Start are also accepted. REQUIRES: Start has not been called
  // before.
  void Start(OnConnection on_connection);

 private:
  ConnectionListener(std::vector<OwnedSocket> sockets, OwnedSocket wake);
  void Serve();
  // Accepts the connections that wait at the socket `listening`. Returns false if a connection
  // waits but no file descriptor is free.
  bool AcceptSome(int listening);
  void Warn();

  const std::vector<OwnedSocket> sockets_;
  const OwnedSocket wake_;
  int port_ = 0;
  OnConnection on_connection_;
  Time warned_{};  // time of the last warning that a connection was closed; used by `thread_` only
  std::thread thread_;
};

}  // namespace incipit
