// Reads the metadata (HTTP/2 header fields) and the deadline of a gRPC call.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "server/session/request/request_limits.h"

namespace grpc {
class ServerContextBase;
}

namespace incipit {

// Returns the tenant of `call`: the value of x-tenant-id in its metadata, or "default" if
// x-tenant-id is absent. Returns INVALID_FIELD if x-tenant-id is not a valid tenant name or occurs
// more than once.
absl::StatusOr<std::string> TenantOf(const grpc::ServerContextBase& call,
                                     const RequestLimits& limits);

// Returns METADATA_TOO_LARGE if the metadata of `call` have more than `bytes_max` bytes. As in
// HTTP/2, the size of an entry is the length of its name and value plus 32 bytes.
absl::Status CheckMetadataBytes(const grpc::ServerContextBase& call, int64_t bytes_max);

// Returns the deadline of `call`, or `arrival + longest` if the deadline is later or absent.
// REQUIRES: `arrival` is the current time.
Time DeadlineOf(const grpc::ServerContextBase& call, Time arrival, Duration longest);

}  // namespace incipit
