// HOST:PORT as operators write it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace incipit {

struct HostPort {
  std::string host;   // an IPv6 address without its brackets
  uint16_t port = 0;  // 0: the system picks one

  bool operator==(const HostPort&) const = default;
};

// Returns INVALID_ARGUMENT, to be put behind a flag's name, for anything else. An IPv6 host stands
// in brackets.
absl::StatusOr<HostPort> ParseHostPort(std::string_view text);

// Returns the text that ParseHostPort takes.
std::string ToString(const HostPort& address);

}  // namespace incipit
