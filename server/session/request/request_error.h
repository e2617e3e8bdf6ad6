// The error of a request, independent of the network protocol. A RequestError is stored in an
// absl::Status, together with a code and a message.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/status.h"
#include "server/session/request/reason.h"

namespace incipit {

struct RequestError {
  Reason reason = Reason::kInternal;
  // Error message for people. Contains no data of the client, except numbers and an escaped excerpt
  // of the error message of a chat template.
  std::string message = {};
  // Path of the invalid field, such as "sampling.top_p" or "output.stop[3]". Empty if the error is
  // not about a field.
  std::string field = {};
  // Limit that the request exceeds; absent if the error is not about a limit.
  std::optional<int64_t> bound = {};
  // Time after which the client may send the request again. Absent if the time is unknown, or if
  // sending the request again is useless.
  std::optional<Duration> retry_delay = {};
};

// Returns an error with `reason`, `message` and the status code of `reason`.
absl::Status Refuse(Reason reason, std::string_view message);

// Returns an error about the request field `field`. The message is "<field> <description>".
absl::Status FieldViolation(std::string_view field, std::string_view description,
                            Reason reason = Reason::kInvalidField);

// Returns an INVALID_FIELD error about the request field `field`. The message is `field`, a space
// and the formatted text.
template <typename... Args>
absl::Status InvalidField(std::string_view field, fmt::format_string<Args...> format,
                          Args&&... args) {
  return FieldViolation(field, fmt::format(format, std::forward<Args>(args)...));
}

// Returns a copy of the error `status` that contains the limit `bound`. REQUIRES: `status` is not
// OK.
absl::Status WithBound(const absl::Status& status, int64_t bound);
// Returns a copy of the error `status` that contains `delay`, the time after which the client may
// send the request again. REQUIRES: `status` is not OK.
absl::Status WithRetryDelay(const absl::Status& status, Duration delay);

// Returns a copy of the error `status` in which the name of the invalid field is replaced by
// `field`. If the message begins with the old name, also replaces the name in the message.
// REQUIRES: `status` is not OK.
absl::Status WithField(const absl::Status& status, std::string_view field);

// Returns the RequestError that is stored in `status`. If `status` contains no RequestError,
// returns the message of `status`, the default reason for its status code, and the limit that
// LimitOf returns. REQUIRES: `status` is not OK.
RequestError ErrorOf(const absl::Status& status);

}  // namespace incipit
