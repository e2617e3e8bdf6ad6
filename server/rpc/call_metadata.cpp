#include "server/rpc/call_metadata.h"

#include <grpc/support/time.h>
#include <grpcpp/server_context.h>

#include <algorithm>
#include <iterator>

#include "server/session/request/checked_request.h"
#include "server/session/request/request_error.h"

namespace incipit {
namespace {

// Number of bytes that HTTP/2 counts for each metadata entry in addition to its name and value.
constexpr int64_t kMetadataEntryBytes = 32;

}  // namespace

absl::StatusOr<std::string> TenantOf(const grpc::ServerContextBase& call,
                                     const RequestLimits& limits) {
  const auto [begin, end] = call.client_metadata().equal_range(
      grpc::string_ref(kTenantField.data(), kTenantField.size()));
  const std::string_view tenant =
      begin == end ? std::string_view()
                   : std::string_view(begin->second.data(), begin->second.size());
  return TenantFrom(static_cast<size_t>(std::distance(begin, end)), tenant, limits);
}

absl::Status CheckMetadataBytes(const grpc::ServerContextBase& call, int64_t bytes_max) {
  int64_t num_bytes = 0;
  for (const auto& [name, value] : call.client_metadata()) {
    num_bytes += static_cast<int64_t>(name.size() + value.size()) + kMetadataEntryBytes;
  }
  if (num_bytes <= bytes_max) return absl::OkStatus();
  return WithBound(
      Refuse(Reason::kMetadataTooLarge,
             fmt::format("the metadata of the call have {} bytes; metadata-bytes-max is {}",
                         num_bytes, bytes_max)),
      bytes_max);
}

Time DeadlineOf(const grpc::ServerContextBase& call, Time arrival, Duration longest) {
  // Compares whole seconds, because a call without a deadline has more remaining time than a
  // Duration can hold.
  const gpr_timespec deadline = call.raw_deadline();
  const gpr_timespec remaining = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  const std::chrono::seconds longest_seconds =
      std::chrono::duration_cast<std::chrono::seconds>(longest);
  if (remaining.tv_sec > longest_seconds.count()) return arrival + longest;
  if (remaining.tv_sec < 0) return arrival;
  const Duration exact =
      std::chrono::seconds(remaining.tv_sec) + std::chrono::nanoseconds(remaining.tv_nsec);
  return arrival + std::min(exact, longest);
}

}  // namespace incipit
