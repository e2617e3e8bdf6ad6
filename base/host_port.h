// Declares a network address of the form HOST:PORT.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace incipit {

struct HostPort {
  std::string host;   // host name or IP address; an IPv6 address has no brackets
  uint16_t port = 0;  // TCP port; 0: the system chooses a free port

  bool operator==(const HostPort&) const = default;
};

// Parses an address of the form HOST:PORT, where an IPv6 host must be in brackets. Returns
// INVALID_ARGUMENT for any other text. The caller writes the name of a flag before the message.
absl::StatusOr<HostPort> ParseHostPort(std::string_view text);

// Returns `address` in the form that ParseHostPort accepts.
std::string ToString(const HostPort& address);

}  // namespace incipit
