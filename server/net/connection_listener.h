// Accepts connections instead of the listener of gRPC. The listener of gRPC 1.51 stops accepting
// connections forever after the process has run out of file descriptors.
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

// Listens at an address on a separate thread and passes each accepted connection to a callback.
class ConnectionListener {
 public:
  // Number of file descriptors that are reserved for other purposes than connections. A connection
  // that would use a reserved descriptor is closed.
  static constexpr int kReservedFiles = 32;

  // Receives the file descriptors of the listening socket and of a new connection. The callback
  // owns `connection`; the ConnectionListener still owns `listening`.
  using OnConnection = std::function<void(int listening, int connection)>;

  // Binds `address`. If a host name has several addresses, binds each address that can be bound.
  // 0.0.0.0 and [::] bind all IPv4 and IPv6 addresses. With port 0, the system chooses a free port.
  // The system closes a connection if the client acknowledges no data for `unacknowledged_max`. If
  // no address can be bound, returns UNAVAILABLE; the error names `flag`, the address and the
  // reason.
  static absl::StatusOr<std::unique_ptr<ConnectionListener>> Bind(std::string_view flag,
                                                                  const HostPort& address,
                                                                  Duration unacknowledged_max);
  ~ConnectionListener();  // stops accepting connections

  int port() const { return port_; }
  // Starts to accept connections. Connections that arrive between Bind and Start wait in the queue
  // of the system. `on_connection` is called on the thread of the listener. REQUIRES: Start has not
  // been called before.
  void Start(OnConnection on_connection);

 private:
  ConnectionListener(std::vector<OwnedSocket> sockets, OwnedSocket wake);
  void Serve();
  // Accepts all waiting connections of the socket `listening`. Returns false if a connection waits
  // but no file descriptor is free.
  bool AcceptSome(int listening);
  void Warn();

  const std::vector<OwnedSocket> sockets_;
  const OwnedSocket wake_;
  int port_ = 0;
  OnConnection on_connection_;
  Time warned_{};  // time of the last warning; used by `thread_` only
  std::thread thread_;
};

}  // namespace incipit
