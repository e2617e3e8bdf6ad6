// Creates errors (absl::Status) with formatted messages, and returns errors to the caller. An error
// message should contain the name of the invalid field, its value and the allowed range.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace incipit {

// Returns the message of `status` as a std::string. The message has the type absl::string_view,
// which in the installed library differs from std::string_view.
inline std::string MessageOf(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

template <typename... Args>
absl::Status MakeStatus(absl::StatusCode code, fmt::format_string<Args...> format, Args&&... args) {
  return absl::Status(code, fmt::format(format, std::forward<Args>(args)...));
}

#define INCIPIT_STATUS_CONSTRUCTOR(Name)                                               \
  template <typename... Args>                                                          \
  absl::Status Name(fmt::format_string<Args...> format, Args&&... args) {              \
    return MakeStatus(absl::StatusCode::k##Name, format, std::forward<Args>(args)...); \
  }

INCIPIT_STATUS_CONSTRUCTOR(InvalidArgument)
INCIPIT_STATUS_CONSTRUCTOR(NotFound)
INCIPIT_STATUS_CONSTRUCTOR(AlreadyExists)
INCIPIT_STATUS_CONSTRUCTOR(PermissionDenied)
INCIPIT_STATUS_CONSTRUCTOR(ResourceExhausted)
INCIPIT_STATUS_CONSTRUCTOR(FailedPrecondition)
INCIPIT_STATUS_CONSTRUCTOR(Unimplemented)
INCIPIT_STATUS_CONSTRUCTOR(Internal)
INCIPIT_STATUS_CONSTRUCTOR(Unavailable)
INCIPIT_STATUS_CONSTRUCTOR(DeadlineExceeded)
INCIPIT_STATUS_CONSTRUCTOR(Cancelled)
#undef INCIPIT_STATUS_CONSTRUCTOR

// Returns an error with the code of `status` and the message "context: message", where message is
// the message of `status`. If `status` is OK, returns OK.
inline absl::Status Annotate(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  return absl::Status(status.code(), fmt::format("{}: {}", context, MessageOf(status)));
}

}  // namespace incipit

#define INCIPIT_RETURN_IF_ERROR(expr)                   \
  do {                                                  \
    if (absl::Status status_ = (expr); !status_.ok()) { \
      return status_;                                   \
    }                                                   \
  } while (false)

#define INCIPIT_CONCAT_INNER(a, b) a##b
#define INCIPIT_CONCAT(a, b) INCIPIT_CONCAT_INNER(a, b)
#define INCIPIT_ASSIGN_OR_RETURN(lhs, expr) \
  INCIPIT_ASSIGN_OR_RETURN_FROM(INCIPIT_CONCAT(statusor_, __LINE__), lhs, expr)
#define INCIPIT_ASSIGN_OR_RETURN_FROM(var, lhs, expr) \
  auto var = (expr);                                  \
  if (!var.ok()) return var.status();                 \
  lhs = *std::move(var)
