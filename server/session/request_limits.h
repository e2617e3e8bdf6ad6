// Limits of one request. Every limit in RequestLimits has a flag of the same name
// (server/options.cpp) and a default value. A request beyond a limit gets INVALID_ARGUMENT, and the
// error names the value of the limit.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace incipit {

inline constexpr int32_t kToolCallsMax = 128;  // maximum number of tool calls in one message

struct RequestLimits {
  int32_t prompt_tokens_max = 0;  // maximum number of prompt tokens; 0: limited by the context only
  int32_t choices_max = 16;
  int32_t logprobs_max = 20;
  // Maximum estimated size of the log probabilities of a prompt in the messages to the client, in
  // bytes.
  int64_t prompt_logprobs_bytes_max = 32 << 20;
  int32_t stop_strings_max = 16;
  int32_t stop_string_bytes_max = 1024;
  int32_t stop_tokens_max = 64;
  int32_t logit_bias_max = 1024;
  int32_t messages_max = 1000;
  int32_t tools_max = 128;
  int64_t template_arguments_bytes_max = 64 << 10;
  // Maximum number of members and elements in all JSON texts of one request together.
  int64_t json_values_max = 65'536;
  int64_t detokenize_bytes_max = 32 << 20;
  int32_t cache_salt_bytes_max = 256;
  Duration cache_ttl_max = std::chrono::hours(24);
  int32_t request_id_bytes_max = 128;
  int32_t tenant_bytes_max = 128;
  int32_t priority_min = -100, priority_max = 100;  // a priority outside the range is clamped
};

}  // namespace incipit
