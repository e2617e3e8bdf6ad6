// The error of a request, independent of the protocol. A RequestError is attached to an
// absl::Status with the code of the reason and the same message.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/status.h"
#include "server/session/reason.h"

namespace incipit {

struct RequestError {
  Reason reason = Reason::kInternal;
  // Text for people. Contains no data of the client except numbers and an escaped excerpt of the
  // error message of a chat template.
  std::string message = {};
  // Path of the invalid field, such as "sampling.top_p" or "stop[3]". Empty if no field is invalid.
  std::string field = {};
  std::optional<int64_t> bound = {};         // limit that a field or a count exceeds
  std::optional<Duration> retry_delay = {};  // time after which a client may repeat the request
};

// Returns an error with `reason`, the code of `reason` and `message`.
absl::Status Refuse(Reason reason, std::string_view message);

// Returns an error about `field`. The message is "<field> <description>".
absl::Status FieldViolation(std::string_view field, std::string_view description,
                            Reason reason = Reason::kInvalidField);

// Returns an INVALID_FIELD error about `field`; the message is `field` and the formatted text.
template <typename... Args>
absl::Status InvalidField(std::string_view field, fmt::format_string<Args...> format,
                          Args&&... args) {
  return FieldViolation(field, fmt::format(format, std::forward<Args>(args)...));
}

// Returns `status` with `bound` in its RequestError. REQUIRES: `status` is not OK.
absl::Status WithBound(const absl::Status& status, int64_t bound);
// Returns `status` with `delay` in its RequestError. REQUIRES: `status` is not OK.
absl::Status WithRetryDelay(const absl::Status& status, Duration delay);

// Returns the RequestError of `status`. If `status` was not created by a function of this header,
// the reason is DefaultReason of the code. REQUIRES: `status` is not OK.
RequestError ErrorOf(const absl::Status& status);

}  // namespace incipit
