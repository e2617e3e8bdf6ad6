// Functions that check the value of one request field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "server/session/request/request_error.h"

namespace incipit {

// Returns INVALID_FIELD if `size`, the size of the request field `field` in bytes, is larger than
// `max`.
inline absl::Status CheckBytes(std::string_view field, size_t size, int64_t max) {
  if (static_cast<int64_t>(size) <= max) return absl::OkStatus();
  return WithBound(InvalidField(field, "has {} bytes; at most {} bytes are allowed", size, max),
                   max);
}

// If `value` is larger than `max`, returns a copy of the error `status` that contains the limit
// `max`. Otherwise returns `status`.
template <typename T>
absl::Status WithBoundOf(const T& value, int64_t max, const absl::Status& status) {
  return value > static_cast<T>(max) ? WithBound(status, max) : status;
}

// Returns INVALID_FIELD unless `min` <= `value` <= `max`. If `value` is NaN (not a number), also
// returns INVALID_FIELD.
inline absl::Status CheckRange(std::string_view field, float value, int min, int max) {
  if (value >= static_cast<float>(min) && value <= static_cast<float>(max)) return absl::OkStatus();
  return WithBoundOf(
      value, max, InvalidField(field, "is {}; the value must be from {} to {}", value, min, max));
}

// Returns INVALID_FIELD if `count`, the number of elements of the request field `field`, is larger
// than `max`. `noun` is the word for the elements in the error message, such as "strings".
inline absl::Status CheckCount(std::string_view field, size_t count, std::string_view noun,
                               int64_t max) {
  if (static_cast<int64_t>(count) <= max) return absl::OkStatus();
  return WithBound(InvalidField(field, "has {} {}; at most {} are allowed", count, noun, max), max);
}

}  // namespace incipit
