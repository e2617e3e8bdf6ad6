// Checks, before the server loads its model, that the server can listen at an address.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "base/host_port.h"

namespace incipit {

// Returns OK if a socket can be bound to `address` now, otherwise UNAVAILABLE. The error message
// contains the flag name `flag`, the address and the reason.
absl::Status CheckAddressFree(std::string_view flag, const HostPort& address);

// Returns true if `host` is "localhost", "::1" or an IPv4 address that begins with 127. Only
// programs on the same machine can connect to such a loopback address. Names such as
// "127.example.com" are not loopback addresses.
bool IsLoopbackHost(std::string_view host);

}  // namespace incipit
