// Declares HostPort, a network address of the form HOST:PORT.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace incipit {

struct HostPort {
  std::string host;   // host name or IP address; an IPv6 address is stored without brackets
  uint16_t port = 0;  // TCP port; 0: the operating system chooses a free port

  bool operator==(const HostPort&) const = default;
};

// Parses an address of the form HOST:PORT. An IPv6 host must be in brackets. Returns
// INVALID_ARGUMENT for any other text. The error message contains at most 80 bytes of `text`.
absl::StatusOr<HostPort> ParseHostPort(std::string_view text);

// Returns `address` as text of the form HOST:PORT. An IPv6 host is in brackets.
std::string ToString(const HostPort& address);

}  // namespace incipit
