// Refuses gRPC calls without an API key of the server.
#pragma once

#include "absl/status/status.h"
#include "server/session/api_keys.h"

namespace grpc {
class ServerBuilder;
class ServerContextBase;
}  // namespace grpc

namespace incipit {

// Returns INVALID_API_KEY if `keys` are required, and the metadata of `call` do not have exactly
// one entry `authorization` with a key of `keys`. A service must call CheckKey before any other
// work, unless GuardOtherServices checks the calls of the service.
absl::Status CheckKey(const grpc::ServerContextBase& call, const ApiKeys& keys);

// If `keys` are required, makes the server of `builder` cancel calls without a key of `keys`, with
// the code UNAUTHENTICATED. Does not check calls of grpc.health.v1, and calls of services that call
// CheckKey. The handler of a cancelled call still runs, but cannot read or send a message.
// REQUIRES: `keys` outlives the server. Called once for a builder.
void GuardOtherServices(const ApiKeys& keys, grpc::ServerBuilder& builder);

}  // namespace incipit
