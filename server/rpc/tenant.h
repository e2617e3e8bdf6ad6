// Whose call it is, and what the cache has to know of that.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "server/session/request_limits.h"

namespace grpc {
class ServerContextBase;
}

namespace incipit {

// The metadata x-tenant-id, or "default". INVALID_ARGUMENT if it is not a name or stands twice.
absl::StatusOr<std::string> TenantOf(const grpc::ServerContextBase& call,
                                     const RequestLimits& limits);

// With whom `request` shares blocks, and whose share of the cache its retention counts against:
// where tenants are not isolated they are as one.
void SetTenant(std::string_view tenant, bool is_isolated, std::string_view salt, Request& request);

}  // namespace incipit
