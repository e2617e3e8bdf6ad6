// Tests whether a client is on the same machine as the server.
#pragma once

#include <string_view>

namespace incipit {

// Returns true if `peer` (an address in the format of grpc::ServerContextBase::peer()) is a
// loopback address or a Unix socket. Examples are "ipv4:127.0.0.1:4242", "ipv6:%5B::1%5D:4242" and
// "unix:/run/incipit". Also returns true for the IPv6 form of an IPv4 loopback address.
bool IsLocalPeer(std::string_view peer);

}  // namespace incipit
