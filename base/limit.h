// Creates errors for exceeded limits. Such an error contains the limit as a number, so that the
// caller need not parse the error message.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "base/status.h"

namespace incipit {

inline constexpr absl::string_view kLimitPayload = "incipit/limit";

// Returns a RESOURCE_EXHAUSTED error that contains the exceeded limit `limit` as a number. The
// error message ends with "; the limit is " and the number.
template <typename... Args>
absl::Status LimitReached(int64_t limit, fmt::format_string<Args...> format, Args&&... args) {
  absl::Status status = ResourceExhausted("{}; the limit is {}",
                                          fmt::format(format, std::forward<Args>(args)...), limit);
  status.SetPayload(kLimitPayload, absl::Cord(std::to_string(limit)));
  return status;
}

// Returns the limit that LimitReached has stored in `status`, or nullopt if `status` contains no
// limit.
inline std::optional<int64_t> LimitOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kLimitPayload);
  int64_t limit = 0;
  if (!payload || !absl::SimpleAtoi(std::string(*payload), &limit)) return std::nullopt;
  return limit;
}

}  // namespace incipit
