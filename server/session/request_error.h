// What is wrong with a request, in no protocol's terms. It travels as an absl::Status, whose code
// and message say the same, so that checks read as everywhere else.
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
  // For people. Never contains what the client sent, except numbers and an escaped excerpt of a
  // chat template's own message.
  std::string message = {};
  std::string field = {};             // a path such as "sampling.top_p" or "stop[3]", or empty
  std::optional<int64_t> bound = {};  // that the field or a count exceeds
  std::optional<Duration> retry_delay = {};  // after which the same request may be taken
};

// A status with the code of `reason`.
absl::Status Refuse(Reason reason, std::string_view message);

// The message is "<field> <description>".
absl::Status FieldViolation(std::string_view field, std::string_view description,
                            Reason reason = Reason::kInvalidField);

template <typename... Args>
absl::Status InvalidField(std::string_view field, fmt::format_string<Args...> format,
                          Args&&... args) {
  return FieldViolation(field, fmt::format(format, std::forward<Args>(args)...));
}

// REQUIRES: `status` is not OK. The same status with one part of its RequestError replaced.
absl::Status WithBound(const absl::Status& status, int64_t bound);
absl::Status WithRetryDelay(const absl::Status& status, Duration delay);

// REQUIRES: `status` is not OK. If no function of this header made it, the reason follows from the
// code.
RequestError ErrorOf(const absl::Status& status);

}  // namespace incipit
