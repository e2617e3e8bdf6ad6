// Converts the JSON body of an OpenAI API request to request drafts (values that are not checked
// yet). Also reads the fields that vLLM adds to OpenAI's API.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/session/request/request_draft.h"
#include "server/session/request/request_limits.h"

namespace incipit {

// The form of the response that the client has requested.
struct OpenAiFormat {
  bool is_chat = false;
  bool streams = false;        // true: server-sent events; false: one JSON object
  bool include_usage = false;  // true: a stream ends with the token counts
  bool echo = false;           // true: the text of a completion begins with the prompt
  bool echo_only = false;      // true: the text of a completion is the prompt without output
  // True: the response contains the token ids of prompts and choices (outputs).
  bool return_token_ids = false;
  bool keeps_special_tokens = false;  // true: output text contains special tokens
  bool logprobs = false;
  int32_t num_choices = 1;  // number of choices (outputs) of each prompt
};

struct OpenAiRequest {
  OpenAiFormat format;
  std::vector<RequestDraft> drafts;  // one draft for each prompt of the request; at least one
};

struct OpenAiLimits {
  const RequestLimits& request;
  int64_t body_bytes_max = 4 << 20;
  int32_t prompts_max = 128;  // maximum number of prompts in one completion request
};

struct DetokenizeRequest {
  std::string model;  // name of the model; empty if the client did not send a name
  TokensDraft tokens;
};

// Reads the body of a completion request. Returns INVALID_FIELD if `body` is not valid or contains
// a field that the server refuses. Ignores unknown fields.
absl::StatusOr<OpenAiRequest> ReadCompletionRequest(std::string_view body,
                                                    const OpenAiLimits& limits);
absl::StatusOr<OpenAiRequest> ReadChatRequest(std::string_view body, const OpenAiLimits& limits);
// Reads the body of a request to /tokenize, which contains a prompt or messages. Sets only the
// members `model`, `prompt` and `add_special_tokens` of the draft.
absl::StatusOr<RequestDraft> ReadTokenizeRequest(std::string_view body, const OpenAiLimits& limits);
// Reads the body of a request to /detokenize, which contains token ids.
absl::StatusOr<DetokenizeRequest> ReadDetokenizeRequest(std::string_view body,
                                                        const OpenAiLimits& limits);

}  // namespace incipit
