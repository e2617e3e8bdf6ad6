#include "server/rpc/error_details.h"

#include <google/rpc/error_details.pb.h>
#include <google/rpc/status.pb.h>
#include <grpcpp/support/status.h>

#include <algorithm>
#include <optional>

#include "absl/strings/cord.h"

namespace incipit {
namespace {

constexpr std::string_view kDomain = "incipit";
constexpr size_t kMessageBytesMax = 1024;
constexpr absl::string_view kTypePrefix = "type.googleapis.com/";

template <typename Message>
std::string TypeUrl() {
  return std::string(kTypePrefix) + Message::descriptor()->full_name();
}

template <typename Message>
void Attach(absl::Status& status, const Message& message) {
  status.SetPayload(TypeUrl<Message>(), absl::Cord(message.SerializeAsString()));
}

template <typename Message>
std::optional<Message> Find(const absl::Status& status) {
  const auto payload = status.GetPayload(TypeUrl<Message>());
  Message message;
  if (!payload || !message.ParseFromString(std::string(*payload))) return std::nullopt;
  return message;
}

std::string_view DefaultReason(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
      return reason::kInvalidField;
    case absl::StatusCode::kDeadlineExceeded:
      return reason::kDeadline;
    case absl::StatusCode::kCancelled:
      return reason::kCancelled;
    case absl::StatusCode::kResourceExhausted:
      return reason::kQueueFull;
    case absl::StatusCode::kUnavailable:
      return reason::kDraining;
    default:
      return reason::kEngineFailed;
  }
}

google::rpc::ErrorInfo MakeErrorInfo(std::string_view reason) {
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(reason));
  info.set_domain(std::string(kDomain));
  return info;
}

// At most `bytes_max` bytes, never half a character.
std::string Cut(std::string message, size_t bytes_max) {
  if (message.size() <= bytes_max) return message;
  size_t size = bytes_max;
  while (size > 0 && (static_cast<unsigned char>(message[size]) & 0xC0) == 0x80) --size;
  message.resize(size);
  return message + "...";
}

}  // namespace

absl::Status FieldViolation(std::string_view field, std::string_view description,
                            std::string_view reason) {
  google::rpc::BadRequest bad_request;
  auto& violation = *bad_request.add_field_violations();
  violation.set_field(std::string(field));
  violation.set_description(Cut(std::string(description), kMessageBytesMax));
  absl::Status status = InvalidArgument("{} {}", field, description);
  Attach(status, bad_request);
  return WithReason(std::move(status), reason);
}

absl::Status WithReason(absl::Status status, std::string_view reason) {
  Attach(status, MakeErrorInfo(reason));
  return status;
}

absl::Status WithRetryDelay(absl::Status status, Duration delay) {
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(delay).count();
  google::rpc::RetryInfo info;
  info.mutable_retry_delay()->set_seconds(nanoseconds / 1'000'000'000);
  info.mutable_retry_delay()->set_nanos(static_cast<int32_t>(nanoseconds % 1'000'000'000));
  Attach(status, info);
  return status;
}

std::string ReasonOf(const absl::Status& status) {
  const auto info = Find<google::rpc::ErrorInfo>(status);
  return info ? info->reason() : std::string(DefaultReason(status.code()));
}

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  google::rpc::Status rich;
  rich.set_code(static_cast<int32_t>(status.code()));
  rich.set_message(Cut(MessageOf(status), kMessageBytesMax));
  absl::Status complete = WithReason(status, ReasonOf(status));
  complete.ForEachPayload([&](absl::string_view type_url, const absl::Cord& payload) {
    auto& any = *rich.add_details();
    any.set_type_url(std::string(type_url));
    any.set_value(std::string(payload));
  });
  return grpc::Status(static_cast<grpc::StatusCode>(rich.code()), rich.message(),
                      rich.SerializeAsString());
}

}  // namespace incipit
