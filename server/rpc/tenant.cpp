#include "server/rpc/tenant.h"

#include <grpcpp/server_context.h>

#include <iterator>
#include <optional>

#include "server/rpc/error_details.h"
#include "server/session/checked_request.h"

namespace incipit {
namespace {

constexpr std::string_view kTenantKey = "x-tenant-id";
constexpr std::string_view kDefaultTenant = "default";

}  // namespace

absl::StatusOr<std::string> TenantOf(const grpc::ServerContextBase& call,
                                     const RequestLimits& limits) {
  const auto [begin, end] =
      call.client_metadata().equal_range(grpc::string_ref(kTenantKey.data(), kTenantKey.size()));
  if (begin == end) return std::string(kDefaultTenant);
  if (std::next(begin) != end) return InvalidField(kTenantKey, "stands more than once");
  const std::string_view tenant(begin->second.data(), begin->second.size());
  INCIPIT_RETURN_IF_ERROR(CheckTenant(tenant, limits));
  return std::string(tenant);
}

void SetTenant(std::string_view tenant, bool is_isolated, std::string_view salt, Request& request) {
  const auto name = is_isolated ? std::optional<std::string_view>(tenant) : std::nullopt;
  request.cache_namespace = MakeCacheNamespace(name, salt);
  request.tenant = TenantDigest(name);
}

}  // namespace incipit
