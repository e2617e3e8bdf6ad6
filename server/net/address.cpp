#include "server/net/address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <memory>
#include <system_error>

#include "base/status.h"

namespace incipit {
namespace {

// Binds and lets go; returns errno.
int TryBind(const addrinfo& info) {
  const int fd = socket(info.ai_family, info.ai_socktype | SOCK_CLOEXEC, info.ai_protocol);
  if (fd < 0) return errno;
  // As servers do: a port that only waits for its last connection to be forgotten is free.
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const int error = bind(fd, info.ai_addr, info.ai_addrlen) == 0 && listen(fd, 1) == 0 ? 0 : errno;
  close(fd);
  return error;
}

}  // namespace

absl::StatusOr<HostPort> ParseHostPort(std::string_view address) {
  const size_t colon = address.rfind(':');
  std::string_view host = colon == std::string_view::npos ? "" : address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    host = "";
  }
  int32_t port = -1;
  if (!host.empty()) {
    const std::string_view digits = address.substr(colon + 1);
    const char* const end = digits.data() + digits.size();
    const auto [parsed, error] = std::from_chars(digits.data(), end, port);
    if (error != std::errc() || parsed != end) port = -1;
  }
  if (port < 0 || port > 65535) {
    return InvalidArgument("is \"{}\"; it must be HOST:PORT with a port from 0 to 65535",
                           address.substr(0, 80));
  }
  return HostPort{std::string(host), port};
}

absl::Status CheckAddressFree(std::string_view flag, std::string_view address) {
  INCIPIT_ASSIGN_OR_RETURN(const HostPort parsed, ParseHostPort(address));
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(parsed.host.c_str(), fmt::to_string(parsed.port).c_str(), &hints, &found);
  if (error != 0) {
    return Unavailable("--{} {}: {}", flag, address, gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, freeaddrinfo);
  int bind_error = 0;
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    bind_error = TryBind(*info);
    if (bind_error == 0) return absl::OkStatus();
  }
  return Unavailable("--{} {}: {}", flag, address, std::generic_category().message(bind_error));
}

}  // namespace incipit
