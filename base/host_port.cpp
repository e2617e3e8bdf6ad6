#include "base/host_port.h"

#include <charconv>
#include <system_error>

#include "base/status.h"

namespace incipit {

absl::StatusOr<HostPort> ParseHostPort(std::string_view text) {
  const size_t colon = text.rfind(':');
  std::string_view host = colon == std::string_view::npos ? "" : text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    host = "";
  }
  if (!host.empty()) {
    HostPort address{std::string(host)};
    const char* const end = text.data() + text.size();
    const auto [parsed, error] = std::from_chars(text.data() + colon + 1, end, address.port);
    if (error == std::errc() && parsed == end) return address;
  }
  return InvalidArgument("\"{}\" is not an address HOST:PORT with a port from 0 to 65535",
                         text.substr(0, 80));
}

std::string ToString(const HostPort& address) {
  const bool is_ipv6 = address.host.find(':') != std::string::npos;
  return is_ipv6 ? fmt::format("[{}]:{}", address.host, address.port)
                 : fmt::format("{}:{}", address.host, address.port);
}

}  // namespace incipit
