// Tests whether the client of a gRPC call is on the same machine as the server.
#pragma once

#include <string_view>

namespace incipit {

// Returns true if `peer`, the result of grpc::ServerContextBase::peer(), is a loopback address or a
// Unix socket. Examples are "ipv4:127.0.0.1:4242", "ipv6:%5B::1%5D:4242" and "unix:/run/incipit".
// Also returns true for a loopback IPv4 address that is written as an IPv6 address.
bool IsLocalPeer(std::string_view peer);

}  // namespace incipit
