// Tells clients on the server's own machine from others.
#pragma once

#include <string_view>

namespace incipit {

// Returns true if `peer`, as grpc::ServerContextBase::peer() writes it, is a loopback address or a
// Unix socket: "ipv4:127.0.0.1:4242", "ipv6:%5B::1%5D:4242", "unix:/run/incipit". An IPv4 address
// within IPv6 counts as the IPv4 address. Returns false for anything that it cannot read.
bool IsLocalPeer(std::string_view peer);

}  // namespace incipit
