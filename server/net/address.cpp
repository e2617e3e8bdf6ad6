#include "server/net/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <system_error>

#include "base/status.h"

namespace incipit {
namespace {

// Tests whether a socket can be bound to the address `info` and can listen there. Returns 0, or the
// errno of the system call that failed.
int TryBind(const addrinfo& info) {
  const int fd = socket(info.ai_family, info.ai_socktype | SOCK_CLOEXEC, info.ai_protocol);
  if (fd < 0) return errno;
  // Sets the socket option SO_REUSEADDR, as the listeners of the server do. The bind then succeeds
  // even if old connections of the port are in the state TIME_WAIT.
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const int error = bind(fd, info.ai_addr, info.ai_addrlen) == 0 && listen(fd, 1) == 0 ? 0 : errno;
  close(fd);
  return error;
}

}  // namespace

absl::Status CheckAddressFree(std::string_view flag, const HostPort& address) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(address.host.c_str(), fmt::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) {
    return Unavailable("--{} {}: {}", flag, ToString(address), gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, freeaddrinfo);
  int bind_error = 0;
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    bind_error = TryBind(*info);
    if (bind_error == 0) return absl::OkStatus();
  }
  return Unavailable("--{} {}: {}", flag, ToString(address),
                     std::generic_category().message(bind_error));
}

bool IsLoopbackHost(std::string_view host) {
  in_addr address{};
  const bool is_ipv4 = inet_aton(std::string(host).c_str(), &address) != 0;
  return host == "localhost" || host == "::1" || (is_ipv4 && ntohl(address.s_addr) >> 24 == 127);
}

}  // namespace incipit
