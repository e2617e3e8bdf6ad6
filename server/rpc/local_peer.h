// Detects clients on the machine of the server.
#pragma once

#include <string_view>

namespace incipit {

// Returns true if `peer` is a loopback address or a Unix socket, such as "ipv4:127.0.0.1:4242",
// "ipv6:%5B::1%5D:4242" or "unix:/run/incipit". The format of `peer` is that of
// grpc::ServerContextBase::peer(). An IPv4-mapped IPv6 address counts as its IPv4 address. Returns
// false if `peer` has any other form.
bool IsLocalPeer(std::string_view peer);

}  // namespace incipit
