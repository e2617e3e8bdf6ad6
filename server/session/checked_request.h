// Checks a RequestDraft (the values that a client sent) and converts the draft to a CheckedRequest
// (valid values). An error names the field and the limit.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "base/types.h"
#include "engine/engine.h"
#include "server/session/conversation.h"
#include "server/session/request_draft.h"
#include "server/session/request_limits.h"
#include "text/chat/string_parameters.h"
#include "text/chat/tool_format.h"
#include "text/stop_strings.h"
#include "transformer/config.h"

namespace incipit {

// Properties of the served model on which the checks of a request depend.
struct ServedModel {
  std::string name;
  // Names other than the model's own name that clients may use for the model.
  std::vector<std::string> aliases;
  int32_t vocab_size = 0;     // number of token ids of the model; a token id is in [0, vocab_size)
  int32_t max_model_len = 0;  // maximum number of tokens of a prompt and its output together
  int64_t cache_tokens = 0;   // capacity of the KV cache in tokens
  bool has_tokenizer = false;
  bool has_chat_template = false;
  std::vector<TokenId> eos_ids;
  // Default sampling options of requests. The member `do_sample` is not used.
  GenerationDefaults defaults;

  // Returns true if `other` is the name of the model or one of `aliases`.
  bool HasName(std::string_view other) const;
};

// Returns an error if `name` is not empty and not a name of `model`.
absl::Status CheckModelName(std::string_view name, const ServedModel& model);

// The way in which the output of a chat is split into text, tool calls and reasoning.
struct OutputParsing {
  OutputFormats formats;
  // true if the prompt ends inside reasoning, so the output begins with reasoning
  bool begins_in_reasoning = false;
  // Parameters that the tools declare as strings. Null: tool calls in the output stay text.
  std::shared_ptr<const StringParameters> tools;
};

// Options for converting output tokens to the text and log probabilities for the client.
struct OutputOptions {
  std::shared_ptr<const StopStringSet> stop;  // null: the request has no stop strings
  bool include_stop = false;
  bool keep_special_tokens = false;
  bool logprobs = false;
  // Stop strings do not end the output in its first `tokens_min` tokens.
  int32_t tokens_min = 0;
  // Absent: the whole text is ordinary text, without tool calls and reasoning.
  std::optional<OutputParsing> parsing = {};
};

struct CheckedRequest {
  // Name of the request that the client sent; if empty, the server generates a name.
  std::string label;
  // The prompt: a text, at least one valid token id, or a conversation.
  std::variant<std::string, std::vector<TokenId>, Conversation> prompt;
  // The request for the engine. CheckDraft sets the options; SetPrompt sets the prompt and limits
  // `output_tokens_max` to the context.
  Request request;
  bool has_seed = false;
  OutputOptions output;
  std::string cache_salt;
};

// Checks the values in `draft`. A long check calls `check_wanted` repeatedly, and stops with the
// error that `check_wanted` returns.
absl::StatusOr<CheckedRequest> CheckDraft(RequestDraft draft, const ServedModel& model,
                                          const RequestLimits& limits, CheckWanted check_wanted);

// Returns PROMPT_TOO_LONG if no output token fits after a prompt of `num_tokens` tokens. If
// `is_exact` is false, `num_tokens` is only a lower bound. The error names the request field
// `field`.
absl::Status CheckPromptLength(int64_t num_tokens, bool is_exact, std::string_view field,
                               const ServedModel& model, const RequestLimits& limits);

// Stores the token ids `prompt` in `request`, and checks the options whose limits depend on the
// prompt length. An error about the prompt names the request field `field`.
absl::Status SetPrompt(std::vector<TokenId> prompt, std::string_view field,
                       const ServedModel& model, const RequestLimits& limits,
                       CheckedRequest& request);

// Returns a checked request with the prompt `ids` and one output token. The server uses the request
// only to preview the admission of the prompt.
absl::StatusOr<CheckedRequest> CheckPrompt(TokensDraft ids, std::string salt,
                                           const ServedModel& model, const RequestLimits& limits);

// Returns INVALID_FIELD if an element of `ids` is not a token id of `model`. The error names the
// request field `field` and the index of the first invalid element.
absl::Status CheckTokens(std::string_view field, const TokensDraft& ids, const ServedModel& model);

// Returns INVALID_FIELD unless `label` may be the name of a request: printable ASCII characters of
// at most `limits.request_id_bytes_max` bytes.
absl::Status CheckLabel(std::string_view label, const RequestLimits& limits);

// Returns INVALID_FIELD unless `tenant` is a valid name: letters, digits, '.', '_' and '-' within
// the length limit.
absl::Status CheckTenant(std::string_view tenant, const RequestLimits& limits);

// Sets the tenant and the cache namespace of `request`. Only requests with the same namespace share
// cached blocks (keys and values of 16 tokens). If `is_isolated` is false, all requests belong to
// the same tenant.
void SetTenant(std::string_view tenant, bool is_isolated, std::string_view salt, Request& request);

}  // namespace incipit
