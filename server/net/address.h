// Addresses before they are bound for good.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "base/host_port.h"

namespace incipit {

// Says whether `address` can be bound now, so that a start fails before a model is loaded.
// UNAVAILABLE, naming `flag`, the address and the reason.
absl::Status CheckAddressFree(std::string_view flag, const HostPort& address);

}  // namespace incipit
