// Reads the metadata and the deadline of a call.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "server/session/request_limits.h"

namespace grpc {
class ServerContextBase;
}

namespace incipit {

// Returns the value of the metadata x-tenant-id, or "default" if the call has none. Returns
// INVALID_FIELD if the value is not a tenant name or if x-tenant-id occurs more than once.
absl::StatusOr<std::string> TenantOf(const grpc::ServerContextBase& call,
                                     const RequestLimits& limits);

// Returns METADATA_TOO_LARGE if the metadata of `call` have more than `bytes_max` bytes. As in
// HTTP/2, the size of an entry is the size of name and value plus 32 bytes.
absl::Status CheckMetadataBytes(const grpc::ServerContextBase& call, int64_t bytes_max);

// Returns the deadline of `call` on the clock of `arrival`, but at most `arrival + longest`.
// REQUIRES: `arrival` is the current time.
Time DeadlineOf(const grpc::ServerContextBase& call, Time arrival, Duration longest);

}  // namespace incipit
