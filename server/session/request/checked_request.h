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
#include "server/session/request/conversation.h"
#include "server/session/request/request_draft.h"
#include "server/session/request/request_limits.h"
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
  // Default sampling options, for requests that do not set an option. The member `do_sample` is not
  // used.
  GenerationDefaults defaults;

  // Returns true if `other` is the name of the model or one of `aliases`.
  bool HasName(std::string_view other) const;
};

// Returns an error unless `name` is empty or a name of the model `model`.
absl::Status CheckModelName(std::string_view name, const ServedModel& model);

// Rules for splitting the output of a chat into text, tool calls and reasoning.
struct OutputParsing {
  OutputFormats formats;
  // true if the prompt ends inside reasoning, so the output begins with reasoning
  bool begins_in_reasoning = false;
  // The parameters of the tools whose declared type is string. Tool calls in the output are parsed
  // with this list. If null, tool calls stay ordinary text.
  std::shared_ptr<const StringParameters> tools;
};

// Options for converting output tokens to the text and log probabilities for the client.
struct OutputOptions {
  std::shared_ptr<const StopStringSet> stop;  // null if the request has no stop strings
  bool include_stop = false;
  bool keep_special_tokens = false;
  bool logprobs = false;
  // Minimum number of output tokens. A stop string in the first `tokens_min` tokens does not end
  // the output.
  int32_t tokens_min = 0;
  // Rules for finding tool calls and reasoning in the output. If absent, the whole output is
  // ordinary text.
  std::optional<OutputParsing> parsing = {};
};

struct CheckedRequest {
  // Name (`request_id`) that the client gave the request. If empty, the server generates a name.
  std::string label;
  // The prompt: a text, at least one valid token id, or a conversation.
  std::variant<std::string, std::vector<TokenId>, Conversation> prompt;
  bool add_special_tokens = true;  // as RequestDraft::add_special_tokens
  // The request for the engine. CheckDraft sets the options. SetPrompt sets the prompt, and limits
  // `output_tokens_max` to the number of tokens that fit after the prompt.
  Request request;
  bool has_seed = false;
  OutputOptions output;
  std::string cache_salt;
};

// Checks the values in `draft`. Calls `check_wanted` repeatedly during a long check. If
// `check_wanted` returns an error (for example, because the client has cancelled), stops and
// returns this error.
absl::StatusOr<CheckedRequest> CheckDraft(RequestDraft draft, const ServedModel& model,
                                          const RequestLimits& limits, CheckWanted check_wanted);

// Returns PROMPT_TOO_LONG if a prompt of `num_tokens` tokens exceeds a limit or leaves no room for
// an output token. If `is_exact` is false, `num_tokens` is only a lower bound. The error names the
// request field `field`.
absl::Status CheckPromptLength(int64_t num_tokens, bool is_exact, std::string_view field,
                               const ServedModel& model, const RequestLimits& limits);

// Stores the token ids `prompt` in `request`, and checks the options whose limits depend on the
// prompt length. An error about the prompt names the request field `field`.
absl::Status SetPrompt(std::vector<TokenId> prompt, std::string_view field,
                       const ServedModel& model, const RequestLimits& limits,
                       CheckedRequest& request);

// Checks the prompt `ids`, and returns a request with this prompt and one output token. The server
// does not run the request. The request only serves to compute how many prompt tokens are cached
// and how many cache blocks the prompt needs.
absl::StatusOr<CheckedRequest> CheckPrompt(TokensDraft ids, std::string salt,
                                           const ServedModel& model, const RequestLimits& limits);

// Returns INVALID_FIELD if an element of `ids` is not a token id of `model`. The error names the
// request field `field` and the index of the first invalid element.
absl::Status CheckTokens(std::string_view field, const TokensDraft& ids, const ServedModel& model);

// Returns INVALID_FIELD unless `label` is a valid name of a request: only printable ASCII
// characters, and at most `limits.request_id_bytes_max` bytes.
absl::Status CheckLabel(std::string_view label, const RequestLimits& limits);

// Name of the metadata entry of a gRPC call, or of the header field of an HTTP request, that
// contains the tenant.
inline constexpr std::string_view kTenantField = "x-tenant-id";

// Returns INVALID_FIELD unless `tenant` is a valid name of a tenant: from 1 to
// `limits.tenant_bytes_max` letters, digits, '.', '_' and '-'.
absl::Status CheckTenant(std::string_view tenant, const RequestLimits& limits);

// Returns the tenant of a call in which x-tenant-id occurs `num_values` times. `value` is the value
// of x-tenant-id. Returns the default tenant if `num_values` is 0. Returns INVALID_FIELD if
// `num_values` is greater than 1, or if CheckTenant returns an error.
absl::StatusOr<std::string> TenantFrom(size_t num_values, std::string_view value,
                                       const RequestLimits& limits);

// Sets the tenant and the cache namespace of `request`. Only requests with the same namespace share
// blocks of the prefix cache. The namespace depends on `salt` and, if `is_isolated` is true, on
// `tenant`.
void SetTenant(std::string_view tenant, bool is_isolated, std::string_view salt, Request& request);

}  // namespace incipit
