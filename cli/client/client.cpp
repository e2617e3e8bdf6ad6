#include "cli/client/client.h"

#include <fmt/format.h>

#include <cstdlib>

#include "absl/status/status.h"
#include "base/status.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/session/api_keys.h"

namespace incipit {
namespace {

// Maximum size of a gRPC message, in bytes. The largest messages are responses with log
// probabilities of the prompt tokens.
constexpr int kMessageBytesMax = 256 << 20;

constexpr const char* kKeyVariable = "INCIPIT_API_KEY";

std::string DescribeDetail(const google::protobuf::Any& any) {
  google::rpc::BadRequest bad_request;
  google::rpc::RetryInfo retry;
  std::string text;
  if (any.UnpackTo(&bad_request)) {
    for (const auto& violation : bad_request.field_violations()) {
      text += fmt::format("\n  {}: {}", violation.field(), violation.description());
    }
  } else if (any.UnpackTo(&retry)) {
    const auto& delay = retry.retry_delay();
    text = fmt::format("\n  try again in {:.3g} s",
                       static_cast<double>(delay.seconds()) + delay.nanos() * 1e-9);
  }
  return text;
}

}  // namespace

void BindClientFlags(Flags& flags, ClientOptions& options) {
  flags.Group("Server (set the environment variable INCIPIT_API_KEY if the server needs a key)");
  flags.String(
      {"address", "HOST:PORT", "Address of the server, as set by `incipit serve --address`."},
      options.address);
  flags.String({"tenant", "NAME", "Name of the tenant. Different tenants share no cached blocks."},
               options.tenant);
  flags.Interval({"timeout", "TIME", "Time limit of each call to the server; 0: no limit."},
                 options.timeout, {Duration::zero(), std::chrono::hours(24)});
}

std::shared_ptr<grpc::Channel> OpenChannel(const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  arguments.SetMaxSendMessageSize(kMessageBytesMax);
  // Ignore the environment variables for an HTTP proxy. Connect to the server directly.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(options.address, grpc::InsecureChannelCredentials(), arguments);
}

void PrepareCall(const ClientOptions& options, grpc::ClientContext& context) {
  if (!options.tenant.empty()) context.AddMetadata("x-tenant-id", options.tenant);
  if (const char* const key = std::getenv(kKeyVariable); key != nullptr && IsApiKey(key)) {
    context.AddMetadata("authorization", fmt::format("Bearer {}", key));
  }
  if (options.timeout > Duration::zero()) {
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::ceil<std::chrono::microseconds>(options.timeout));
  }
}

std::string DescribeError(const ClientOptions& options, const grpc::Status& status) {
  std::string text =
      fmt::format("{}: {}", StatusCodeName(status.error_code()), status.error_message());
  if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED) {
    text += fmt::format("\n  set the environment variable {} to an API key of the server",
                        kKeyVariable);
  }
  google::rpc::Status details;
  if (!status.error_details().empty() && details.ParseFromString(status.error_details())) {
    for (const auto& any : details.details()) text += DescribeDetail(any);
  } else if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    text += fmt::format("\n  check that a server is running at {} (--address)", options.address);
  }
  return text;
}

std::string StatusCodeName(grpc::StatusCode code) {
  return absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
}

}  // namespace incipit
