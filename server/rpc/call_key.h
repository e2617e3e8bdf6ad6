// Refuses gRPC calls that have no valid API key.
#pragma once

#include "absl/status/status.h"
#include "server/session/api_keys.h"

namespace grpc {
class ServerBuilder;
class ServerContextBase;
}  // namespace grpc

namespace incipit {

// Returns OK if `keys` does not require a key, or if the metadata of `call` have exactly one entry
// `authorization`, with a key of `keys`. Otherwise returns INVALID_API_KEY. A service must call
// CheckKey before any other work, unless GuardOtherServices checks the calls of the service.
absl::Status CheckKey(const grpc::ServerContextBase& call, const ApiKeys& keys);

// Makes the gRPC server of `builder` cancel calls without a key of `keys`, with the code
// UNAUTHENTICATED. Exempts the calls of grpc.health.v1, and of the services that call CheckKey
// themselves. Does nothing if `keys` does not require a key. The handler of a cancelled call still
// runs, but cannot read or send a message. REQUIRES: `keys` outlives the server. Called once for a
// builder.
void GuardOtherServices(const ApiKeys& keys, grpc::ServerBuilder& builder);

}  // namespace incipit
