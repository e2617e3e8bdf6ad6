#include "server/session/request/request_error.h"

#include <cstring>

#include "absl/strings/cord.h"
#include "base/check.h"
#include "base/limit.h"

namespace incipit {
namespace {

constexpr absl::string_view kPayload = "incipit/request_error";

// The first bytes of a RequestError that is stored in an absl::Status. The bytes after the Header
// are the path of the invalid field.
struct Header {
  int64_t bound = 0, retry_ns = 0;
  uint8_t has_bound = 0, has_retry = 0;
  Reason reason = Reason::kInternal;
};

absl::Status Attach(const RequestError& error, absl::StatusCode code) {
  Header header;
  header.reason = error.reason;
  header.has_bound = error.bound.has_value();
  header.bound = error.bound.value_or(0);
  header.has_retry = error.retry_delay.has_value();
  header.retry_ns = std::chrono::nanoseconds(error.retry_delay.value_or(Duration::zero())).count();
  std::string payload(sizeof header, '\0');
  std::memcpy(payload.data(), &header, sizeof header);
  payload += error.field;
  absl::Status status(code, error.message);
  status.SetPayload(kPayload, absl::Cord(std::move(payload)));
  return status;
}

}  // namespace

absl::Status Refuse(Reason reason, std::string_view message) {
  return Attach({.reason = reason, .message = std::string(message)}, CodeOf(reason));
}

absl::Status FieldViolation(std::string_view field, std::string_view description, Reason reason) {
  return Attach({.reason = reason,
                 .message = fmt::format("{} {}", field, description),
                 .field = std::string(field)},
                CodeOf(reason));
}

absl::Status WithBound(const absl::Status& status, int64_t bound) {
  RequestError error = ErrorOf(status);
  error.bound = bound;
  return Attach(error, status.code());
}

absl::Status WithRetryDelay(const absl::Status& status, Duration delay) {
  RequestError error = ErrorOf(status);
  error.retry_delay = delay;
  return Attach(error, status.code());
}

absl::Status WithField(const absl::Status& status, std::string_view field) {
  RequestError error = ErrorOf(status);
  if (!error.field.empty() && error.message.starts_with(error.field)) {
    error.message.replace(0, error.field.size(), field);
  }
  error.field = field;
  return Attach(error, status.code());
}

RequestError ErrorOf(const absl::Status& status) {
  INCIPIT_CHECK(!status.ok());
  RequestError error;
  error.message = MessageOf(status);
  error.reason = DefaultReason(status.code());
  error.bound = LimitOf(status);
  const auto payload = status.GetPayload(kPayload);
  if (!payload) return error;
  const std::string bytes(*payload);
  Header header;
  INCIPIT_CHECK(bytes.size() >= sizeof header);
  std::memcpy(&header, bytes.data(), sizeof header);
  error.reason = header.reason;
  if (header.has_bound) error.bound = header.bound;
  if (header.has_retry) error.retry_delay = std::chrono::nanoseconds(header.retry_ns);
  error.field = bytes.substr(sizeof header);
  return error;
}

}  // namespace incipit
