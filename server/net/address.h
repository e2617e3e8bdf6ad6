// Checks an address before the server starts.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "base/host_port.h"

namespace incipit {

// Returns UNAVAILABLE if `address` cannot be bound now; otherwise OK. The error names `flag`, the
// address and the reason. The check lets a start fail before a model is loaded.
absl::Status CheckAddressFree(std::string_view flag, const HostPort& address);

}  // namespace incipit
