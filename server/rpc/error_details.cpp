#include "server/rpc/error_details.h"

#include <google/rpc/error_details.pb.h>
#include <google/rpc/status.pb.h>
#include <grpcpp/support/status.h>

#include <string>
#include <utility>

#include "base/check.h"
#include "server/session/request/request_error.h"

namespace incipit {
namespace {

constexpr const char* kDomain = "incipit";
constexpr const char* kTypePrefix = "type.googleapis.com/";
// Maximum size in bytes of an error message to a client. A longer message is cut and ends with
// "...".
constexpr size_t kMessageBytesMax = 1024;

grpc::StatusCode GrpcCodeOf(Reason reason) {
  switch (reason) {
    case Reason::kInvalidField:
    case Reason::kPromptTooLong:
    case Reason::kTemplateRefused:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case Reason::kModelNotFound:
      return grpc::StatusCode::NOT_FOUND;
    case Reason::kNoTokenizer:
    case Reason::kNoChatTemplate:
    case Reason::kBlocksInUse:
    case Reason::kCannotResume:
      return grpc::StatusCode::FAILED_PRECONDITION;
    case Reason::kTemplateUnsupported:
      return grpc::StatusCode::UNIMPLEMENTED;
    case Reason::kQueueFull:
    case Reason::kQueueTooLong:
    case Reason::kTextQueueFull:
    case Reason::kMetadataTooLarge:
    case Reason::kTooManyStreams:
    case Reason::kWriteStalled:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case Reason::kDraining:
    case Reason::kEngineFailed:
      return grpc::StatusCode::UNAVAILABLE;
    case Reason::kDeadline:
      return grpc::StatusCode::DEADLINE_EXCEEDED;
    case Reason::kCancelled:
      return grpc::StatusCode::CANCELLED;
    case Reason::kInvalidApiKey:
      return grpc::StatusCode::UNAUTHENTICATED;
    case Reason::kAdminNotLocal:
      return grpc::StatusCode::PERMISSION_DENIED;
    // In gRPC's list of status codes, a request message that cannot be parsed has the code
    // INTERNAL.
    case Reason::kMalformedMessage:
    case Reason::kInternal:
      return grpc::StatusCode::INTERNAL;
  }
  INCIPIT_CHECK(false);
}

// Returns `message` if it has at most `bytes_max` bytes. Otherwise returns its first `bytes_max`
// bytes, without an incomplete UTF-8 character at the end, followed by "...".
std::string Cut(std::string message, size_t bytes_max) {
  if (message.size() <= bytes_max) return message;
  size_t size = bytes_max;
  while (size > 0 && (static_cast<unsigned char>(message[size]) & 0xC0) == 0x80) --size;
  message.resize(size);
  return message + "...";
}

template <typename Message>
void Attach(const Message& message, google::rpc::Status& rich) {
  auto& any = *rich.add_details();
  any.set_type_url(kTypePrefix + Message::descriptor()->full_name());
  any.set_value(message.SerializeAsString());
}

google::rpc::ErrorInfo ErrorInfoOf(const RequestError& error) {
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(NameOf(error.reason)));
  info.set_domain(kDomain);
  if (error.bound) (*info.mutable_metadata())["bound"] = fmt::to_string(*error.bound);
  return info;
}

google::rpc::BadRequest BadRequestOf(const RequestError& error) {
  google::rpc::BadRequest bad_request;
  auto& violation = *bad_request.add_field_violations();
  violation.set_field(error.field);
  // A message about a field has the form "<field> <description>". `begin` is the index of the first
  // byte of the description.
  const size_t begin = error.field.size() + 1;
  const bool has_field = error.message.size() > begin && error.message.starts_with(error.field);
  violation.set_description(
      Cut(has_field ? error.message.substr(begin) : error.message, kMessageBytesMax));
  return bad_request;
}

google::rpc::RetryInfo RetryInfoOf(Duration delay) {
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(delay).count();
  google::rpc::RetryInfo info;
  info.mutable_retry_delay()->set_seconds(nanoseconds / 1'000'000'000);
  info.mutable_retry_delay()->set_nanos(static_cast<int32_t>(nanoseconds % 1'000'000'000));
  return info;
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const RequestError error = ErrorOf(status);
  const grpc::StatusCode code = GrpcCodeOf(error.reason);
  google::rpc::Status rich;
  rich.set_code(code);
  rich.set_message(Cut(error.message, kMessageBytesMax));
  Attach(ErrorInfoOf(error), rich);
  if (!error.field.empty()) Attach(BadRequestOf(error), rich);
  if (error.retry_delay) Attach(RetryInfoOf(*error.retry_delay), rich);
  return grpc::Status(code, rich.message(), rich.SerializeAsString());
}

}  // namespace incipit
