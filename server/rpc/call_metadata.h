// What a call says beside its message.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "server/session/request_limits.h"

namespace grpc {
class ServerContextBase;
}

namespace incipit {

// The metadata x-tenant-id, or "default". INVALID_FIELD if it is not a name or stands twice.
absl::StatusOr<std::string> TenantOf(const grpc::ServerContextBase& call,
                                     const RequestLimits& limits);

// METADATA_TOO_LARGE if the call's metadata take more than `bytes_max` as HTTP/2 counts them.
absl::Status CheckMetadataBytes(const grpc::ServerContextBase& call, int64_t bytes_max);

// The call's deadline on the clock of `arrival`, or `arrival + longest` if that is earlier.
// `arrival` is now.
Time DeadlineOf(const grpc::ServerContextBase& call, Time arrival, Duration longest);

}  // namespace incipit
