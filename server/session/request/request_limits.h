// Limits on the values of one request. Each limit has a flag of the server, such as --choices-max
// for `choices_max`; --priority-range sets priority_min and priority_max. A request with a value
// beyond a limit gets INVALID_ARGUMENT, and the error contains the limit. A priority out of range
// is not an error: the server uses the nearest priority in the range.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace incipit {

inline constexpr int32_t kToolCallsMax = 128;  // maximum number of tool calls in one chat message

struct RequestLimits {
  // Maximum number of prompt tokens; 0: only the context of the model limits the number.
  int32_t prompt_tokens_max = 0;
  int32_t choices_max = 16;
  int32_t logprobs_max = 20;
  // Maximum estimated size in bytes of the prompt log probabilities that the server returns for one
  // request.
  int64_t prompt_logprobs_bytes_max = 32 << 20;
  int32_t stop_strings_max = 16;
  int32_t stop_string_bytes_max = 1024;
  int32_t stop_tokens_max = 64;
  int32_t logit_bias_max = 1024;
  int32_t messages_max = 1000;
  int32_t tools_max = 128;
  int64_t template_arguments_bytes_max = 64 << 10;
  // Maximum number of object members and array elements in all JSON texts of one request together.
  // Each tool call counts as five members.
  int64_t json_values_max = 65'536;
  int64_t detokenize_bytes_max = 32 << 20;
  int32_t cache_salt_bytes_max = 256;
  Duration cache_ttl_max = std::chrono::hours(24);
  int32_t request_id_bytes_max = 128;
  int32_t tenant_bytes_max = 128;
  // A priority below `priority_min` becomes `priority_min`, and a priority above `priority_max`
  // becomes `priority_max`.
  int32_t priority_min = -100, priority_max = 100;
};

}  // namespace incipit
