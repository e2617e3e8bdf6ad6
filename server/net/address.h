// Checks that the server can listen at an address, before the model is loaded.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "base/host_port.h"

namespace incipit {

// Returns UNAVAILABLE if no socket can be bound to `address` now; otherwise OK. The error contains
// the name `flag`, the address and the reason.
absl::Status CheckAddressFree(std::string_view flag, const HostPort& address);

// Returns true if only programs on the same machine can connect to the address `host`.
bool IsLoopbackHost(std::string_view host);

}  // namespace incipit
