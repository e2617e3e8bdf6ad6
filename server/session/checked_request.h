// Checks a RequestDraft (the values that a client sent) and converts the draft to a CheckedRequest,
// in which every value is valid. An error names the field, the value and the limit.
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

// The properties of the served model that are needed to check a request.
struct ServedModel {
  std::string name;
  std::vector<std::string> aliases;  // further names that clients may use
  int32_t vocab_size = 0;     // number of token ids of the model; a token id is in [0, vocab_size)
  int32_t max_model_len = 0;  // maximum number of tokens of a prompt and its output together
  int64_t cache_tokens = 0;   // capacity of the KV cache in tokens
  bool has_tokenizer = false;
  bool has_chat_template = false;
  std::vector<TokenId> eos_ids;
  // Default sampling options of requests. The member `do_sample` is not used.
  GenerationDefaults defaults;

  // Returns true if clients may use `other` as the name of the model.
  bool HasName(std::string_view other) const;
};

// The formats of tool calls and reasoning in the output of a chat.
struct OutputParsing {
  OutputFormats formats;
  bool begins_in_reasoning = false;  // true if the prompt ends inside reasoning
  // Parameters of the tools; null if the output has no tool calls.
  std::shared_ptr<const StringParameters> tools;
};

// Options that determine how output tokens become the output for the client.
struct OutputOptions {
  std::shared_ptr<const StopStringSet> stop;  // null: the request has no stop strings
  bool include_stop = false;
  bool keep_special_tokens = false;
  bool logprobs = false;
  // Stop strings do not end the output within the first `tokens_min` output tokens.
  int32_t tokens_min = 0;
  std::optional<OutputParsing> parsing = {};  // absent: the whole text is content
};

struct CheckedRequest {
  std::string label;  // request_id that the client sent; empty: the server generates a label
  // The prompt: a text, at least one valid token id, or a conversation.
  std::variant<std::string, std::vector<TokenId>, Conversation> prompt;
  // The request for the engine. CheckDraft sets the options. SetPrompt sets the prompt, and reduces
  // `output_tokens_max` to the number of tokens that fit after the prompt.
  Request request;
  bool has_seed = false;
  OutputOptions output;
  std::string cache_salt;
};

// Checks the values in `draft`. During a long check, calls `check_wanted` repeatedly, and stops if
// `check_wanted` returns an error.
absl::StatusOr<CheckedRequest> CheckDraft(RequestDraft draft, const ServedModel& model,
                                          const RequestLimits& limits, CheckWanted check_wanted);

// Returns PROMPT_TOO_LONG if a prompt of `num_tokens` tokens leaves no room for output. If
// `is_exact` is false, the prompt may have more than `num_tokens` tokens. The error names `field`.
absl::Status CheckPromptLength(int64_t num_tokens, bool is_exact, std::string_view field,
                               const ServedModel& model, const RequestLimits& limits);

// Sets the token ids of the prompt in `request`, and checks the options whose limits depend on the
// length of the prompt. An error about the prompt names `field`.
absl::Status SetPrompt(std::vector<TokenId> prompt, std::string_view field,
                       const ServedModel& model, const RequestLimits& limits,
                       CheckedRequest& request);

// Returns a checked request with the prompt `ids`, to preview the admission of the prompt.
absl::StatusOr<CheckedRequest> CheckPrompt(TokensDraft ids, std::string salt,
                                           const ServedModel& model, const RequestLimits& limits);

// Returns INVALID_FIELD if an element of `ids` is not a token id of the model. The error names
// `field` and the index of the first invalid element.
absl::Status CheckTokens(std::string_view field, const TokensDraft& ids, const ServedModel& model);

// Tenant of a request whose client names no tenant.
inline constexpr std::string_view kDefaultTenant = "default";
// Returns INVALID_FIELD unless `tenant` is a valid name: letters, digits, '.', '_' and '-'.
absl::Status CheckTenant(std::string_view tenant, const RequestLimits& limits);

// Sets the tenant and the cache namespace of `request`. Only requests with the same namespace share
// cached blocks. If `is_isolated` is false, all requests belong to the same tenant.
void SetTenant(std::string_view tenant, bool is_isolated, std::string_view salt, Request& request);

}  // namespace incipit
