// HOST:PORT as operators write it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace incipit {

struct HostPort {
  std::string host;  // an IPv6 address without its brackets
  int32_t port = 0;
};

// An IPv6 host stands in brackets. INVALID_ARGUMENT to be put behind a flag's name.
absl::StatusOr<HostPort> ParseHostPort(std::string_view address);

// Says whether `address` can be bound now, so that a start fails before a model is loaded.
// UNAVAILABLE, naming `flag`, the address and the reason.
absl::Status CheckAddressFree(std::string_view flag, std::string_view address);

}  // namespace incipit
