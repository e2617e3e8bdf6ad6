// Checks a RequestDraft and converts it to a CheckedRequest, in which every value is valid. An
// error names the field, the value and the bound. All functions are pure.
#pragma once

#include <cstdint>
#include <memory>
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
#include "text/stop_strings.h"
#include "transformer/config.h"

namespace incipit {

// The properties of the served model that the checks of requests use.
struct ServedModel {
  std::string name;
  int32_t vocab_size = 0;     // number of token ids; a token id is in [0, vocab_size)
  int32_t max_model_len = 0;  // maximum number of tokens of prompt and output together
  int64_t cache_tokens = 0;   // capacity of the KV cache in tokens
  bool has_tokenizer = false;
  bool has_chat_template = false;
  std::vector<TokenId> eos_ids;
  // `defaults.do_sample` is ignored: a temperature of 0 selects greedy sampling.
  GenerationDefaults defaults;
};

// Options for the conversion of output tokens to the output that the client receives.
struct OutputOptions {
  std::shared_ptr<const StopStringSet> stop;  // null: no stop strings
  bool include_stop = false;
  bool keep_special_tokens = false;
  bool logprobs = false;
  int32_t tokens_min = 0;  // stop strings have no effect in the first `tokens_min` tokens
};

struct CheckedRequest {
  std::string label;  // request_id of the client; if empty, the server generates a label
  // The prompt: a text, token ids (at least one; each is a token id of the model) or a
  // conversation.
  std::variant<std::string, std::vector<TokenId>, Conversation> prompt;
  // The request for the engine. Id, prompt, arrival, deadline, namespace and tenant are not set
  // yet. Before SetPrompt, `output_tokens_max` is the number that the client requested, and 0 means
  // the rest of the context. If `has_seed` is false, the caller must choose the seed.
  Request request;
  bool has_seed = false;
  OutputOptions output;
  std::string cache_salt;
};

// Checks `draft`. Calls `check_wanted` between the parts of long work and returns its error.
absl::StatusOr<CheckedRequest> CheckDraft(RequestDraft draft, const ServedModel& model,
                                          const RequestLimits& limits, CheckWanted check_wanted);

// Returns PROMPT_TOO_LONG if a prompt of `num_tokens` tokens leaves no room for output. If
// `is_exact` is false, `num_tokens` is only a lower bound. `field` names the field of the prompt in
// the error.
absl::Status CheckPromptLength(int64_t num_tokens, bool is_exact, std::string_view field,
                               const ServedModel& model, const RequestLimits& limits);

// Stores the token ids of the prompt in `request` and checks the values that depend on the length
// of the prompt: `output_tokens_max`, `output_tokens_min` and the size of the prompt log
// probabilities. `field` names the field of the prompt in the error.
absl::Status SetPrompt(std::vector<TokenId> prompt, std::string_view field,
                       const ServedModel& model, const RequestLimits& limits,
                       CheckedRequest& request);

// Returns a request with the token ids `ids` as its prompt and with one output token.
absl::StatusOr<CheckedRequest> CheckPrompt(TokensDraft ids, std::string salt,
                                           const ServedModel& model, const RequestLimits& limits);

// Returns INVALID_FIELD if `ids` has an element that is not a token id of the model. The error
// names `field` and the index of the first such element.
absl::Status CheckTokens(std::string_view field, const TokensDraft& ids, const ServedModel& model);

// Returns INVALID_FIELD unless `tenant` is a name of letters, digits, '.', '_' and '-'.
absl::Status CheckTenant(std::string_view tenant, const RequestLimits& limits);

// Sets the cache namespace of `request`, and the tenant whose share of the cache its retention
// counts against. If `is_isolated` is false, all tenants share cache blocks and the limit on
// retention.
void SetTenant(std::string_view tenant, bool is_isolated, std::string_view salt, Request& request);

}  // namespace incipit
