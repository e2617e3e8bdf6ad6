// Converts the JSON body of a request of OpenAI's API to request drafts. The fields are those of
// OpenAI, and further fields with the names that vLLM uses.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/session/request_draft.h"
#include "server/session/request_limits.h"

namespace incipit {

// How the output is written.
struct OpenAiFormat {
  bool is_chat = false;
  bool streams = false;           // server-sent events instead of one JSON object
  bool include_usage = false;     // a stream ends with the token counts
  bool echo = false;              // completions begin with the text of the prompt
  bool return_token_ids = false;  // adds the token ids of prompts and choices
  bool logprobs = false;
  int32_t num_choices = 1;  // number of choices of each prompt
};

struct OpenAiRequest {
  OpenAiFormat format;
  std::vector<RequestDraft> drafts;  // one for each prompt; at least one
};

struct OpenAiLimits {
  const RequestLimits& request;
  int64_t body_bytes_max = 4 << 20;
  int32_t prompts_max = 128;  // maximum number of prompts in one request of completions
};

struct TokenizeRequest {
  RequestDraft draft;  // only the name of the model and the prompt are set
  bool add_special_tokens = true;
};

// Return INVALID_FIELD if `body` is not valid or contains a field that the server cannot honour and
// that would change the output. Other unknown fields are ignored.
absl::StatusOr<OpenAiRequest> ReadCompletionRequest(std::string_view body,
                                                    const OpenAiLimits& limits);
absl::StatusOr<OpenAiRequest> ReadChatRequest(std::string_view body, const OpenAiLimits& limits);
// Reads a request with a prompt or messages whose token ids the client wants.
absl::StatusOr<TokenizeRequest> ReadTokenizeRequest(std::string_view body,
                                                    const OpenAiLimits& limits);
// Reads a request with token ids whose text the client wants. Returns the token ids.
absl::StatusOr<TokensDraft> ReadDetokenizeRequest(std::string_view body,
                                                  const OpenAiLimits& limits);

}  // namespace incipit
