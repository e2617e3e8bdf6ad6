// A draft from outside becomes a request that holds no bad value, or an error that names the field,
// the value and the bound. Pure functions: everything behind them may trust what they return.
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

// What requests are checked against.
struct ServedModel {
  std::string name;
  int32_t vocab_size = 0;  // the width of the logits: token ids are below it
  int32_t max_model_len = 0;
  int64_t cache_tokens = 0;  // that the KV cache holds
  bool has_tokenizer = false;
  bool has_chat_template = false;
  std::vector<TokenId> eos_ids;
  GenerationDefaults defaults;  // do_sample is not looked at: temperature alone decides
};

// How output tokens become what the client receives.
struct OutputOptions {
  std::shared_ptr<const StopStringSet> stop;  // null: none
  bool include_stop = false;
  bool keep_special_tokens = false;
  bool logprobs = false;
  int32_t tokens_min = 0;  // stop strings are not looked for before
};

struct CheckedRequest {
  std::string label;  // the client's request_id; empty: the server makes one
  // Text, token ids (each of them a token of the model, and not empty), or messages.
  std::variant<std::string, std::vector<TokenId>, Conversation> prompt;
  // All but id, prompt, arrival, deadline, namespace and tenant. output_tokens_max is what was
  // asked for (0: the rest of the context) until SetPrompt; the caller chooses the seed unless
  // has_seed.
  Request request;
  bool has_seed = false;
  OutputOptions output;
  std::string cache_salt;
};

// `check_wanted` is asked between the parts of long work; its error is returned.
absl::StatusOr<CheckedRequest> CheckDraft(RequestDraft draft, const ServedModel& model,
                                          const RequestLimits& limits, CheckWanted check_wanted);

// PROMPT_TOO_LONG if a prompt of so many tokens, or more unless `is_exact`, leaves no room for
// output. `field` names where the prompt stands.
absl::Status CheckPromptLength(int64_t num_tokens, bool is_exact, std::string_view field,
                               const ServedModel& model, const RequestLimits& limits);

// Takes the prompt's token ids and checks what depends on their number: the room for the output,
// min_tokens, the size of prompt_logprobs. `field` names where the ids came from.
absl::Status SetPrompt(std::vector<TokenId> prompt, std::string_view field,
                       const ServedModel& model, const RequestLimits& limits,
                       CheckedRequest& request);

// A prompt that is known by its ids, as a request of one output token.
absl::StatusOr<CheckedRequest> CheckPrompt(TokensDraft ids, std::string salt,
                                           const ServedModel& model, const RequestLimits& limits);

// INVALID_FIELD naming the first element of `field` that is no token of the model.
absl::Status CheckTokens(std::string_view field, const TokensDraft& ids, const ServedModel& model);

// The name of a tenant: letters, digits, '.', '_', '-'.
absl::Status CheckTenant(std::string_view tenant, const RequestLimits& limits);

// Sets with whom `request` shares blocks, and whose share of the cache its retention counts
// against. If tenants are not isolated, all share.
void SetTenant(std::string_view tenant, bool is_isolated, std::string_view salt, Request& request);

}  // namespace incipit
