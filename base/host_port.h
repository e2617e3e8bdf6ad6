// An address of the form HOST:PORT.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace incipit {

struct HostPort {
  std::string host;   // an IPv6 address is stored without brackets
  uint16_t port = 0;  // 0: the system chooses a port

  bool operator==(const HostPort&) const = default;
};

// Parses HOST:PORT; an IPv6 host must be in brackets. Returns INVALID_ARGUMENT for any other text.
// The message is meant to follow the name of a flag.
absl::StatusOr<HostPort> ParseHostPort(std::string_view text);

// Returns the address as text that ParseHostPort accepts.
std::string ToString(const HostPort& address);

}  // namespace incipit
