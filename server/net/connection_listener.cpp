#include "server/net/connection_listener.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "server/net/address.h"

namespace incipit {
namespace {

// Maximum number of connections that the listener accepts at one socket before it checks its other
// sockets.
constexpr int kAcceptsMax = 64;
// Time in milliseconds that the listener waits if no file descriptor is free. After this time, the
// listener tries again to accept connections.
constexpr int kPauseMs = 100;
// Minimum time between two log warnings about new connections that the listener has closed.
constexpr Duration kWarnEvery = std::chrono::seconds(10);

bool Set(const OwnedSocket& socket, int level, int option, int value) {
  return setsockopt(socket.fd(), level, option, &value, sizeof(value)) == 0;
}

// Returns a reference to the port in `address`. The port has the same offset in sockaddr_in (IPv4)
// and sockaddr_in6 (IPv6).
in_port_t& PortIn(sockaddr_storage& address) {
  return reinterpret_cast<sockaddr_in&>(address).sin_port;
}

int PortOf(const OwnedSocket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  INCIPIT_CHECK(getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  return ntohs(PortIn(address));
}

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

absl::StatusOr<AddressList> Resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    return Unavailable("{}", gai_strerror(error));
  }
  return AddressList(found, freeaddrinfo);
}

// Returns a socket that listens at `port` of the address `info`. Accepted connections inherit the
// options of this socket.
absl::StatusOr<OwnedSocket> Listen(const addrinfo& info, int port, Duration unacknowledged_max) {
  OwnedSocket socket(
      ::socket(info.ai_family, info.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, info.ai_protocol));
  sockaddr_storage address{};
  INCIPIT_CHECK(info.ai_addrlen <= sizeof(address));
  std::copy_n(reinterpret_cast<const char*>(info.ai_addr), info.ai_addrlen,
              reinterpret_cast<char*>(&address));
  PortIn(address) = htons(static_cast<uint16_t>(port));
  const auto patience =
      std::chrono::duration_cast<std::chrono::milliseconds>(unacknowledged_max).count();
  if (socket.fd() < 0 || !Set(socket, SOL_SOCKET, SO_REUSEADDR, 1) ||
      !Set(socket, IPPROTO_TCP, TCP_NODELAY, 1) ||
      !Set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(patience)) ||
      // With IPV6_V6ONLY = 0, a socket at the IPv6 address [::] also accepts IPv4 connections.
      (info.ai_family == AF_INET6 && !Set(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0)) ||
      bind(socket.fd(), reinterpret_cast<const sockaddr*>(&address), info.ai_addrlen) != 0 ||
      listen(socket.fd(), SOMAXCONN) != 0) {
    return Unavailable("{}", std::generic_category().message(errno));
  }
  return socket;
}

absl::StatusOr<std::vector<OwnedSocket>> ListenAt(const HostPort& address,
                                                  Duration unacknowledged_max) {
  INCIPIT_ASSIGN_OR_RETURN(const AddressList found, Resolve(address.host));
  std::vector<OwnedSocket> sockets;
  absl::Status first_error;
  int port = address.port;
  for (const addrinfo* info = found.get(); info != nullptr; info = info->ai_next) {
    auto socket = Listen(*info, port, unacknowledged_max);
    if (!socket.ok()) {
      first_error.Update(socket.status());
      continue;
    }
    sockets.push_back(*std::move(socket));
    port = PortOf(sockets.back());
  }
  if (sockets.empty()) return first_error;
  return sockets;
}

int FilesMax() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::numeric_limits<int>::max();
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, std::numeric_limits<int>::max()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ConnectionListener>> ConnectionListener::Bind(
    std::string_view flag, const HostPort& address, Duration unacknowledged_max) {
  const std::string what = fmt::format("--{} {}", flag, ToString(address));
  const bool is_any = address.host == "0.0.0.0" || address.host == "::";
  absl::StatusOr<std::vector<OwnedSocket>> sockets;
  for (const std::string& host : is_any ? std::vector<std::string>{"::", "0.0.0.0"}
                                        : std::vector<std::string>{address.host}) {
    sockets = ListenAt({host, address.port}, unacknowledged_max);
    if (sockets.ok()) break;
  }
  if (!sockets.ok()) return Annotate(sockets.status(), what);
  OwnedSocket wake(eventfd(0, EFD_CLOEXEC));
  if (wake.fd() < 0) {
    return Unavailable("{}: {}", what, std::generic_category().message(errno));
  }
  return std::unique_ptr<ConnectionListener>(
      new ConnectionListener(*std::move(sockets), std::move(wake)));
}

ConnectionListener::ConnectionListener(std::vector<OwnedSocket> sockets, OwnedSocket wake)
    : sockets_(std::move(sockets)), wake_(std::move(wake)), port_(PortOf(sockets_.front())) {}

ConnectionListener::~ConnectionListener() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  INCIPIT_CHECK(write(wake_.fd(), &one, sizeof(one)) == sizeof(one));
  thread_.join();
}

void ConnectionListener::Start(OnConnection on_connection) {
  on_connection_ = std::move(on_connection);
  thread_ = std::thread([this] { Serve(); });
}

void ConnectionListener::Serve() {
  std::vector<pollfd> polled = {{wake_.fd(), POLLIN, 0}};
  for (const OwnedSocket& socket : sockets_) polled.push_back({socket.fd(), POLLIN, 0});
  bool has_room = true;
  while (true) {
    // While no file descriptor is free (`has_room` is false), poll() ignores the listening sockets.
    // poll() then waits kPauseMs, or until the destructor wakes this thread through `wake_`.
    const int num_ready =
        poll(polled.data(), has_room ? polled.size() : 1, has_room ? -1 : kPauseMs);
    INCIPIT_CHECK(num_ready >= 0 || errno == EINTR);
    if (num_ready < 0) continue;
    if (polled[0].revents != 0) return;
    has_room = std::ranges::all_of(
        sockets_, [&](const OwnedSocket& socket) { return AcceptSome(socket.fd()); });
  }
}

bool ConnectionListener::AcceptSome(int listening) {
  for (int i = 0; i < kAcceptsMax; ++i) {
    OwnedSocket connection(accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (connection.fd() < 0) {
      if (errno == EAGAIN) return true;
      if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO) continue;
      Warn();
      return false;
    }
    // The system gives each new file descriptor the lowest free number. A high number therefore
    // means that nearly all file descriptors are in use.
    if (connection.fd() < FilesMax() - kReservedFiles) {
      on_connection_(listening, connection.Release());
    } else {
      Warn();
    }
  }
  return true;
}

void ConnectionListener::Warn() {
  const Time now = std::chrono::steady_clock::now();
  if (warned_ != Time{} && now - warned_ < kWarnEvery) return;
  warned_ = now;
  spdlog::warn(
      "the server closes new connections, because nearly all file descriptors are in use: the last "
      "{} of {} are reserved for files",
      kReservedFiles, FilesMax());
}

}  // namespace incipit
